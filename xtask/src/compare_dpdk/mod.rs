//! `cargo xtask compare-dpdk`: ours and DPDK's side by side in one run, one table with every ratio.
//!
//! Both sides run alternately, on the same core, with equal pools, caches and bursts, each process in its own
//! session with a raised weight. Each row's figure is the median over the rounds.

mod capture;
mod forward;
mod micro;
mod ours;
mod process;
mod setup;
mod table;
mod testpmd;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::json;

use self::forward::Bench;
use self::micro::Micro;
use self::ours::Ours;
use self::setup::Places;
use self::table::{Row, Verdict};

/// The groups of rows, in the order of the table.
const GROUPS: [&str; 7] = ["null", "ring", "pcap", "nohuge", "ringbench", "mempool", "mbuf"];
/// Rounds that a published median needs.
const ROUNDS: usize = 5;

/// Measures linerate and DPDK alternately and prints one table with the ratio of every row.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rounds; a row's figure is the median over them (5 or more for figures to publish)
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=99))]
    rounds: usize,
    /// Seconds that each forwarding rate is taken over
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Only these groups, by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(GROUPS))]
    groups: Vec<String>,
    /// Only rows whose id or work contains this, for example `null/io` or `two cores far`
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Writes all samples and verdicts as JSON (`-` for standard output, then without the table)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Prints the table as Markdown
    #[arg(long)]
    markdown: bool,
    /// One round of short runs: shows that everything works, not how fast it is
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Also shows what is measured beyond the wanted rows (16-byte elements, RTS and HTS on two cores)
    #[arg(long)]
    extra: bool,
    /// Measures the peers alone; our side is n/a
    #[arg(long)]
    peers_only: bool,
    /// The core that forwards and measures on both sides [default: the last one]
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Seconds to wait at the end for a state of the core pair (near or far) that did not occur yet
    #[arg(long, value_name = "S", default_value_t = 60)]
    pair_wait: u64,
    /// Prints the rows' ids and ends
    #[arg(long)]
    list: bool,
}

/// Who runs where.
#[derive(Debug, Clone, Copy)]
pub struct Cores {
    /// Forwards and measures, on both sides.
    pub measured: usize,
    /// DPDK's main thread, and the other side of two-core rows.
    pub other: usize,
}

/// What the probe of the Rust peers says.
#[derive(Debug, Deserialize)]
struct Probe {
    pair: Option<String>,
    round_trip_ns: Option<f64>,
    tsc_hz: f64,
}

fn probe(peers: &Path, cores: Cores) -> Result<Probe> {
    let mut command = Command::new(peers);
    command.args(["probe", "--cores", &format!("{},{}", cores.measured, cores.other)]);
    let text = process::run_ok(&mut command, &[], Duration::from_secs(30))?.stdout;
    serde_json::from_str(&text).context("what the probe of the core pair printed")
}

