//! The rows of the micro-benchmarks: rings, mempool, mbuf; ours, libdpdk's, and the Rust peers'.
//!
//! Every program reports rows with the same key fields; a program's median is one sample, and rounds add
//! samples. Two-core samples go to the state that the program's own probe saw around the run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Cores;
use super::ours::Ours;
use super::process::{run_ok, twice};
use super::setup::Places;
use super::table::{Row, Side, Want};

/// The groups of this kind: the name for `--groups`, and the benchmark's.
pub const GROUPS: [(&str, &str); 3] = [("ringbench", "ring"), ("mempool", "mempool"), ("mbuf", "mbuf")];
/// Modes of ours for elements that cross between cores one by one; each stands in for the plain one where it is
/// better.
const STAND_INS: [(&str, &str); 2] = [("spsc", "spsc-block"), ("mpmc", "mpmc-slot")];
const BULKS: [u64; 4] = [1, 8, 32, 128];
const PAIRS: [&str; 2] = ["near", "far"];

/// A row and where its samples are.
#[derive(Debug)]
pub struct Cell {
    /// The group that `--groups` names.
    pub group: &'static str,
    key: String,
    /// Ours may also come from here: the mode, and the key.
    other: Option<(&'static str, String)>,
    /// What the lines of our rows begin with; for rings only, whose rows are many and slow.
    lines: Vec<String>,
    /// The row that the samples go to.
    pub row: Row,
}

/// The programs, the rows, and what was measured so far.
#[derive(Debug)]
pub struct Micro<'a> {
    places: &'a Places,
    ours: &'a Ours,
    peers: PathBuf,
    cores: Cores,
    runs: usize,
    cells: Vec<Cell>,
    /// Figures by program and key.
    figures: BTreeMap<(String, String), Vec<f64>>,
    /// Why ours has none, by benchmark.
    failures: BTreeMap<&'static str, String>,
}

/// The key that rows join by, from a reported row; `None` when it is not one of these benchmarks.
fn key(row: &Value) -> Option<String> {
    let text = |field: &str| row.get(field).and_then(Value::as_str);
    let number = |field: &str| row.get(field).and_then(Value::as_u64);
    Some(match text("bench")? {
        "ring" => ring_key(
            text("mode")?,
            number("cores")?,
            text("pair"),
            number("bulk")?,
            number("elem_bytes").unwrap_or(8),
        ),
        "mempool" => format!("mempool/cache{}/bulk{}", number("cache")?, number("bulk")?),
        "mbuf" => format!("mbuf/{}", text("op")?),
        _ => return None,
    })
}

fn ring_key(mode: &str, cores: u64, pair: Option<&str>, bulk: u64, bytes: u64) -> String {
    match pair {
        Some(pair) => format!("ring/{mode}/{cores}-core/{pair}/bulk{bulk}/{bytes}B"),
        None => format!("ring/{mode}/{cores}-core/bulk{bulk}/{bytes}B"),
    }
}

/// The line that `linerate perf ring` gives this row in its table.
fn ring_line(mode: &str, pair: Option<&str>, bulk: u64, bytes: u64) -> String {
    match pair {
        Some(pair) => format!("ring {mode} {bytes} B, 2 cores {pair}, bulk {bulk}"),
        None => format!("ring {mode} {bytes} B, 1 core, bulk {bulk}"),
    }
}

fn cell(group: &'static str, key: String, work: String, unit: &'static str, want: Want) -> Cell {
    let id = format!("{group}/{}", key.split_once('/').map_or("", |(_, rest)| rest));
    let row = Row {
        id,
        work,
        unit,
        want,
        ours: Side::new("ours"),
        peers: vec![],
        notes: vec![],
        pair: None,
        failed: false,
    };
    Cell { group, key, other: None, lines: vec![], row }
}

