//! Many threads on one pool: counts, frees where nobody allocated, threads that come and go with full caches.

use linerate_mbuf::*;
use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

const KINDS: [BackendKind; 2] = [BackendKind::Ring, BackendKind::Stack];

/// Every buffer home; all but those in other live threads' caches looked at.
#[track_caller]
fn whole(pool: &Mempool) {
    let a = pool.audit().unwrap();
    assert_eq!((a.counts.free, a.checked + a.unchecked), (pool.buffers(), pool.buffers()), "{a:?}");
}

fn rng(seed: u64) -> impl FnMut() -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    }
}

/// A packet of two segments whose bytes say what they are.
fn stamped(pool: &Mempool, stamp: u8) -> Option<Mbuf> {
    let (mut m, mut tail) = (pool.alloc()?, pool.alloc()?);
    m.append(32)?.fill(stamp);
    tail.append(32)?.fill(stamp);
    m.chain(tail).ok()?;
    Some(m)
}

fn check(m: &SharedMbuf) {
    let first = m.data()[0];
    assert_eq!(m.segments().map(<[u8]>::len).sum::<usize>(), 64);
    assert!(m.segments().flatten().all(|&b| b == first), "another packet's bytes");
    assert_eq!(m.sanity_check(), Ok(()));
}

/// Clones of the same packets on several threads: cloned, attached (to all segments), passed on, copied, dropped.
#[test]
fn counts_hold_under_clone_attach_and_drop_on_many_threads() {
    for kind in KINDS {
        let build = |name| Mempool::builder(name, 600).cache(32).backend(kind).data_room(64);
        let bytes = build("bytes").build().unwrap();
        let headers = build("headers").headroom(0).build().unwrap();
        const THREADS: usize = 4;
        let (to, from): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<SharedMbuf>()).unzip();
        let start = Barrier::new(THREADS);
        let attached = AtomicU64::new(0);
        thread::scope(|s| {
            for (id, inbox) in from.into_iter().enumerate() {
                let (to, start, attached) = (to.clone(), &start, &attached);
                let (bytes, headers) = (&bytes, &headers);
                s.spawn(move || {
                    let mut rand = rng(id as u64 + 1);
                    start.wait();
                    let mut mine = Vec::new();
                    for round in 0..6000u32 {
                        if mine.len() < 24
                            && let Some(m) = stamped(bytes, round as u8)
                        {
                            let m = m.share();
                            // The same packet everywhere at once; a thread that has ended gives it back.
                            to.iter().for_each(|t| drop(t.send(m.clone())));
                        }
                        mine.extend(inbox.try_iter().take(8));
                        if mine.is_empty() {
                            continue;
                        }
                        let i = rand() as usize % mine.len();
                        check(&mine[i]);
                        match rand() % 8 {
                            0 => mine.push(mine[i].clone()),
                            1..=3 => {
                                if let Some(a) = mine[i].attach(headers) {
                                    attached.fetch_add(1, Relaxed);
                                    check(&a);
                                    mine.push(a);
                                }
                            }
                            4 => drop(mine[i].copy(bytes, 10, 40)),
                            5 => match mine.swap_remove(i).try_unique() {
                                Ok(mut m) => m.for_each_segment_mut(|s| s.fill(0xdd)),
                                Err(m) => mine.push(m),
                            },
                            _ => drop(mine.swap_remove(i)),
                        }
                        if mine.len() > 40 {
                            mine.drain(..20);
                        }
                    }
                    drop(mine);
                });
            }
            drop(to);
        });
        assert!(attached.load(Relaxed) > 100);
        whole(&bytes);
        whole(&headers);
    }
}

