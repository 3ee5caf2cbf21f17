//! `linerate perf mempool`.

use super::{
    Bench,
    output::Report,
    sample::{Samples, cycles_per_unit},
};
use anyhow::ensure;
use linerate::{
    mbuf::{BackendKind, Header, Mempool},
    mem::{cycles_between, pin_current_thread, rdtsc_ordered},
};
use serde_json::json;
use std::{hint::black_box, ptr, sync::Barrier, thread};

const BULKS: [usize; 8] = [1, 4, 8, 32, 64, 128, 256, 512];
const KEEPS: [usize; 6] = [32, 128, 512, 2048, 8192, 32768];
/// Objects in the pool of the plain rows, as in the peer's benchmark.
const OBJECTS: u64 = 8191;

pub fn run(b: &Bench<'_>, out: &mut Report) -> anyhow::Result<()> {
    for cache in [256, 0] {
        for backend in [BackendKind::Ring, BackendKind::Stack] {
            plain(b, out, cache, backend)?;
        }
    }
    constant(b, out)?;
    for cores in layouts(b.cores.len()) {
        for cache in [512, 256, 0] {
            keep(b, out, cores, cache)?;
        }
    }
    Ok(())
}

fn name(kind: BackendKind) -> &'static str {
    match kind {
        BackendKind::Ring => "ring",
        BackendKind::Stack => "stack",
    }
}

/// One core, two, all: as many of these as there are.
fn layouts(cores: usize) -> Vec<usize> {
    let mut l = vec![1, 2, cores];
    l.retain(|&n| n <= cores);
    l.dedup();
    l
}

fn pool(objects: u64, cache: u32, backend: BackendKind) -> anyhow::Result<Mempool> {
    // The objects are not looked into: one line of data room is enough.
    Ok(Mempool::builder("perf", objects).cache(cache).backend(backend).headroom(0).data_room(64).build()?)
}

/// Takes `keep` objects in bulks of `n` and puts them back, over and over; gets and puts count together.
#[inline(never)]
fn rounds(pool: &Mempool, slots: &mut [*mut Header], n: usize, keep: usize, rounds: usize) -> usize {
    let n = black_box(n);
    for _ in 0..rounds {
        let mut at = 0;
        while at < keep {
            // SAFETY: the slots have room for `keep`, a multiple of `n`.
            let got = unsafe { pool.get_raw(slots.as_mut_ptr().add(at), n) };
            assert!(got, "the pool has more objects than are kept");
            at += n;
        }
        black_box(&mut *slots);
        let mut at = 0;
        while at < keep {
            // SAFETY: taken above, and given back once.
            unsafe { pool.put_raw(slots.as_ptr().add(at), n) };
            at += n;
        }
    }
    rounds * keep
}

fn plain(b: &Bench<'_>, out: &mut Report, cache: u32, backend: BackendKind) -> anyhow::Result<()> {
    let mut slots = vec![ptr::null_mut(); 512];
    for n in BULKS {
        let line = format!("mempool {} cache {cache}, bulk {n}", name(backend));
        if !out.wants(&line) {
            continue;
        }
        let pool = pool(OBJECTS, cache, backend)?;
        let times = (b.work(4_000_000) / (n + 7)).max(1);
        let s = cycles_per_unit(b.options.repeats, || rounds(&pool, &mut slots, n, n, times));
        full(&pool)?;
        // Rows of the ring, which is the default, carry no more than a program that compares needs.
        let mut fields = json!({"bench": "mempool", "cache": cache, "bulk": n, "cores": 1});
        if backend != BackendKind::Ring {
            fields["bench"] = "mempool-stack".into();
        }
        out.row(&line, "cycles_per_object", &s, fields)?;
    }
    Ok(())
}

/// The bulk's size known when compiling.
fn constant(b: &Bench<'_>, out: &mut Report) -> anyhow::Result<()> {
    #[inline(never)]
    fn leg<const N: usize>(pool: &Mempool, rounds: usize) -> usize {
        let mut slots = [ptr::null_mut(); N];
        for _ in 0..rounds {
            // SAFETY: room for N; given back once below.
            unsafe {
                assert!(pool.get_raw(slots.as_mut_ptr(), N));
                black_box(&mut slots);
                pool.put_raw(slots.as_ptr(), N);
            }
        }
        rounds * N
    }
    type Leg = fn(&Mempool, usize) -> usize;
    for (n, leg) in [(1, leg::<1> as Leg), (4, leg::<4>), (8, leg::<8>), (32, leg::<32>)] {
        let line = format!("mempool ring cache 256, constant bulk {n}");
        if !out.wants(&line) {
            continue;
        }
        let pool = pool(OBJECTS, 256, BackendKind::Ring)?;
        let times = (b.work(4_000_000) / (n + 7)).max(1);
        let s = cycles_per_unit(b.options.repeats, || leg(&pool, times));
        full(&pool)?;
        let fields = json!({"bench": "mempool-constant", "cache": 256, "bulk": n, "cores": 1});
        out.row(&line, "cycles_per_object", &s, fields)?;
    }
    Ok(())
}

/// Objects per second of one, two, all cores that each hold `keep` at a time.
fn keep(b: &Bench<'_>, out: &mut Report, cores: usize, cache: u32) -> anyhow::Result<()> {
    for keep in KEEPS {
        for n in BULKS.into_iter().filter(|n| *n <= keep) {
            let line = format!("mempool cache {cache}, {cores} cores, keep {keep}, bulk {n}");
            if !out.wants(&line) {
                continue;
            }
            let pool = pool(cores as u64 * (32768 + 2 * 512) - 1, cache, BackendKind::Ring)?;
            let times = (b.work(1_000_000) / keep).max(1);
            let mut s = Samples::default();
            for _ in 0..b.options.repeats.min(5) {
                s.push(rate(b, &pool, cores, n, keep, times));
                full(&pool)?;
            }
            let fields =
                json!({"bench": "mempool-keep", "cache": cache, "cores": cores, "keep": keep, "bulk": n});
            out.row(&line, "objects_per_second", &s, fields)?;
        }
    }
    Ok(())
}

fn rate(b: &Bench<'_>, pool: &Mempool, cores: usize, n: usize, keep: usize, times: usize) -> f64 {
    let gate = Barrier::new(cores);
    thread::scope(|s| {
        let legs: Vec<_> = b.cores[..cores]
            .iter()
            .map(|&core| {
                let gate = &gate;
                s.spawn(move || {
                    let _ = pin_current_thread(core);
                    let mut slots = vec![ptr::null_mut(); keep];
                    gate.wait();
                    let start = rdtsc_ordered();
                    let objects = rounds(pool, &mut slots, n, keep, times);
                    objects as f64 * b.clock.hz() as f64 / cycles_between(start, rdtsc_ordered()) as f64
                })
            })
            .collect();
        legs.into_iter().map(|l| l.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).sum()
    })
}

/// A benchmark that lost an object measured something else.
fn full(pool: &Mempool) -> anyhow::Result<()> {
    let c = pool.counts();
    ensure!(c.free == c.total, "{} of {} objects came back", c.free, c.total);
    Ok(())
}