fn ring_cells(extra: bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |mode: &str, pair: Option<&'static str>, bulk, bytes, want| {
        let cores = if pair.is_some() { 2 } else { 1 };
        let name = match mode {
            "spsc" => "SP/SC",
            "mpmc" => "MP/MC",
            "rts" => "RTS",
            _ => "HTS",
        };
        let place = match pair {
            Some(pair) => format!("two cores {pair}"),
            None => "one core".into(),
        };
        let elements = if bytes == 8 { String::new() } else { format!(", {bytes}-byte elements") };
        let work = format!("ring, {place}, {name} bulk {bulk}{elements}");
        let mut cell =
            cell("ringbench", ring_key(mode, cores, pair, bulk, bytes), work, "cycles/element", want);
        cell.lines.push(ring_line(mode, pair, bulk, bytes));
        if let Some((_, other)) = STAND_INS.iter().find(|(plain, _)| *plain == mode) {
            cell.other = Some((other, ring_key(other, cores, pair, bulk, bytes)));
            cell.lines.push(ring_line(other, pair, bulk, bytes));
        }
        cell.row.pair = pair;
        cells.push(cell);
    };
    let wanted = Want::AtMost(1.0);
    for mode in ["spsc", "mpmc", "rts", "hts"] {
        BULKS.iter().for_each(|bulk| add(mode, None, *bulk, 8, wanted));
    }
    for pair in PAIRS {
        BULKS.iter().for_each(|bulk| add("spsc", Some(pair), *bulk, 8, wanted));
        BULKS[..3].iter().for_each(|bulk| add("mpmc", Some(pair), *bulk, 8, wanted));
    }
    if extra {
        for mode in ["spsc", "mpmc", "rts", "hts"] {
            BULKS.iter().for_each(|bulk| add(mode, None, *bulk, 16, Want::Nothing));
        }
        for pair in PAIRS {
            add("mpmc", Some(pair), 128, 8, Want::Nothing);
            for mode in ["rts", "hts"] {
                BULKS.iter().for_each(|bulk| add(mode, Some(pair), *bulk, 8, Want::Nothing));
            }
            for mode in ["spsc", "mpmc"] {
                BULKS.iter().for_each(|bulk| add(mode, Some(pair), *bulk, 16, Want::Nothing));
            }
        }
    }
    cells
}

fn mempool_cells() -> Vec<Cell> {
    let pairs = [256, 0].into_iter().flat_map(|cache| [1, 4, 32].map(|bulk| (cache, bulk)));
    pairs
        .map(|(cache, bulk)| {
            let with = if cache == 0 { "without cache".into() } else { format!("cache {cache}") };
            cell(
                "mempool",
                format!("mempool/cache{cache}/bulk{bulk}"),
                format!("pool get+put, {with}, bulk {bulk}"),
                "cycles/object",
                Want::AtMost(1.0),
            )
        })
        .collect()
}

fn mbuf_cells() -> Vec<Cell> {
    [
        ("alloc_free", "mbuf alloc+free, single", 0.6),
        ("alloc_free_bulk32", "mbuf alloc+free, bulk 32", 0.6),
        ("refcnt_from_1", "count +1 -1 from 1", 1.0),
        ("refcnt_from_2", "count +1 -1 from 2", 1.0),
        ("clone_free", "clone+free", 1.0),
        ("attach_detach", "attach+detach", 1.0),
        ("prefree", "pre-free of an unshared mbuf", 1.0),
    ]
    .into_iter()
    .map(|(op, work, want)| {
        cell("mbuf", format!("mbuf/{op}"), work.into(), "cycles/mbuf", Want::AtMost(want))
    })
    .collect()
}

/// All rows of the micro-benchmarks, in the order of the issue's table; those that it does not ask for only
/// with `extra`.
pub fn cells(extra: bool) -> Vec<Cell> {
    [ring_cells(extra), mempool_cells(), mbuf_cells()].into_iter().flatten().collect()
}

impl<'a> Micro<'a> {
    /// Prepares to measure `cells`, each program on `cores` with `runs` runs a row.
    pub fn new(
        places: &'a Places,
        ours: &'a Ours,
        peers: PathBuf,
        (cores, runs): (Cores, usize),
        cells: Vec<Cell>,
    ) -> Self {
        Self { places, ours, peers, cores, runs, cells, figures: BTreeMap::new(), failures: BTreeMap::new() }
    }

    fn wants(&self, bench: &str) -> bool {
        self.cells.iter().any(|cell| cell.key.split('/').next() == Some(bench))
    }

    /// One round of every program that a row needs, DPDK first when `dpdk_first`.
    ///
    /// # Errors
    /// When a peer fails: then nothing here can be compared.
    pub fn round(&mut self, dpdk_first: bool) -> Result<()> {
        for (_, bench) in GROUPS {
            if self.wants(bench) {
                let pairs = self.cells.iter().filter(|cell| cell.group == "ringbench").map(|c| c.row.pair);
                let (two, one): (Vec<_>, Vec<_>) = pairs.partition(Option::is_some);
                let parts = [("one", one), ("two", two)].into_iter().filter(|(_, rows)| !rows.is_empty());
                let parts: Vec<_> = parts.map(|(part, _)| part).collect();
                self.round_of(bench, dpdk_first, &parts, |_| true)?;
            }
        }
        Ok(())
    }

