//! Public bugs of rings elsewhere, replayed: none of them is here.
#![cfg(not(loom))]

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use linerate_ring::{HtsRing, Moved, MpmcRing, RingError, RingSize, RtsRing, SlotRing, Want};

/// Runs `$body` with `$p`, `$c` as the ends of a ring of `u64`, in every mode.
macro_rules! every_mode {
    ($size:expr, |$p:ident, $c:ident| $body:block) => {{
        every_mode!(@ $size, $p, $c, $body, spsc spsc_blocks mpmc mpsc spmc rts hts);
        {
            let ring = SlotRing::<u64>::new($size).unwrap();
            let ($p, $c) = (&ring, &ring);
            $body
        }
    }};
    (@ $size:expr, $p:ident, $c:ident, $body:block, $($mode:ident)+) => { $( {
        #[allow(unused_mut)]
        let (mut $p, mut $c) = linerate_ring::$mode::<u64>($size).unwrap();
        $body
    } )+ };
}

/// Case 1: a call for no element returns at once, touches no index, and its out-values are right.
#[test]
fn zero_elements_touch_nothing() {
    every_mode!(RingSize::power_of_two(8).unwrap().starting_at(u32::MAX - 2), |p, c| {
        for filled in [0, 3, 8] {
            while c.dequeue().is_some() {}
            p.enqueue_burst(&vec![1; filled]);
            for want in [Want::Bulk, Want::Burst] {
                assert_eq!(p.enqueue_counted(&[], want), Moved { count: 0, left: 8 - filled });
                assert_eq!(c.dequeue_counted(&mut [], want), Moved { count: 0, left: filled });
            }
            assert_eq!((p.enqueue_bulk(&[]), p.enqueue_burst(&[])), (0, 0));
            assert_eq!((c.dequeue_bulk(&mut []), c.dequeue_burst(&mut [])), (0, 0));
            assert_eq!((p.enqueue_array([]), p.len()), (Ok(()), filled));
        }
    });
}

/// Case 1, with others at work: two threads ask for nothing in a loop while two move objects.
#[test]
fn zero_elements_hinder_nobody() {
    fn run<R: Sync>(
        ring: &R,
        put: impl Fn(&R, &[u64]) -> usize + Sync,
        take: impl Fn(&R, &mut [u64]) -> usize + Sync,
    ) {
        const N: u64 = 20_000;
        let done = AtomicBool::new(false);
        thread::scope(|s| {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(put(ring, &[]), 0);
                    thread::yield_now();
                }
            });
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(take(ring, &mut []), 0);
                    thread::yield_now();
                }
            });
            s.spawn(|| {
                for i in 0..N {
                    while put(ring, &[i]) == 0 {
                        thread::yield_now();
                    }
                }
            });
            for i in 0..N {
                let mut got = [0];
                while take(ring, &mut got) == 0 {
                    thread::yield_now();
                }
                assert_eq!(got, [i]);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
    let size = RingSize::power_of_two(8).unwrap();
    run(&MpmcRing::new(size).unwrap(), MpmcRing::enqueue_bulk, MpmcRing::dequeue_bulk);
    run(&RtsRing::new(size).unwrap(), RtsRing::enqueue_bulk, RtsRing::dequeue_bulk);
    run(&HtsRing::new(size).unwrap(), HtsRing::enqueue_bulk, HtsRing::dequeue_bulk);
    run(&SlotRing::new(size).unwrap(), SlotRing::enqueue_bulk, SlotRing::dequeue_bulk);
}

/// Case 2: sizes (the names of the errors are tested beside `RingSize`), and that each holds what it says.
#[test]
fn every_size_holds_what_it_says() {
    for size in [
        RingSize::exact(1),
        RingSize::exact(2),
        RingSize::exact(1000),
        RingSize::exact(4096),
        RingSize::power_of_two(1),
        RingSize::power_of_two(4096),
        RingSize::with_spare(4096),
    ] {
        let size = size.unwrap().starting_at(u32::MAX - 500);
        every_mode!(size, |p, c| {
            let all: Vec<u64> = (0..size.capacity() as u64 + 1).collect();
            assert_eq!(p.capacity(), size.capacity());
            assert_eq!(p.enqueue_bulk(&all), 0);
            assert_eq!(p.enqueue_burst(&all), size.capacity());
            assert_eq!(p.enqueue(7), Err(7));
            assert!(c.is_full());
            let mut out = vec![0; all.len()];
            assert_eq!(c.dequeue_burst(&mut out), size.capacity());
            assert_eq!(out[..size.capacity()], all[..size.capacity()]);
        });
    }
}

