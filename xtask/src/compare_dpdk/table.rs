//! The one table: rows with both sides' samples, the ratio, what is wanted, and the verdict.

use serde_json::{Value, json};

/// Ties count within 3 %.
const TIE: f64 = 0.03;
/// Below this share of the core in either side's runs, rates are compared by on-CPU time.
const FULL_SHARE: f64 = 0.98;

/// Samples of one figure, one a round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds one round's figure.
    pub fn add(&mut self, value: f64) {
        let at = self.0.partition_point(|v| *v < value);
        self.0.insert(at, value);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Smallest, median and largest; `None` without samples.
    pub fn spread(&self) -> Option<(f64, f64, f64)> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        let (a, b) = (self.0[(self.0.len() - 1) / 2], self.0[self.0.len() / 2]);
        Some((*first, (a + b) / 2.0, *last))
    }

    /// The median.
    pub fn median(&self) -> Option<f64> {
        Some(self.spread()?.1)
    }

    fn json(&self) -> Value {
        match self.spread() {
            Some((min, median, max)) => json!({"min": min, "median": median, "max": max, "samples": self.0}),
            None => Value::Null,
        }
    }
}

/// One side of a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    /// `ours`, `DPDK`, `rtrb-chunk` and so on.
    pub name: String,
    /// The row's figure.
    pub samples: Samples,
    /// Rates only: TSC cycles a packet (on-CPU, or busy where the work's name says so).
    pub cycles: Samples,
    /// Rates only: Mpps as they would be with the core for itself.
    pub on_cpu_mpps: Samples,
}

impl Side {
    /// A side without samples.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// The share of the core that the thread had; `None` when not known.
    fn share(&self) -> Option<f64> {
        Some(self.samples.median()? / self.on_cpu_mpps.median()?)
    }

    fn json(&self) -> Value {
        json!({"name": self.name, "figure": self.samples.json(), "cycles_per_packet": self.cycles.json(),
            "on_cpu_mpps": self.on_cpu_mpps.json()})
    }
}

/// What the ratio must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Want {
    /// Ours divided by the peer's, at least.
    AtLeast(f64),
    /// Ours divided by the better peer's, at most.
    AtMost(f64),
    /// The figure is a ratio of ours to ours already, and at most this.
    SelfAtMost(f64),
    /// Shown, not judged.
    Nothing,
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// The key that `--only` looks in.
    pub id: String,
    /// The work, for people.
    pub work: String,
    /// The figure's unit.
    pub unit: &'static str,
    /// What is wanted.
    pub want: Want,
    /// Our side.
    pub ours: Side,
    /// The others.
    pub peers: Vec<Side>,
    /// Why a side has no samples, or what else must be known.
    pub notes: Vec<String>,
    /// The core pair's state that this row needs.
    pub pair: Option<&'static str>,
    /// A side failed, or lacks what the row needs.
    pub failed: bool,
}

/// How a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Reached.
    Ok,
    /// Within 3 % of what is wanted.
    Tie,
    /// Missed.
    Short,
    /// The core pair was never in the state that the row is about.
    NotMet,
    /// A side could not be measured.
    NotMeasured,
    /// Nothing is wanted of this row.
    Shown,
}

impl Verdict {
    /// As the table has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Tie => "tie",
            Self::Short => "short",
            Self::NotMet => "not met",
            Self::NotMeasured => "n/a",
            Self::Shown => "-",
        }
    }
}

/// A row with its ratio.
#[derive(Debug)]
pub struct Judged<'r> {
    row: &'r Row,
    /// The peer that ours is divided by.
    peer: Option<&'r Side>,
    /// Whether rates were compared by on-CPU time.
    on_cpu: bool,
    /// Ours divided by the peer's.
    pub ratio: Option<f64>,
    /// How it ended.
    pub verdict: Verdict,
}

impl Row {
    /// Finds the better peer, the ratio and the verdict.
    pub fn judge(&self) -> Judged<'_> {
        let measured = self.peers.iter().filter(|p| p.samples.len() > 0);
        let by_median = |a: &&Side, b: &&Side| {
            a.samples.median().unwrap_or(f64::NAN).total_cmp(&b.samples.median().unwrap_or(f64::NAN))
        };
        let peer = match self.want {
            Want::AtLeast(_) => measured.max_by(by_median),
            _ => measured.min_by(by_median),
        };
        // Whoever lost the core for a part of the run is not slower for it.
        let sides: Vec<&Side> = [Some(&self.ours), peer].into_iter().flatten().collect();
        let on_cpu = sides.iter().all(|s| s.share().is_some())
            && sides.iter().any(|s| s.share().is_some_and(|share| share < FULL_SHARE));
        let figure = |side: &Side| (if on_cpu { &side.on_cpu_mpps } else { &side.samples }).median();
        let ratio = match self.want {
            Want::SelfAtMost(_) => self.ours.samples.median(),
            _ => peer.and_then(|peer| Some(figure(&self.ours)? / figure(peer)?)),
        };
        let verdict = match (ratio, self.want) {
            (None, _) if self.pair.is_some() && !self.failed => Verdict::NotMet,
            (None, _) => Verdict::NotMeasured,
            (_, Want::Nothing) => Verdict::Shown,
            (Some(r), Want::AtLeast(w)) => grade(r >= w, r >= w * (1.0 - TIE)),
            (Some(r), Want::AtMost(w) | Want::SelfAtMost(w)) => grade(r <= w, r <= w * (1.0 + TIE)),
        };
        Judged { row: self, peer, on_cpu, ratio, verdict }
    }
}

