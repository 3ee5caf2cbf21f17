//! What the operations of a packet's life cost, in TSC cycles: `cargo run --release -p linerate-mbuf --example
//! mbuf_probe`. Each row is min, median and max over repeats; pool of 8191 buffers, cache 256 unless said.
//!
//! `mbuf_probe NAME…` runs the rows whose name contains one of the given words.

use linerate_mbuf::{Burst, Header, Mbuf, Mempool, SharedMbuf};
use std::hint::black_box;

const REPEATS: usize = 25;

/// Serialised read of the cycle counter.
#[cfg(target_arch = "x86_64")]
fn now() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: SSE2 is part of the architecture.
    unsafe {
        _mm_lfence();
        let t = _rdtsc();
        _mm_lfence();
        t
    }
}
/// Nanoseconds where there is no cycle counter to read.
#[cfg(not(target_arch = "x86_64"))]
fn now() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

struct Probe(Vec<String>);

impl Probe {
    #[inline(never)]
    fn row(&self, name: &str, rounds: u32, per_round: u32, mut op: impl FnMut()) {
        if !self.0.is_empty() && !self.0.iter().any(|w| name.contains(w.as_str())) {
            return;
        }
        let mut cycles = Vec::with_capacity(REPEATS);
        for i in 0..=REPEATS {
            let t = now();
            for _ in 0..rounds {
                op();
            }
            let t = now() - t;
            if i > 0 {
                cycles.push(t as f64 / f64::from(rounds) / f64::from(per_round));
            }
        }
        cycles.sort_by(f64::total_cmp);
        println!("{name:<34} {:>8.2} {:>8.2} {:>8.2}", cycles[0], cycles[REPEATS / 2], cycles[REPEATS - 1]);
    }
}

fn main() {
    let p = Probe(std::env::args().skip(1).collect());
    let cached = Mempool::builder("cached", 8191).cache(256).build().expect("memory for a pool");
    let plain = Mempool::builder("plain", 8191).cache(0).build().expect("memory for a pool");
    println!("{}\n{:<34} {:>8} {:>8} {:>8}", cached.memory_report(), "cycles per", "min", "median", "max");
    for (pool, tag) in [(&cached, "cache=256"), (&plain, "cache=0")] {
        raw(&p, pool, tag);
    }
    life(&p, &cached, "");
    p.row("alloc+free nocache", 100_000, 1, || drop(black_box(plain.alloc())));
    shared(&p, &cached);
    access(&p, &cached);
}

/// Aligned as a driver's descriptor shadow is.
#[repr(align(64))]
struct Slots<const N: usize>([*mut Header; N]);

/// Pool get + put, per object.
fn raw(p: &Probe, pool: &Mempool, tag: &str) {
    let Slots(ref mut out) = Slots([std::ptr::null_mut(); 32]);
    for n in [1usize, 4, 32] {
        let n = black_box(n);
        p.row(&format!("pool get+put {tag} n={n}"), 100_000, n as u32, || {
            // SAFETY: room for 32, and what was got is given back as it came.
            unsafe {
                black_box(pool.get_raw(out.as_mut_ptr(), n));
                black_box(&mut *out);
                pool.put_raw(out.as_ptr(), n);
            }
        });
        p.row(&format!("pool get+put {tag} n={n} keep=128"), 2_000, 128, || {
            let Slots(ref mut held) = Slots([std::ptr::null_mut(); 128]);
            // SAFETY: as above.
            unsafe {
                for i in (0..128).step_by(n) {
                    black_box(pool.get_raw(held.as_mut_ptr().add(i), n));
                }
                black_box(&mut *held);
                for i in (0..128).step_by(n) {
                    pool.put_raw(held.as_ptr().add(i), n);
                }
            }
        });
    }
}

/// Alloc + free, per mbuf.
fn life(p: &Probe, pool: &Mempool, tag: &str) {
    p.row(&format!("alloc+free{tag}"), 100_000, 1, || drop(black_box(pool.alloc())));
    let mut burst = Burst::<Mbuf>::new();
    for n in [8usize, 32] {
        let n = black_box(n);
        p.row(&format!("alloc_bulk+free_all {n}{tag}"), 10_000, n as u32, || {
            black_box(pool.alloc_bulk(&mut burst, n));
            black_box(&mut burst);
            burst.free_all();
        });
    }
    p.row(&format!("alloc_bulk32+drop x32{tag}"), 10_000, 32, || {
        black_box(pool.alloc_bulk(&mut burst, 32));
        black_box(&mut burst);
        for m in burst.drain() {
            drop(m);
        }
    });
    p.row(&format!("alloc x32+drop x32{tag}"), 10_000, 32, || {
        for _ in 0..32 {
            if let Some(m) = pool.alloc() {
                let _ = burst.push(m);
            }
        }
        black_box(&mut burst);
        for m in burst.drain() {
            drop(m);
        }
    });
}

/// What counting costs.
fn shared(p: &Probe, pool: &Mempool) {
    let with_bytes = || {
        let mut m = pool.alloc().expect("free");
        m.append(64).expect("room").fill(0x5a);
        m
    };
    let one: SharedMbuf = with_bytes().share();
    p.row("refcnt +1 -1 from 1", 100_000, 1, || drop(black_box(one.clone())));
    let two = one.clone();
    p.row("refcnt +1 -1 from 2", 100_000, 1, || drop(black_box(one.clone())));
    drop(two);
    p.row("clone+free (attach+free)", 100_000, 1, || drop(black_box(one.attach(pool))));
    let mut spare = pool.alloc();
    p.row("attach+detach", 100_000, 1, || {
        if let Some(m) = spare.take() {
            let a = black_box(one.attach_to(m));
            spare = a.detach().ok();
        }
    });
    p.row("copy 64B+free", 100_000, 1, || drop(black_box(one.copy(pool, 0, u32::MAX))));
    let mut alone = Some(with_bytes().share());
    p.row("pre-free of an unshared one", 100_000, 1, || {
        if let Some(s) = alone.take() {
            alone = match black_box(s).try_unique() {
                Ok(m) => Some(m.share()),
                Err(s) => Some(s),
            };
        }
    });
}

/// Moving the ends of a packet.
fn access(p: &Probe, pool: &Mempool) {
    let mut m = pool.alloc().expect("free");
    m.append(64).expect("room").fill(0x5a);
    p.row("append+trim 64", 100_000, 1, || {
        black_box(m.append(64).is_some());
        black_box(&mut m);
        black_box(m.trim(64));
    });
    p.row("prepend+adj 14", 100_000, 1, || {
        black_box(m.prepend(14).is_some());
        black_box(&mut m);
        black_box(m.adj(14));
    });
}