/// Runs the comparison. The exit status is 0 when every row was measured, whatever the verdicts: a slow machine
/// is no failure of a build; 1 when a side failed.
///
/// # Errors
/// When the machine lacks something, or DPDK fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let chosen = |group: &str, row: &Row| {
        let group_is = args.groups.is_empty() || args.groups.iter().any(|g| g == group);
        let text = args.only.as_deref().unwrap_or("");
        group_is && (row.id.contains(text) || row.work.contains(text))
    };
    let mut cases = forward::cases();
    cases.retain(|case| chosen(case.group, &case.row));
    let mut cells = micro::cells(args.extra);
    cells.retain(|cell| chosen(cell.group, &cell.row));
    if args.list {
        let rows = cases.iter().map(|case| &case.row).chain(cells.iter().map(|cell| &cell.row));
        let lines: String = rows.map(|row| format!("{:<48} {}\n", row.id, row.work)).collect();
        return show(&lines).map(|()| ExitCode::SUCCESS);
    }
    if cases.is_empty() && cells.is_empty() {
        bail!("no row matches\nhint: cargo xtask compare-dpdk --list shows them all");
    }
    let places = Places::find()?;
    let cores = choose_cores(args.core)?;

    let dpdk = setup::prepare(true)?;
    let pages_before = setup::free_huge_pages();
    eprintln!("building the peers and linerate");
    setup::build_c(&places)?;
    let peers = setup::build_peers(&places)?;
    let program = if args.peers_only {
        Err("not measured (--peers-only)".to_owned())
    } else {
        Ok(setup::build_ours(&places)?)
    };
    let ours = Ours::new(program, &places.scratch, cores.measured);
    let state = probe(&peers, cores)?;
    let head = header(&dpdk, cores, &state);
    eprintln!("{head}");

    let (rounds, runs) = if args.quick { (1, 3) } else { (args.rounds, 11) };
    let mut micro = Micro::new(&places, &ours, peers, (cores, runs), cells);
    let bench = Bench { ours: &ours, places: &places, cores, seconds: args.seconds, tsc_hz: state.tsc_hz };
    if cases.iter().any(forward::Case::needs_capture) {
        bench.write_captures()?;
    }
    let (began, stolen) = (Instant::now(), steal_seconds());
    for round in 0..rounds {
        for (i, case) in cases.iter_mut().enumerate() {
            // Who goes first changes by row and round: whoever warms the machine does it for both.
            let said = case.round(&bench, (round + i).is_multiple_of(2));
            // What never worked will not; what did once is not worth the whole run.
            let said = if round == 0 { said? } else { said.unwrap_or_else(|error| format!("{error:#}")) };
            eprintln!("[{}/{rounds}] {}: {said}", round + 1, case.row.id);
        }
        match micro.round(round.is_multiple_of(2)) {
            Err(error) if round > 0 => eprintln!("{error:#}"),
            done => done?,
        }
        eprintln!("[{}/{rounds}] done after {} s", round + 1, began.elapsed().as_secs());
    }
    if !args.quick {
        micro.chase_pairs(rounds, Duration::from_secs(args.pair_wait))?;
    }
    let rows: Vec<Row> = cases.into_iter().map(|c| c.row).chain(micro.into_rows(rounds)).collect();

    let stolen = steal_seconds() - stolen;
    if stolen > began.elapsed().as_secs_f64() * 0.005 {
        eprintln!("note: the host took {stolen:.1} s of CPU time away during this run");
    }
    let pages = setup::free_huge_pages();
    if pages < pages_before {
        eprintln!("note: {} huge pages fewer are free than before", pages_before - pages);
    }
    let whole = json!({
        "machine": head, "dpdk": dpdk, "rounds": rounds, "seconds": args.seconds, "tsc_hz": state.tsc_hz,
        "steal_s": stolen, "rows": table::json(&rows),
    });
    let text = serde_json::to_string_pretty(&whole)?;
    match &args.json {
        Some(path) if path.as_os_str() == "-" => show(&(text + "\n"))?,
        path => {
            if let Some(path) = path {
                std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
            }
            show(&format!("{head}\n\n{}", table::render(&rows, args.markdown)))?;
        }
    }
    if rounds < ROUNDS {
        eprintln!("note: {rounds} rounds; figures to publish are medians of {ROUNDS} or more");
    }
    let failed = rows.iter().any(|row| row.failed || row.judge().verdict == Verdict::NotMeasured);
    Ok(if failed && !args.peers_only { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints to standard output; a reader that went away (`| head`) is no failure.
fn show(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot print"),
    }
}

fn choose_cores(asked: Option<usize>) -> Result<Cores> {
    let usable = setup::usable_cores()?;
    let measured = asked.or(usable.last().copied()).context("no core may be used")?;
    if !usable.contains(&measured) {
        bail!("core {measured} may not be used here; usable: {usable:?}");
    }
    let other = usable.iter().copied().find(|core| *core != measured);
    let other =
        other.context("one core is not enough: two-core rows and DPDK's own main thread need a second")?;
    Ok(Cores { measured, other })
}

fn header(dpdk: &str, cores: Cores, state: &Probe) -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map_or("unknown CPU", |l| l.trim_start_matches([' ', '\t', ':']));
    let pair = match (&state.pair, state.round_trip_ns) {
        (Some(pair), Some(ns)) => format!("{pair}, {ns:.0} ns round trip"),
        _ => "unknown".into(),
    };
    format!(
        "DPDK {dpdk} (its packages are built for {}), {model}, TSC {:.3} GHz, measured on core {}, pair with core {}: {pair}",
        if cfg!(target_arch = "x86_64") { "corei7" } else { "this architecture's baseline" },
        state.tsc_hz / 1e9,
        cores.measured,
        cores.other,
    )
}

/// Seconds that the hypervisor gave our CPUs' time to others, since boot, all CPUs.
fn steal_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.split_whitespace().nth(8).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    ticks / 100.0 // USER_HZ is 100 on every architecture that this runs on
}