fn grade(reached: bool, near: bool) -> Verdict {
    match (reached, near) {
        (true, _) => Verdict::Ok,
        (false, true) => Verdict::Tie,
        (false, false) => Verdict::Short,
    }
}

const HEAD: [&str; 9] =
    ["work", "unit", "ours", "peer", "which peer", "cycles/packet ours : peer", "ratio", "wanted", "verdict"];

impl Judged<'_> {
    fn cells(&self) -> [String; 9] {
        let row = self.row;
        let cycles = |side: Option<&Side>| side.and_then(|s| s.cycles.median()).map_or("n/a".into(), number);
        let both = if row.unit == "Mpps" {
            format!("{} : {}", cycles(Some(&row.ours)), cycles(self.peer))
        } else {
            String::new()
        };
        let wanted = match row.want {
            Want::AtLeast(w) => format!("≥ {w:.1}"),
            Want::AtMost(w) | Want::SelfAtMost(w) => format!("≤ {w:.1}"),
            Want::Nothing => String::new(),
        };
        let mut ratio = self.ratio.map_or("n/a".into(), |r| format!("{r:.2}"));
        if self.on_cpu {
            ratio.push('*');
        }
        [
            row.work.clone(),
            row.unit.to_owned(),
            spread(&row.ours.samples),
            self.peer.map_or("n/a".into(), |p| spread(&p.samples)),
            self.peer.map_or(String::new(), |p| p.name.clone()),
            both,
            ratio,
            wanted,
            self.verdict.name().to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let (want, sense) = match self.row.want {
            Want::AtLeast(w) => (Some(w), "at_least"),
            Want::AtMost(w) => (Some(w), "at_most"),
            Want::SelfAtMost(w) => (Some(w), "ours_to_ours_at_most"),
            Want::Nothing => (None, "shown"),
        };
        json!({
            "id": self.row.id, "work": self.row.work, "unit": self.row.unit, "pair": self.row.pair,
            "ours": self.row.ours.json(), "peers": self.row.peers.iter().map(Side::json).collect::<Vec<_>>(),
            "peer": self.peer.map(|p| &p.name), "basis": if self.on_cpu { "on_cpu" } else { "wall" },
            "ratio": self.ratio, "wanted": want, "sense": sense, "verdict": self.verdict.name(),
            "notes": self.row.notes,
        })
    }
}

fn number(v: f64) -> String {
    match v.abs() {
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        _ => format!("{v:.2}"),
    }
}

fn spread(samples: &Samples) -> String {
    match samples.spread() {
        None => "n/a".into(),
        Some((_, median, _)) if samples.len() == 1 => number(median),
        Some((min, median, max)) => format!("{} ({}-{})", number(median), number(min), number(max)),
    }
}

/// The table for people, or as Markdown.
pub fn render(rows: &[Row], markdown: bool) -> String {
    let judged: Vec<_> = rows.iter().map(Row::judge).collect();
    let lines: Vec<[String; 9]> =
        std::iter::once(HEAD.map(str::to_owned)).chain(judged.iter().map(Judged::cells)).collect();
    let width: [usize; 9] =
        std::array::from_fn(|c| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0));
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        if markdown {
            out += &format!("| {} |\n", line.join(" | "));
            if i == 0 {
                out += &format!("|{}\n", "---|".repeat(HEAD.len()));
            }
        } else {
            let padded: Vec<String> = line
                .iter()
                .zip(width)
                .map(|(cell, w)| format!("{cell}{}", " ".repeat(w - cell.chars().count())))
                .collect();
            out += padded.join("  ").trim_end();
            out.push('\n');
        }
    }
    out.push('\n');
    if judged.iter().any(|j| j.on_cpu) {
        out += "\\* compared by on-CPU time: a thread did not have its core for itself (Mpps shown are by the wall clock).\n";
    }
    out += &notes(rows);
    let count = |v: Verdict| judged.iter().filter(|j| j.verdict == v).count();
    let all = [Verdict::Ok, Verdict::Tie, Verdict::Short, Verdict::NotMet, Verdict::NotMeasured];
    let counts: Vec<String> = all.iter().map(|v| format!("{} {}", count(*v), v.name())).collect();
    out += &format!("\n{} rows: {}\n", rows.len(), counts.join(", "));
    out
}

