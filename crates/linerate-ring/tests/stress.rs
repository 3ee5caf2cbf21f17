//! Threads that move real objects through every mode: each arrives once, and those of one producer in order.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use linerate_ring::{RingSize, SlotRing};

const PER_PRODUCER: u64 = 60_000;

/// Sends `PER_PRODUCER` numbers in calls of varying size, singles, bulks and bursts.
macro_rules! send {
    ($p:expr, $id:expr) => {{
        let (mut next, mut turn) = (0u64, 1usize);
        while next < PER_PRODUCER {
            turn = turn * 5 % 31;
            let n = turn.min((PER_PRODUCER - next) as usize);
            let mut v: Vec<Box<(u64, u64)>> = (0..n as u64).map(|i| Box::new(($id, next + i))).collect();
            while !v.is_empty() {
                let sent = match turn % 3 {
                    0 => $p.enqueue_bulk_from(&mut v),
                    1 => $p.enqueue_burst_from(&mut v),
                    _ => match $p.enqueue(v.remove(0)) {
                        Ok(()) => 1,
                        Err(b) => {
                            v.insert(0, b);
                            0
                        }
                    },
                };
                if sent == 0 {
                    thread::yield_now();
                }
            }
            next += n as u64;
        }
    }};
}

/// Receives until all have come; returns what this consumer saw.
macro_rules! receive {
    ($c:expr, $seen:expr, $total:expr) => {{
        let (mut out, mut turn) = (Vec::new(), 1usize);
        while $seen.load(Ordering::Relaxed) < $total {
            turn = turn * 7 % 29;
            let k = match turn % 3 {
                0 => $c.dequeue_bulk_into(&mut out, turn.min(5)),
                1 => $c.dequeue_burst_into(&mut out, turn),
                _ => $c.dequeue().map_or(0, |b| {
                    out.push(b);
                    1
                }),
            };
            if k == 0 {
                thread::yield_now();
            }
            $seen.fetch_add(k, Ordering::Relaxed);
        }
        out
    }};
}

#[allow(clippy::vec_box)] // the boxes are what travelled
fn verify(producers: u64, seen: Vec<Vec<Box<(u64, u64)>>>) {
    let mut count = vec![0u64; producers as usize];
    let mut all = vec![vec![false; PER_PRODUCER as usize]; producers as usize];
    for one in &seen {
        let mut last = vec![None; producers as usize];
        for b in one {
            let (id, n) = **b;
            assert!(last[id as usize] < Some(n), "order of producer {id}");
            last[id as usize] = Some(n);
            assert!(!std::mem::replace(&mut all[id as usize][n as usize], true), "{id}/{n} twice");
            count[id as usize] += 1;
        }
    }
    assert!(count.iter().all(|&c| c == PER_PRODUCER), "{count:?}");
}

macro_rules! stress {
    ($($name:ident: $producers:tt x $consumers:tt;)+) => { $(
        #[test]
        #[allow(unused_mut)]
        fn $name() {
            for size in [RingSize::exact(37).unwrap(), RingSize::power_of_two(256).unwrap()] {
                let size = size.starting_at(u32::MAX - 3000);
                let (mut p, mut c) = linerate_ring::$name::<Box<(u64, u64)>>(size).unwrap();
                let seen = AtomicUsize::new(0);
                let total = $producers * PER_PRODUCER as usize;
                let got = thread::scope(|s| {
                    stress!(@send s, p, $producers);
                    stress!(@receive s, c, seen, total, $consumers)
                });
                verify($producers, got);
            }
        }
    )+ };
    (@send $s:ident, $p:ident, 1) => { $s.spawn(move || send!($p, 0u64)); };
    (@send $s:ident, $p:ident, $n:tt) => {
        for id in 0..$n {
            let p = $p.clone();
            $s.spawn(move || send!(p, id));
        }
    };
    (@receive $s:ident, $c:ident, $seen:ident, $total:ident, 1) => {
        vec![receive!($c, $seen, $total)]
    };
    (@receive $s:ident, $c:ident, $seen:ident, $total:ident, $n:tt) => {{
        let hs: Vec<_> = (0..$n).map(|_| {
            let (c, seen) = ($c.clone(), &$seen);
            $s.spawn(move || receive!(c, seen, $total))
        }).collect();
        hs.into_iter().map(|h| h.join().unwrap()).collect()
    }};
}

stress! {
    spsc: 1 x 1;
    spsc_blocks: 1 x 1;
    mpmc: 3 x 3;
    mpsc: 3 x 1;
    spmc: 1 x 3;
    rts: 3 x 3;
    hts: 3 x 3;
}

#[test]
fn slots() {
    for size in [RingSize::exact(37).unwrap(), RingSize::power_of_two(256).unwrap()] {
        let ring = SlotRing::new(size.starting_at(u32::MAX - 3000)).unwrap();
        let seen = AtomicUsize::new(0);
        let total = 3 * PER_PRODUCER as usize;
        let got = thread::scope(|s| {
            for id in 0..3u64 {
                let ring = &ring;
                s.spawn(move || send!(ring, id));
            }
            let hs: Vec<_> = (0..3)
                .map(|_| {
                    let (ring, seen) = (&ring, &seen);
                    s.spawn(move || receive!(ring, seen, total))
                })
                .collect();
            hs.into_iter().map(|h| h.join().unwrap()).collect()
        });
        verify(3, got);
    }
}
