//! `linerate perf ring`.

use super::{
    Bench,
    output::Report,
    pair::{self, Pair},
    ring_ends::{Get, HtsKind, Kind, Mpmc, Put, RtsKind, SharedKind, Slots, Spsc, SpscBlocks},
    sample::{Samples, cycles_per_unit},
};
use linerate::{
    mem::{CoreId, cycles_between, pin_current_thread, rdtsc_ordered},
    ring::{RingSize, Want},
};
use serde_json::json;
use std::{
    hint::{black_box, spin_loop},
    sync::{
        Barrier,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
    thread,
    time::{Duration, Instant},
};

const ENTRIES: usize = 4096;
const BULKS: [usize; 7] = [1, 8, 32, 64, 128, 256, 512];
const MAX_BULK: usize = 512;

fn size() -> RingSize {
    RingSize::power_of_two(ENTRIES).expect("4096 is a power of two")
}

/// An element: eight bytes, or sixteen.
trait Element: Copy + Default + Send + 'static {}
impl Element for u64 {}
impl Element for [u64; 2] {}

pub fn run(b: &Bench<'_>, out: &mut Report) -> anyhow::Result<()> {
    modes::<u64>(b, out)?;
    modes::<[u64; 2]>(b, out)?;
    zero_copy(b, out)?;
    compressed(b, out)?;
    if b.cores.len() < 2 {
        out.line(format_args!("# one core only: rows of two cores and of all cores are left out"))?;
        return Ok(());
    }
    all_cores::<Mpmc>(b, out)?;
    all_cores::<RtsKind>(b, out)?;
    all_cores::<HtsKind>(b, out)?;
    all_cores::<Slots>(b, out)
}

fn modes<T: Element>(b: &Bench<'_>, out: &mut Report) -> anyhow::Result<()> {
    mode::<T, Spsc>(b, out)?;
    mode::<T, SpscBlocks>(b, out)?;
    mode::<T, Mpmc>(b, out)?;
    mode::<T, RtsKind>(b, out)?;
    mode::<T, HtsKind>(b, out)?;
    mode::<T, Slots>(b, out)
}

fn mode<T: Element, K: Kind<T>>(b: &Bench<'_>, out: &mut Report) -> anyhow::Result<()> {
    let bytes = size_of::<T>();
    let fields = |cores: u32, pair: Option<Pair>, call: &str, bulk: usize| {
        json!({"bench": "ring", "mode": K::MODE, "cores": cores, "pair": pair.map(Pair::name), "call": call,
               "bulk": bulk, "elem_bytes": bytes})
    };
    for burst in [false, true] {
        let call = if burst { "burst" } else { "bulk" };
        for n in BULKS {
            let line = format!("ring {} {bytes} B, 1 core, {call} {n}", K::MODE);
            if out.wants(&line) {
                let (mut put, mut get) = K::make(size())?;
                let rounds = (b.work(4_000_000) / (n + 3)).max(1);
                let s = cycles_per_unit(b.options.repeats, || {
                    if burst {
                        through_burst(&mut put, &mut get, n, rounds)
                    } else {
                        through(&mut put, &mut get, n, rounds)
                    }
                });
                out.row(&line, "cycles_per_element", &s, fields(1, None, call, n))?;
            }
        }
    }
    let line = format!("ring {} {bytes} B, 1 core, empty dequeue", K::MODE);
    if out.wants(&line) {
        let (_put, mut get) = K::make(size())?;
        let rounds = b.work(2_000_000).max(1);
        let s = cycles_per_unit(b.options.repeats, || empty::<T, _>(&mut get, rounds));
        out.row(&line, "cycles_per_call", &s, fields(1, None, "empty", 8))?;
    }
    let Some(&other) = b.cores.get(1) else { return Ok(()) };
    for n in BULKS {
        let lines = Pair::BOTH.map(|p| format!("ring {} {bytes} B, 2 cores {}, bulk {n}", K::MODE, p.name()));
        if !lines.iter().any(|l| out.wants(l)) {
            continue;
        }
        let samples = two_cores::<T, K>(b, other, n)?;
        for ((p, line), s) in Pair::BOTH.into_iter().zip(&lines).zip(&samples) {
            if out.wants(line) {
                out.row(line, "cycles_per_element", s, fields(2, Some(p), "bulk", n))?;
            }
        }
    }
    Ok(())
}

/// Puts `n` in and takes `n` out, over and over; `n` is a value of run time.
#[inline(never)]
fn through<T: Element>(put: &mut impl Put<T>, get: &mut impl Get<T>, n: usize, rounds: usize) -> usize {
    let from = [T::default(); MAX_BULK];
    let mut to = [T::default(); MAX_BULK];
    let n = black_box(n).min(MAX_BULK);
    for _ in 0..rounds {
        put.bulk(black_box(&from[..n]));
        get.bulk(&mut to[..n]);
        black_box(&mut to);
    }
    rounds * n
}

#[inline(never)]
fn through_burst<T: Element>(put: &mut impl Put<T>, get: &mut impl Get<T>, n: usize, rounds: usize) -> usize {
    let from = [T::default(); MAX_BULK];
    let mut to = [T::default(); MAX_BULK];
    let n = black_box(n).min(MAX_BULK);
    for _ in 0..rounds {
        put.burst(black_box(&from[..n]));
        get.burst(&mut to[..n]);
        black_box(&mut to);
    }
    rounds * n
}

#[inline(never)]
fn empty<T: Element, G: Get<T>>(get: &mut G, rounds: usize) -> usize {
    let mut to = [T::default(); 8];
    for _ in 0..rounds {
        black_box(get.bulk(&mut to));
    }
    rounds
}

#[inline(never)]
fn produce<T: Element>(put: &mut impl Put<T>, n: usize, rounds: usize) -> u64 {
    let from = [T::default(); MAX_BULK];
    let n = black_box(n).min(MAX_BULK);
    let start = rdtsc_ordered();
    for _ in 0..rounds {
        while put.bulk(black_box(&from[..n])) == 0 {
            spin_loop();
        }
    }
    cycles_between(start, rdtsc_ordered())
}

#[inline(never)]
fn consume<T: Element>(get: &mut impl Get<T>, n: usize, rounds: usize) -> u64 {
    let mut to = [T::default(); MAX_BULK];
    let n = black_box(n).min(MAX_BULK);
    let start = rdtsc_ordered();
    for _ in 0..rounds {
        while get.bulk(&mut to[..n]) == 0 {
            spin_loop();
        }
        black_box(&mut to);
    }
    cycles_between(start, rdtsc_ordered())
}

/// One core puts in, another takes out; cycles per element of the producer, by the state of the pair. A sample
/// during which the state changed is taken again, within reason.
fn two_cores<T: Element, K: Kind<T>>(b: &Bench<'_>, other: CoreId, n: usize) -> anyhow::Result<[Samples; 2]> {
    let rounds = (b.work(1_500_000) / (n + 8)).max(1);
    let mut samples = [Samples::default(), Samples::default()];
    for _ in 0..b.options.repeats {
        let (mut put, mut get) = K::make(size())?;
        let before = pair::state(other, &b.clock)?;
        // Not a barrier that sleeps: the time to wake up would be a part of the run.
        let gate = AtomicU32::new(0);
        let meet = || {
            gate.fetch_add(1, AcqRel); // pairs with the load, on the other side
            while gate.load(Acquire) != 2 {
                spin_loop();
            }
        };
        let cycles = thread::scope(|s| {
            s.spawn(|| {
                // The core was pinned to a moment ago by the probe.
                let _ = pin_current_thread(other);
                meet();
                consume(&mut get, n, rounds);
            });
            meet();
            produce(&mut put, n, rounds)
        });
        if pair::state(other, &b.clock)? == before {
            samples[before as usize].push(cycles as f64 / (rounds * n) as f64);
        }
    }
    Ok(samples)
}

/// Single ring, zero-copy: elements are written to and read from the slots themselves.
fn zero_copy(b: &Bench<'_>, out: &mut Report) -> anyhow::Result<()> {
    for n in BULKS {
        let line = format!("ring spsc 8 B, 1 core, zero-copy {n}");
        if !out.wants(&line) {
            continue;
        }
        let (mut put, mut get) = linerate::ring::spsc::<u64>(size())?;
        let rounds = (b.work(4_000_000) / (n + 3)).max(1);
        let mut sum = 0u64;
        let s = cycles_per_unit(b.options.repeats, || {
            for i in 0..rounds as u64 {
                if let Some(mut w) = put.write_slots(black_box(n), Want::Bulk) {
                    for k in 0..n as u64 {
                        let _ = w.write(i + k);
                    }
                    w.commit();
                }
                if let Some(r) = get.read_slots(black_box(n), Want::Bulk) {
                    let (x, y) = r.as_slices();
                    sum = sum.wrapping_add(x.iter().sum::<u64>()).wrapping_add(y.iter().sum());
                    r.commit(n);
                }
            }
            rounds * n
        });
        black_box(sum);
        let fields = json!({"bench": "ring", "mode": "spsc", "cores": 1, "pair": null, "call": "zero-copy",
                            "bulk": n, "elem_bytes": 8});
        out.row(&line, "cycles_per_element", &s, fields)?;
    }
    Ok(())
}

/// Pointers as 32- and 16-bit offsets from a base: half and a quarter of the ring's memory traffic for some
/// arithmetic. Offsets count cache lines, as objects lie.
fn compressed(b: &Bench<'_>, out: &mut Report) -> anyhow::Result<()> {
    fn leg<T: Copy + Default + Send + 'static>(
        (b, n): (&Bench<'_>, usize),
        small: impl Fn(u64) -> T,
        wide: impl Fn(T) -> u64,
    ) -> anyhow::Result<Samples> {
        let (mut put, mut get) = linerate::ring::spsc::<T>(size())?;
        let rounds = (b.work(4_000_000) / (n + 3)).max(1);
        let base = 0x7f00_0000_0000u64;
        let from: Vec<u64> = (0..n as u64).map(|i| base + i * 64).collect();
        let (mut to, mut packed) = (vec![0u64; n], vec![T::default(); n]);
        Ok(cycles_per_unit(b.options.repeats, || {
            for _ in 0..rounds {
                let (base, from) = black_box((base, &from));
                for (p, f) in packed.iter_mut().zip(from) {
                    *p = small((f - base) >> 6);
                }
                put.enqueue_bulk(&packed);
                get.dequeue_bulk(&mut packed);
                for (t, p) in to.iter_mut().zip(&packed) {
                    *t = base + (wide(*p) << 6);
                }
                black_box(&mut to);
            }
            rounds * n
        }))
    }
    for n in BULKS {
        for bits in [32, 16] {
            let line = format!("ring spsc, 1 core, pointers in {bits} bits, bulk {n}");
            if !out.wants(&line) {
                continue;
            }
            let s = if bits == 32 {
                leg((b, n), |o| o as u32, u64::from)?
            } else {
                leg((b, n), |o| o as u16, u64::from)?
            };
            let fields = json!({"bench": "ring", "mode": "spsc", "cores": 1, "pair": null, "call": "compressed",
                                "bulk": n, "elem_bytes": bits / 8});
            out.row(&line, "cycles_per_element", &s, fields)?;
        }
    }
    Ok(())
}

/// All cores put in and take out on one ring for a while; real objects are moved and counted.
fn all_cores<K: SharedKind<u64>>(b: &Bench<'_>, out: &mut Report) -> anyhow::Result<()>
where
    K::Put: Sync,
    K::Get: Sync,
{
    for n in [8, 32] {
        let line = format!("ring {} 8 B, all {} cores, bulk {n}", K::MODE, b.cores.len());
        if !out.wants(&line) {
            continue;
        }
        let span = Duration::from_millis(if b.options.quick { 5 } else { 100 });
        let mut s = Samples::default();
        for _ in 0..b.options.repeats {
            let (put, get) = K::make(size())?;
            let (stop, moved) = (AtomicBool::new(false), AtomicU64::new(0));
            let gate = Barrier::new(b.cores.len() + 1);
            let took = thread::scope(|scope| {
                for &core in &b.cores {
                    let (mut put, mut get) = K::more(&put, &get);
                    let (stop, moved, gate) = (&stop, &moved, &gate);
                    scope.spawn(move || {
                        let _ = pin_current_thread(core);
                        let mut mine = 0u64;
                        let mut slots = [0u64; MAX_BULK];
                        gate.wait();
                        while !stop.load(Relaxed) {
                            put.bulk(&slots[..n]);
                            mine += get.bulk(&mut slots[..n]) as u64;
                        }
                        moved.fetch_add(mine, Relaxed);
                    });
                }
                gate.wait();
                let start = Instant::now();
                thread::sleep(span);
                stop.store(true, Relaxed);
                start.elapsed()
            });
            s.push(moved.load(Relaxed) as f64 / took.as_secs_f64());
        }
        let fields = json!({"bench": "ring", "mode": K::MODE, "cores": b.cores.len(), "pair": null,
                            "call": "all-cores", "bulk": n, "elem_bytes": 8});
        out.row(&line, "objects_per_second", &s, fields)?;
    }
    Ok(())
}