    /// `parts` are the peers' and DPDK's for rings, `rows` says which of ours are measured.
    fn round_of(
        &mut self,
        bench: &'static str,
        dpdk_first: bool,
        parts: &[&str],
        rows: impl Fn(&Cell) -> bool,
    ) -> Result<()> {
        let cells = self.cells.iter().filter(|cell| cell.key.split('/').next() == Some(bench) && rows(cell));
        let lines: Vec<String> = cells.flat_map(|cell| cell.lines.clone()).collect();
        for dpdk in [dpdk_first, !dpdk_first] {
            if !dpdk {
                match self.ours.perf(bench, &lines) {
                    Ok(rows) => self.keep("ours", &rows),
                    Err(error) => {
                        let first = self.ours.note_failure(&format!("perf {bench}"), &error);
                        self.failures.insert(bench, first);
                    }
                }
                continue;
            }
            let rows = twice(|| self.dpdk(bench, parts)).with_context(|| format!("DPDK, at {bench}"))?;
            self.keep("DPDK", &rows);
            if bench == "ring" {
                let rows = self.rust_peers(parts).context("the Rust peers")?;
                self.keep("", &rows);
            }
        }
        Ok(())
    }

    /// The states of the core pair that some row still lacks samples of, on either side.
    fn lacking(&self, rounds: usize) -> Vec<&'static str> {
        let count =
            |who: &str, key: &str| self.figures.get(&(who.to_owned(), key.to_owned())).map_or(0, Vec::len);
        let lacks = |cell: &Cell| {
            count("DPDK", &cell.key) < rounds
                || (!self.failures.contains_key("ring") && count("ours", &cell.key) < rounds)
        };
        let in_state = |pair| self.cells.iter().filter(move |cell| cell.row.pair == Some(pair));
        PAIRS.into_iter().filter(|pair| in_state(*pair).any(lacks)).collect()
    }

    /// Waits up to `limit` for states of the core pair that did not occur often enough, and measures in them.
    ///
    /// # Errors
    /// As [`Micro::round`].
    pub fn chase_pairs(&mut self, rounds: usize, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        let mut told = false;
        loop {
            let lacking = self.lacking(rounds);
            if lacking.is_empty() || Instant::now() >= end {
                return Ok(());
            }
            if !told {
                let names = lacking.join(" and ");
                eprintln!("waiting up to {} s for the core pair to be {names}", limit.as_secs());
                told = true;
            }
            let state = super::probe(&self.peers, self.cores)?;
            if let Some(pair) = lacking.iter().find(|pair| state.pair.as_deref() == Some(pair)) {
                self.round_of("ring", true, &["two"], |cell| cell.row.pair == Some(pair))?;
            } else {
                std::thread::sleep(Duration::from_secs(2).min(end.saturating_duration_since(Instant::now())));
            }
        }
    }

    fn dpdk(&self, bench: &str, parts: &[&str]) -> Result<Vec<Value>> {
        let mut command = Command::new(self.places.program(bench));
        let Cores { measured, other } = self.cores;
        // The main lcore is the first: it measures, and produces in two-core rows.
        command
            .arg(format!("--lcores=0@{measured},1@{other}"))
            .args([
                "--no-pci",
                "--in-memory",
                "--no-telemetry",
                "-m",
                "64",
                "--log-level=lib.eal:warning",
                "--",
            ])
            .args(["--runs", &self.runs.to_string()]);
        if bench == "ring" {
            command.args(parts);
        }
        json_lines(&run_ok(&mut command, &[], Duration::from_secs(300))?.stdout)
    }

    fn rust_peers(&self, parts: &[&str]) -> Result<Vec<Value>> {
        let mut command = Command::new(&self.peers);
        let Cores { measured, other } = self.cores;
        command.args(parts).args(["--runs", &self.runs.to_string()]);
        command.args(["--cores", &format!("{measured},{other}")]);
        json_lines(&run_ok(&mut command, &[], Duration::from_secs(300))?.stdout)
    }

    /// Files the medians under `who`, or under the row's own `peer` when that is empty.
    fn keep(&mut self, who: &str, rows: &[Value]) {
        for row in rows {
            let who = if who.is_empty() { row["peer"].as_str().unwrap_or("?") } else { who };
            if let (Some(key), Some(median)) = (key(row), row["median"].as_f64()) {
                self.figures.entry((who.to_owned(), key)).or_default().push(median);
            }
        }
    }

    /// The rows with everything measured.
    pub fn into_rows(self, rounds: usize) -> Vec<Row> {
        let Self { cells, figures, failures, .. } = self;
        let side = |who: &str, key: &str| {
            let mut side = Side::new(who);
            let found = figures.get(&(who.to_owned(), key.to_owned()));
            found.into_iter().flatten().for_each(|v| side.samples.add(*v));
            side
        };
        let finish = |mut cell: Cell| {
            let bench = cell.key.split('/').next().unwrap_or_default();
            cell.row.ours = side("ours", &cell.key);
            if let Some((mode, other)) = cell.other.map(|(mode, key)| (mode, side("ours", &key))) {
                let better = match (other.samples.median(), cell.row.ours.samples.median()) {
                    (Some(other), Some(plain)) => other < plain,
                    (other, _) => other.is_some(),
                };
                if better {
                    cell.row.ours = other;
                    cell.row.notes.push(format!("ours is the mode {mode}"));
                }
            }
            let names: Vec<_> = figures
                .keys()
                .filter(|(who, key)| who != "ours" && *key == cell.key)
                .map(|(who, _)| who)
                .collect();
            cell.row.peers = names.into_iter().map(|who| side(who, &cell.key)).collect();
            let count = cell.row.ours.samples.len();
            let fewest = cell.row.peers.iter().map(|p| p.samples.len()).min().unwrap_or(0).min(count);
            match failures.get(bench) {
                Some(why) => {
                    cell.row.failed = true;
                    cell.row.notes.push(format!("ours: {why}"));
                }
                // Without a pair's state there is nothing to wait for: the row should have come.
                None if count == 0 && cell.row.pair.is_none() => {
                    cell.row.failed = true;
                    cell.row.notes.push("ours: not among the rows of linerate perf".into());
                }
                None if count > 0 && fewest > 0 && fewest < rounds => {
                    cell.row.notes.push(format!("{fewest} of {rounds} samples a side in this state"));
                }
                None => {}
            }
            cell.row
        };
        cells.into_iter().map(finish).collect()
    }
}

