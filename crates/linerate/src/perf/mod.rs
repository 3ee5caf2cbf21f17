//! `linerate perf`: what rings, pools and packet buffers cost, in cycles of the time stamp counter.

mod mbuf;
mod mempool;
mod output;
mod pair;
mod ring;
mod ring_ends;
mod sample;

use clap::{Args as ClapArgs, Subcommand};
use linerate::mem::{CoreId, TscClock, allowed_cores, pin_current_thread};
use output::Report;
use std::{path::PathBuf, process::ExitCode};

/// Options of `linerate perf`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    bench: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Rings: every sync mode, on one core, between two, and on all.
    Ring(Options),
    /// Pools: getting and putting buffers, with and without a cache.
    Mempool(Options),
    /// Packet buffers: allocation, free, counts, clones, bytes.
    Mbuf(Options),
}

/// Options that every benchmark has.
#[derive(Debug, Clone, ClapArgs)]
pub struct Options {
    /// Write the rows as JSON to this file (- = standard output, and the table is left out)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure each row so often; min, median and max of them are printed
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1001))]
    repeats: u32,
    /// Cores to measure on: the first alone, the first two as a pair [default: those allowed, the last first]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    cores: Vec<u32>,
    /// Shorter measurements, for a look and for tests; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Only rows whose line in the table holds this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
}

/// What a benchmark gets.
struct Bench<'a> {
    options: &'a Options,
    cores: Vec<CoreId>,
    clock: TscClock,
}

impl Bench<'_> {
    /// How many elements to move in one measurement of about `n`.
    fn work(&self, n: usize) -> usize {
        if self.options.quick { n / 64 } else { n }
    }
}

/// A benchmark: measures, and adds its rows.
type Run = fn(&Bench<'_>, &mut Report) -> anyhow::Result<()>;

/// Runs it; the exit status.
pub fn main(args: Args) -> ExitCode {
    let (options, run): (Options, Run) = match args.bench {
        What::Ring(o) => (o, ring::run),
        What::Mempool(o) => (o, mempool::run),
        What::Mbuf(o) => (o, mbuf::run),
    };
    match measure(&options, run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            if e.is::<output::ReaderGone>() {
                return ExitCode::SUCCESS;
            }
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options, run: Run) -> anyhow::Result<()> {
    let cores = cores(options)?;
    pin_current_thread(cores[0]).map_err(|e| anyhow::anyhow!("{e}\n  hint: {}", e.hint()))?;
    let clock = TscClock::calibrate();
    let mut report = Report::open(options.json.as_deref(), options.only.clone(), &clock)?;
    run(&Bench { options, cores, clock }, &mut report)?;
    report.finish()
}

/// The cores to measure on: those named, or all that are allowed, last first: core 0 has most of the interrupts.
fn cores(options: &Options) -> anyhow::Result<Vec<CoreId>> {
    let allowed = allowed_cores().map_err(|e| anyhow::anyhow!("{e}\n  hint: {}", e.hint()))?;
    if options.cores.is_empty() {
        return Ok(allowed.into_iter().rev().collect());
    }
    for (i, c) in options.cores.iter().enumerate() {
        let list = || allowed.iter().map(|c| c.0.to_string()).collect::<Vec<_>>().join(",");
        anyhow::ensure!(
            allowed.contains(&CoreId(*c)),
            "--cores {c}: this process may run on {}\n  hint: name some of those",
            list()
        );
        anyhow::ensure!(
            !options.cores[..i].contains(c),
            "--cores names {c} twice\n  hint: name each core once"
        );
    }
    Ok(options.cores.iter().copied().map(CoreId).collect())
}
