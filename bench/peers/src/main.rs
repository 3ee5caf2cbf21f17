//! Rust queues in the shape of `linerate perf ring` and `bench/dpdk/ring.c`: `u64` elements, 4096 of
//! them, TSC cycles per element for a push of `bulk` and a pop of `bulk`, one JSON row a line.
//!
//! `linerate-peers probe` prints the state of the core pair and the TSC's frequency instead.

mod cores;
mod queues;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use cores::{Pair, cycles, pin};
use queues::{ArrayQueuePeer, Queue, RtrbChunk, RtrbOne, Sink, Source};

/// The bulk sizes of every row.
const BULKS: [usize; 4] = [1, 8, 32, 128];
/// The largest of them.
const MAX_BULK: usize = 128;

/// What the command line asks for.
struct Plan {
    runs: usize,
    one: bool,
    two: bool,
    probe: bool,
    /// The core that produces (and does both in one-core rows), and the one that consumes.
    cores: (usize, usize),
}

fn main() -> ExitCode {
    let plan = match parse(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(message) => {
            eprintln!("linerate-peers: {message}");
            eprintln!("usage: linerate-peers [probe] [one] [two] [--runs N] [--cores A,B]");
            return ExitCode::from(2);
        }
    };
    if let Err(e) = pin(plan.cores.0) {
        eprintln!("linerate-peers: cannot run on core {}: {e}", plan.cores.0);
        return ExitCode::FAILURE;
    }
    if plan.probe {
        let trip = cores::round_trip_ns(plan.cores.1);
        let pair = trip.map(|ns| Pair::of(ns).name());
        println!(
            "{}",
            serde_json::json!({"pair": pair, "round_trip_ns": trip, "tsc_hz": cores::cycles_per_second()})
        );
        return ExitCode::SUCCESS;
    }
    measure::<RtrbChunk>(&plan);
    measure::<RtrbOne>(&plan);
    measure::<ArrayQueuePeer>(&plan);
    ExitCode::SUCCESS
}

fn parse(args: impl Iterator<Item = String>) -> Result<Plan, String> {
    let mut plan = Plan { runs: 11, one: false, two: false, probe: false, cores: (1, 0) };
    let mut args = args;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "one" => plan.one = true,
            "two" => plan.two = true,
            "probe" => plan.probe = true,
            "--runs" => {
                plan.runs = args
                    .next()
                    .and_then(|n| n.parse().ok())
                    .filter(|n| *n > 0)
                    .ok_or("--runs takes a number above 0")?;
            }
            "--cores" => {
                let list = args.next().unwrap_or_default();
                plan.cores = list
                    .split_once(',')
                    .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
                    .ok_or("--cores takes two core numbers, A,B")?;
            }
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    if !plan.one && !plan.two {
        (plan.one, plan.two) = (true, true);
    }
    Ok(plan)
}

fn measure<Q: Queue>(plan: &Plan) {
    for bulk in BULKS {
        if plan.one {
            let iterations = 4_000_000 / (bulk + 3);
            let (mut tx, mut rx) = Q::make();
            push_pop(&mut tx, &mut rx, bulk, iterations / 8);
            let samples = (0..plan.runs)
                .map(|_| per_element(push_pop(&mut tx, &mut rx, bulk, iterations), bulk, iterations))
                .collect();
            row::<Q>(1, None, bulk, samples);
        }
        if plan.two {
            two_cores::<Q>(plan, bulk);
        }
    }
}

/// A run counts for the state that the probe saw before and after it, and not at all when they differ.
fn two_cores<Q: Queue>(plan: &Plan, bulk: usize) {
    let iterations = 1_500_000 / (bulk + 8);
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..plan.runs {
        let Some(before) = cores::round_trip_ns(plan.cores.1).map(Pair::of) else { return };
        let (mut tx, mut rx) = Q::make();
        let gate = AtomicU32::new(0);
        let taken = std::thread::scope(|scope| {
            let consumer = scope.spawn(|| {
                // A failed pin shows as a probe that failed before; nothing to add here.
                let _ = pin(plan.cores.1);
                meet(&gate);
                consume(&mut rx, bulk, iterations)
            });
            meet(&gate);
            let mine = produce(&mut tx, bulk, iterations);
            consumer.join().map(|theirs| mine.max(theirs))
        });
        let Some(after) = cores::round_trip_ns(plan.cores.1).map(Pair::of) else { return };
        if let (Ok(taken), true) = (taken, before == after) {
            samples[usize::from(before == Pair::Far)].push(per_element(taken, bulk, iterations));
        }
    }
    let [near, far] = samples;
    row::<Q>(2, Some(Pair::Near), bulk, near);
    row::<Q>(2, Some(Pair::Far), bulk, far);
}

/// Both sides leave this together; spinning, since waking a sleeper would take a part of the run.
fn meet(gate: &AtomicU32) {
    gate.fetch_add(1, Ordering::AcqRel); // pairs with the load below, on the other side
    while gate.load(Ordering::Acquire) != 2 {
        std::hint::spin_loop();
    }
}

fn per_element(cycles: u64, bulk: usize, iterations: usize) -> f64 {
    cycles as f64 / iterations as f64 / bulk as f64
}

fn row<Q: Queue>(cores: u32, pair: Option<Pair>, bulk: usize, mut samples: Vec<f64>) {
    if samples.is_empty() {
        return;
    }
    samples.sort_by(f64::total_cmp);
    println!(
        "{}",
        serde_json::json!({
            "peer": Q::NAME, "bench": "ring", "mode": Q::MODE, "cores": cores, "pair": pair.map(Pair::name),
            "bulk": bulk, "elem_bytes": 8, "unit": cores::UNIT, "min": samples[0],
            "median": samples[samples.len() / 2], "max": samples[samples.len() - 1], "runs": samples.len(),
        })
    );
}

#[inline(never)]
fn push_pop<S: Sink, R: Source>(tx: &mut S, rx: &mut R, bulk: usize, iterations: usize) -> u64 {
    let input = [0_u64; MAX_BULK];
    let mut output = [0_u64; MAX_BULK];
    let start = cycles();
    for _ in 0..iterations {
        tx.push(black_box(&input[..bulk]));
        rx.pop(&mut output[..bulk]);
        black_box(&mut output);
    }
    cycles() - start
}

#[inline(never)]
fn produce<S: Sink>(tx: &mut S, bulk: usize, iterations: usize) -> u64 {
    let input = [1_u64; MAX_BULK];
    let start = cycles();
    for _ in 0..iterations {
        let mut done = 0;
        while done < bulk {
            let now = tx.push(black_box(&input[done..bulk]));
            if now == 0 {
                std::hint::spin_loop();
            }
            done += now;
        }
    }
    cycles() - start
}

#[inline(never)]
fn consume<R: Source>(rx: &mut R, bulk: usize, iterations: usize) -> u64 {
    let mut output = [0_u64; MAX_BULK];
    let start = cycles();
    for _ in 0..iterations {
        let mut done = 0;
        while done < bulk {
            let now = rx.pop(&mut output[done..bulk]);
            if now == 0 {
                std::hint::spin_loop();
            }
            done += now;
        }
        black_box(&mut output);
    }
    cycles() - start
}