fn json_lines(text: &str) -> Result<Vec<Value>> {
    let rows: Vec<Value> = text
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).with_context(|| format!("not JSON: {line}")))
        .collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "no rows in:\n{text}");
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_issue_rows_join_with_reported_rows() {
        let reported = [
            json!({"bench":"ring","mode":"spsc","cores":1,"pair":null,"bulk":32,"elem_bytes":8}),
            json!({"bench":"ring","mode":"mpmc","cores":2,"pair":"far","bulk":8,"elem_bytes":8}),
            json!({"bench":"mempool","cache":0,"bulk":4}),
            json!({"bench":"mbuf","op":"prefree"}),
        ];
        let all: Vec<Cell> = cells(false);
        for row in &reported {
            let key = key(row).expect("a key");
            assert_eq!(all.iter().filter(|c| c.key == key).count(), 1, "{key}");
        }
        assert_eq!(key(&json!({"bench": "orderings"})), None);
        assert_eq!(key(&json!({"bench": "ring", "mode": "spsc"})), None, "half a row has no key");
    }

    #[test]
    fn our_ring_rows_are_asked_for_by_their_lines() {
        let cells = cells(false);
        let far =
            cells.iter().find(|c| c.key == "ring/spsc/2-core/far/bulk1/8B").expect("a row of the issue");
        let modes = ["spsc", "spsc-block"];
        assert_eq!(far.lines, modes.map(|mode| format!("ring {mode} 8 B, 2 cores far, bulk 1")));
        assert!(cells.iter().all(|c| c.lines.is_empty() != (c.group == "ringbench")));
    }

    #[test]
    fn every_cell_of_the_issue_is_there_once() {
        for (cells, want) in [(ring_cells(false), 16 + 14), (mempool_cells(), 6), (mbuf_cells(), 7)] {
            let keys: std::collections::BTreeSet<_> = cells.iter().map(|c| &c.key).collect();
            assert_eq!((keys.len(), cells.len()), (want, want));
        }
        let more = ring_cells(true);
        assert!(more.iter().filter(|c| c.row.want == Want::Nothing).count() > 30);
    }

    #[test]
    fn lines_that_are_no_rows_are_passed_over() {
        let rows = json_lines("EAL: Detected CPU lcores: 2\n{\"bench\":\"mbuf\"}\n").expect("one row");
        assert_eq!(rows.len(), 1);
        assert!(json_lines("EAL: nothing\n").is_err());
        assert!(json_lines("{broken\n").is_err());
    }
}