/// What must be known beside the table, each note once, with the rows that it is about.
fn notes(rows: &[Row]) -> String {
    let mut by_note: Vec<(&str, Vec<&str>)> = Vec::new();
    for (row, note) in rows.iter().flat_map(|row| row.notes.iter().map(move |note| (row, note.as_str()))) {
        match by_note.iter_mut().find(|(n, _)| *n == note) {
            Some((_, works)) => works.push(&row.work),
            None => by_note.push((note, vec![&row.work])),
        }
    }
    let line = |(note, works): &(&str, Vec<&str>)| match works.as_slice() {
        works if works.len() == rows.len() => format!("- {note} (every row)\n"),
        [first, .., last] if works.len() > 4 => {
            format!("- {note} ({} rows, from \"{first}\" to \"{last}\")\n", works.len())
        }
        works => format!("- {note} ({})\n", works.join("; ")),
    };
    by_note.iter().map(line).collect()
}

/// The table for programs.
pub fn json(rows: &[Row]) -> Value {
    rows.iter().map(|row| row.judge().json()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, values: &[f64]) -> Side {
        let mut side = Side::new(name);
        values.iter().for_each(|v| side.samples.add(*v));
        side
    }

    fn row(want: Want, ours: &[f64], peers: &[(&str, &[f64])]) -> Row {
        Row {
            id: "x".into(),
            work: "x".into(),
            unit: "Mpps",
            want,
            ours: side("ours", ours),
            peers: peers.iter().map(|(n, v)| side(n, v)).collect(),
            notes: vec![],
            pair: None,
            failed: false,
        }
    }

    #[test]
    fn the_median_is_between_the_middle_two() {
        let s = side("x", &[5.0, 1.0, 3.0, 2.0]).samples;
        assert_eq!(s.spread(), Some((1.0, 2.5, 5.0)));
        assert_eq!(side("x", &[9.0, 1.0, 2.0]).samples.median(), Some(2.0));
        assert_eq!(Samples::default().median(), None);
    }

    #[test]
    fn rates_want_more_and_cycles_want_less() {
        let rate = |ours| row(Want::AtLeast(1.2), &[ours], &[("DPDK", &[100.0])]).judge().verdict;
        assert_eq!(rate(120.0), Verdict::Ok);
        assert_eq!(rate(117.0), Verdict::Tie);
        assert_eq!(rate(116.0), Verdict::Short);
        let cycles = |ours| row(Want::AtMost(1.0), &[ours], &[("DPDK", &[2.0])]).judge().verdict;
        assert_eq!(cycles(2.0), Verdict::Ok);
        assert_eq!(cycles(2.05), Verdict::Tie);
        assert_eq!(cycles(2.07), Verdict::Short);
    }

    #[test]
    fn the_better_peer_is_the_judge() {
        let row = row(Want::AtMost(1.0), &[3.0], &[("DPDK", &[4.0]), ("rtrb-chunk", &[2.0]), ("none", &[])]);
        let judged = row.judge();
        assert_eq!(judged.peer.map(|p| p.name.as_str()), Some("rtrb-chunk"));
        assert_eq!((judged.ratio, judged.verdict), (Some(1.5), Verdict::Short));
    }

    #[test]
    fn a_missing_side_is_no_verdict_and_a_missing_state_is_not_met() {
        assert_eq!(row(Want::AtMost(1.0), &[], &[("DPDK", &[4.0])]).judge().verdict, Verdict::NotMeasured);
        assert_eq!(row(Want::AtMost(1.0), &[1.0], &[]).judge().verdict, Verdict::NotMeasured);
        let mut absent = row(Want::AtMost(1.0), &[], &[("DPDK", &[])]);
        absent.pair = Some("far");
        assert_eq!(absent.judge().verdict, Verdict::NotMet);
        absent.failed = true;
        assert_eq!(absent.judge().verdict, Verdict::NotMeasured, "it is not the machine's fault");
    }

    #[test]
    fn a_preempted_side_is_compared_by_on_cpu_time() {
        let mut r = row(Want::AtLeast(1.0), &[60.0], &[("DPDK", &[100.0])]);
        r.ours.on_cpu_mpps.add(120.0);
        assert_eq!(r.judge().ratio, Some(0.6), "one side alone cannot be corrected");
        r.peers[0].on_cpu_mpps.add(100.0);
        let judged = r.judge();
        assert_eq!((judged.ratio, judged.on_cpu, judged.verdict), (Some(1.2), true, Verdict::Ok));
    }

    #[test]
    fn ours_to_ours_needs_no_peer() {
        assert_eq!(row(Want::SelfAtMost(1.3), &[1.25], &[]).judge().verdict, Verdict::Ok);
        assert_eq!(row(Want::SelfAtMost(1.3), &[1.4], &[("DPDK", &[2.7])]).judge().verdict, Verdict::Short);
    }

    #[test]
    fn markdown_has_a_rule_under_its_head() {
        let text = render(&[row(Want::AtLeast(1.0), &[2.0, 2.2], &[("DPDK", &[1.0])])], true);
        assert!(text.contains("|---|---|"), "{text}");
        assert!(text.contains("2.10 (2.00-2.20)"), "{text}");
        assert!(text.contains("1 rows: 1 ok"), "{text}");
    }
}