/// Case 2: a ring whose bytes do not fit 32 bits is made whole or refused by name, never cut.
#[test]
fn huge_rings_are_made_or_refused() {
    let size = RingSize::power_of_two(1 << 30).unwrap();
    match linerate_ring::spsc::<[u64; 2]>(size) {
        Ok((mut p, mut c)) => {
            // Written behind the 4 GiB where a cut size would end; the pages in between stay untouched.
            assert_eq!(p.enqueue([1, 2]), Ok(()));
            assert_eq!(c.dequeue(), Some([1, 2]));
            assert_eq!(p.capacity(), 1 << 30);
        }
        Err(e) => {
            assert_eq!(e, RingError::NoMemory { bytes: 1 << 34 });
            assert_eq!(e.errno(), 12);
        }
    }
    type Huge = [u8; 1 << 40];
    assert!(matches!(linerate_ring::spsc_blocks::<Huge>(size), Err(RingError::TooManyBytes { .. })));
    assert!(matches!(linerate_ring::spsc::<Huge>(size), Err(RingError::TooManyBytes { .. })));
}

/// Case 4 is a matter of interleavings: the models `overtaken` and `through_one_core` play it. Here the
/// counts under threads: never above the capacity, whatever the moment.
#[test]
fn counts_never_exceed_the_capacity() {
    const CAP: usize = 8;
    let ring = MpmcRing::<u64>::new(RingSize::power_of_two(CAP).unwrap().starting_at(u32::MAX - 99)).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let m = ring.enqueue_counted(&[1, 2, 3], Want::Burst);
                    assert!(m.count + m.left <= CAP);
                }
            });
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let m = ring.dequeue_counted(&mut [0; 5], Want::Burst);
                    assert!(m.count + m.left <= CAP);
                }
            });
        }
        for _ in 0..200_000 {
            assert!(ring.len() <= CAP);
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Case 5: what was stored and what is free are two values, in bulk and in burst.
#[test]
fn stored_and_free_are_two_values() {
    for want in [Want::Bulk, Want::Burst] {
        every_mode!(RingSize::with_spare(16).unwrap(), |p, c| {
            assert_eq!(p.enqueue_counted(&[0; 8], want), Moved { count: 8, left: 7 });
            assert_eq!(p.enqueue_counted(&[0], want), Moved { count: 1, left: 6 });
            assert_eq!(c.dequeue_counted(&mut [0; 4], want), Moved { count: 4, left: 5 });
            // The free space is looked up, not remembered.
            assert_eq!(p.enqueue_counted(&[0], want), Moved { count: 1, left: 9 });
        });
    }
}

/// A call for more than the ring can ever hold.
#[test]
fn more_than_fits_ever() {
    every_mode!(RingSize::exact(5).unwrap(), |p, c| {
        assert_eq!(p.enqueue_bulk(&[0; 6]), 0);
        assert_eq!(p.enqueue_burst(&[1; 600]), 5);
        assert_eq!(c.dequeue_bulk(&mut [0; 6]), 0);
        let mut out = Vec::new();
        assert_eq!(c.dequeue_bulk_into(&mut out, usize::MAX), 0);
        assert_eq!(c.dequeue_burst_into(&mut out, usize::MAX), 5);
    });
}

/// A thread that stops in the middle of a call must not stop the others of its side: that is what RTS is for,
/// and `HtsRing` shows what the other modes do (its second producer waits for the first).
#[test]
fn a_started_operation_holds_up_hts_only_while_it_lasts() {
    let ring = Arc::new(HtsRing::<u64>::new(RingSize::power_of_two(8).unwrap()).unwrap());
    let held = ring.enqueue_start(2, Want::Bulk).unwrap();
    let other = {
        let ring = Arc::clone(&ring);
        thread::spawn(move || ring.enqueue_bulk(&[3]))
    };
    thread::sleep(std::time::Duration::from_millis(20));
    assert!(!other.is_finished());
    held.finish_copy(&[1, 2]);
    assert_eq!(other.join().unwrap(), 1);
    assert_eq!(ring.drain().collect::<Vec<_>>(), [1, 2, 3]);
}

/// Whatever is in a ring when it goes is dropped, once; whatever came out is not.
#[test]
fn dropping_a_ring_drops_its_contents() {
    macro_rules! drops {
        ($($mode:ident)+) => { $( {
            let one = Arc::new(());
            #[allow(unused_mut)]
            let (mut p, mut c) =
                linerate_ring::$mode(RingSize::exact(6).unwrap().starting_at(u32::MAX - 3)).unwrap();
            for _ in 0..9 {
                drop(p.enqueue(one.clone()));
            }
            assert_eq!(Arc::strong_count(&one), 7);
            let mut out = [const { MaybeUninit::uninit() }; 2];
            assert_eq!(c.dequeue_bulk_uninit(&mut out), 2);
            for o in out {
                // SAFETY: both were filled.
                drop(unsafe { o.assume_init() });
            }
            assert_eq!((Arc::strong_count(&one), c.len()), (5, 4));
            p.enqueue_array([one.clone(), one.clone()]).unwrap();
            assert!(p.enqueue_array([one.clone()]).is_err());
            drop(p);
            assert_eq!(c.dequeue(), Some(one.clone()));
            drop(c);
            assert_eq!(Arc::strong_count(&one), 1);
        } )+ };
    }
    drops!(spsc spsc_blocks mpmc mpsc spmc rts hts);

    let one = Arc::new(());
    let ring = SlotRing::new(RingSize::exact(6).unwrap().starting_at(u32::MAX - 3)).unwrap();
    let (n, rest) = ring.enqueue_iter(std::iter::repeat_n(one.clone(), 20));
    assert_eq!((n, rest.is_some()), (6, true));
    drop((ring.dequeue(), rest, ring));
    assert_eq!(Arc::strong_count(&one), 1);
}

/// The ends of a ring of blocks may go in either order, wherever the consumer stands in a block.
#[test]
fn dropping_blocks_drops_their_contents() {
    for (put, taken, producer_first) in
        [(0, 0, true), (14, 13, false), (15, 15, true), (15, 15, false), (40, 31, true), (40, 1, false)]
    {
        let one = Arc::new(0u64);
        let size = RingSize::exact(40).unwrap().starting_at(u32::MAX - 20);
        let (mut p, mut c) = linerate_ring::spsc_blocks(size).unwrap();
        for _ in 0..3 {
            // Once round and more.
            assert_eq!(p.enqueue_iter((0..35).map(|_| one.clone())).0, 35);
            assert_eq!(c.drain().count(), 35);
        }
        p.enqueue_iter((0..put).map(|_| one.clone()));
        (0..taken).for_each(|_| drop(c.dequeue()));
        if producer_first {
            drop(p);
            assert_eq!(c.len(), put - taken);
            drop(c);
        } else {
            drop(c);
            drop(p.enqueue(one.clone()));
            drop(p);
        }
        assert_eq!(Arc::strong_count(&one), 1);
    }
}

/// What is in the ring is accounted for by count at every moment of teardown, and can be looked through.
#[test]
fn teardown_reclaims_by_count() {
    let mut ring = MpmcRing::new(RingSize::power_of_two(8).unwrap().starting_at(u32::MAX)).unwrap();
    assert_eq!(ring.enqueue_burst(&[1, 2, 3, 4, 5]), 5);
    assert_eq!(ring.dequeue(), Some(1));
    let mut seen = Vec::new();
    ring.for_each(|v| seen.push(*v));
    assert_eq!((seen, ring.len()), (vec![2, 3, 4, 5], 4));
    assert_eq!(ring.drain().count(), 4);
    assert!(ring.is_empty());
}

/// Elements without size and elements with padding.
#[test]
fn odd_elements() {
    let (mut p, mut c) = linerate_ring::spsc(RingSize::exact(3).unwrap()).unwrap();
    assert_eq!(p.enqueue_burst(&[(); 9]), 3);
    assert_eq!(c.dequeue_burst(&mut [(); 9]), 3);
    let (mut p, mut c) = linerate_ring::spsc_blocks(RingSize::exact(3).unwrap()).unwrap();
    assert_eq!(p.enqueue_burst(&[(); 9]), 3);
    assert_eq!(c.dequeue_burst(&mut [(); 9]), 3);
    let (mut p, mut c) = linerate_ring::spsc_blocks(RingSize::exact(3).unwrap()).unwrap();
    assert_eq!((p.enqueue_burst(&[[7u64; 40]; 4]), c.dequeue()), (3, Some([7; 40])));
    let (p, c) = linerate_ring::mpmc(RingSize::exact(20).unwrap()).unwrap();
    let all: Vec<(u8, u64, u16)> = (0..20u32).map(|i| (i as u8, u64::from(i), 7)).collect();
    for n in 0..20 {
        let mut out = vec![(0, 0, 0); n];
        assert_eq!((p.enqueue_bulk(&all[..n]), c.dequeue_bulk(&mut out)), (n, n));
        assert_eq!(out, all[..n]);
    }
}

/// A lingering end returns the same, and waits once a place only.
#[test]
fn lingering_changes_no_result() {
    let (mut p, mut c) = linerate_ring::spsc::<u64>(RingSize::exact(2).unwrap()).unwrap();
    p.set_linger(3);
    c.set_linger(3);
    for i in 0..5 {
        assert_eq!((c.dequeue(), c.dequeue()), (None, None));
        assert_eq!(p.enqueue_burst(&[i, i + 1, i + 2]), 2);
        assert_eq!((p.enqueue(9), p.enqueue(9)), (Err(9), Err(9)));
        assert_eq!(c.drain().collect::<Vec<_>>(), [i, i + 1]);
    }
}