/// Waits for the other thread without sleeping, so that both go on within nanoseconds.
fn meet(at: &AtomicU64, round: u64) {
    at.fetch_add(1, Relaxed);
    let mut spins = 0u32;
    while at.load(Relaxed) < 2 * round {
        spins += 1;
        if spins.is_multiple_of(2000) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// Two holders of a chain attach to it at the same moment, over and over: no count of a later segment is lost.
#[test]
fn attaching_through_clones_counts_every_segment() {
    const ROUNDS: u64 = 3000;
    const SEGMENTS: u32 = 12;
    let pool = Mempool::builder("rest", 256).cache(64).data_room(64).build().unwrap();
    let at = AtomicU64::new(0);
    let (to, from) = mpsc::sync_channel::<SharedMbuf>(1);
    let attach = |m: SharedMbuf, round| {
        meet(&at, round);
        let t = m.attach(&pool).unwrap();
        meet(&at, round + 1);
        t
    };
    thread::scope(|s| {
        s.spawn(|| {
            let from = from;
            for (i, m) in (0..ROUNDS).zip(from) {
                let t = attach(m, 2 * i + 1);
                assert!(t.segments().all(|d| d == [i as u8]));
            }
        });
        for i in 0..ROUNDS {
            let seg = || {
                let mut m = pool.alloc().unwrap();
                m.append(1).unwrap().fill(i as u8);
                m
            };
            let mut m = seg();
            (1..SEGMENTS).for_each(|_| m.chain(seg()).unwrap());
            let m = m.share();
            to.send(m.clone()).unwrap();
            let t = attach(m, 2 * i + 1);
            assert!(t.segments().all(|d| d == [i as u8]));
        }
    });
    whole(&pool);
}

#[test]
fn buffers_freed_on_other_threads_come_home() {
    for kind in KINDS {
        for cache in [0, 64] {
            let pool =
                Mempool::builder("pipe", 500).cache(cache).backend(kind).data_room(64).build().unwrap();
            let (to, from) = mpsc::sync_channel::<Burst>(4);
            thread::scope(|s| {
                s.spawn(|| {
                    let from = from;
                    for mut burst in from {
                        assert!(burst.as_slice().iter().all(|m| m.data().len() == 8));
                        burst.free_front(burst.len() / 2);
                    }
                });
                let mut sent = 0;
                while sent < 20_000 {
                    let mut burst = Burst::new();
                    if pool.alloc_bulk(&mut burst, 32) {
                        burst.as_mut_slice().iter_mut().for_each(|m| m.append(8).unwrap().fill(1));
                        sent += burst.len();
                        to.send(burst).unwrap();
                    } else {
                        thread::yield_now();
                    }
                }
                drop(to);
            });
            whole(&pool);
        }
    }
}

/// More threads over time than there are lanes, each ending with a full cache: nothing is lost, and the lanes'
/// caches are used again by later threads.
#[test]
fn threads_that_end_leave_their_caches_to_others() {
    for kind in KINDS {
        let pool = Mempool::builder("ends", 4096).cache(32).backend(kind).data_room(64).build().unwrap();
        for _ in 0..20 {
            let threads: Vec<_> = (0..10)
                .map(|i| {
                    let pool = pool.clone();
                    thread::spawn(move || {
                        let mut burst = Burst::<Mbuf>::new();
                        assert!(pool.alloc_bulk(&mut burst, 32 + i));
                        drop(burst);
                        assert!(pool.alloc().is_some());
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
        }
        let a = pool.audit().unwrap();
        assert_eq!((a.counts.free, a.checked + a.unchecked), (4096, 4096));
        assert!(a.counts.cached <= 32 * 128, "{a:?}");
    }
}

/// More live threads than lanes: those without a lane go to the back end, and come home too.
#[test]
fn more_live_threads_than_lanes_still_work() {
    const THREADS: usize = 150;
    let pool = Mempool::builder("crowd", 8192).cache(16).data_room(64).build().unwrap();
    let (up, down) = (Barrier::new(THREADS), Barrier::new(THREADS));
    thread::scope(|s| {
        for i in 0..THREADS {
            let (pool, up, down) = (&pool, &up, &down);
            thread::Builder::new()
                .stack_size(64 << 10)
                .spawn_scoped(s, move || {
                    let first = pool.alloc().unwrap();
                    up.wait();
                    for n in 0..20 {
                        let mut held: Vec<_> = (0..n).map(|_| pool.alloc().unwrap()).collect();
                        held.truncate(n / 2);
                        let mut m = stamped(pool, i as u8).unwrap();
                        m.data_mut()[0] = 1;
                    }
                    drop(first);
                    down.wait();
                })
                .unwrap();
        }
    });
    whole(&pool);
}

/// A buffer dropped by a thread-local after the lane is gone goes to the back end.
#[test]
fn buffers_dropped_by_thread_locals_come_home() {
    thread_local!(static KEPT: std::cell::RefCell<Vec<Mbuf>> = const { std::cell::RefCell::new(Vec::new()) });
    let pool = Mempool::builder("tls", 64).cache(8).build().unwrap();
    for _ in 0..10 {
        let pool = pool.clone();
        thread::spawn(move || KEPT.with_borrow_mut(|k| k.extend((0..5).map(|_| pool.alloc().unwrap()))))
            .join()
            .unwrap();
    }
    whole(&pool);
}

#[test]
fn audits_and_counts_while_others_work_find_nothing_wrong() {
    for kind in KINDS {
        let pool = Mempool::builder("busy", 2000).cache(32).backend(kind).data_room(64).build().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|s| {
            for id in 0..3u64 {
                let (pool, stop) = (&pool, &stop);
                s.spawn(move || {
                    let mut rand = rng(id + 9);
                    while !stop.load(Relaxed) {
                        let mut held: Vec<_> = (0..rand() % 100).filter_map(|_| pool.alloc()).collect();
                        held.iter_mut().for_each(|m| m.append(64).unwrap().fill(0xff));
                        // Short-lived threads, whose lanes an audit may look into.
                        if rand().is_multiple_of(32) {
                            thread::scope(|s| {
                                s.spawn(|| drop(pool.alloc()));
                            });
                        }
                    }
                });
            }
            for _ in 0..60 {
                let a = pool.audit().unwrap();
                assert!(a.checked + a.unchecked <= 2000);
                assert!(pool.counts().free <= 2000);
                thread::yield_now();
            }
            stop.store(true, Relaxed);
        });
        whole(&pool);
    }
}

/// Handles gone, buffers still out on other threads that flush their caches while new pools are made (which looks
/// for orphans): a pool counted whole too early would be unmapped under their hands.
#[test]
fn orphaned_pools_are_taken_down_only_when_whole() {
    for round in 0..60u8 {
        let kind = KINDS[usize::from(round % 2)];
        let mut parts: Vec<Vec<Mbuf>> = {
            let pool = Mempool::builder("orphan", 600).cache(64).backend(kind).data_room(64).build().unwrap();
            (0..3).map(|_| (0..200).map(|_| pool.alloc().unwrap()).collect()).collect()
        };
        let done = AtomicBool::new(false);
        thread::scope(|s| {
            let threads: Vec<_> = parts
                .drain(..)
                .map(|part| {
                    s.spawn(move || {
                        for mut m in part {
                            m.append(64).unwrap().fill(round);
                            assert_eq!((m.data()[63], m.pool_name()), (round, "orphan"));
                        }
                    })
                })
                .collect();
            s.spawn(|| {
                while !done.load(Relaxed) {
                    drop(Mempool::builder("reaper", 1).cache(0).build().unwrap());
                }
            });
            threads.into_iter().for_each(|t| t.join().unwrap());
            done.store(true, Relaxed);
        });
    }
}
