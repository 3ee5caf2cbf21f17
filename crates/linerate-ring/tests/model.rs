//! Every mode against a `VecDeque`, with generated calls and indexes that wrap.
#![cfg(not(loom))]

use std::collections::VecDeque;

use linerate_ring::{RingSize, SlotRing, Want};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Push,
    Pop,
    Put(usize, Want),
    Take(usize, Want),
    FromVec(usize, Want),
    IntoVec(usize, Want),
}

fn want() -> impl Strategy<Value = Want> {
    prop_oneof![Just(Want::Bulk), Just(Want::Burst)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Push),
        Just(Op::Pop),
        (0..40usize, want()).prop_map(|(n, w)| Op::Put(n, w)),
        (0..40usize, want()).prop_map(|(n, w)| Op::Take(n, w)),
        (0..40usize, want()).prop_map(|(n, w)| Op::FromVec(n, w)),
        (0..40usize, want()).prop_map(|(n, w)| Op::IntoVec(n, w)),
    ]
}

fn size() -> impl Strategy<Value = RingSize> {
    (1..40usize, prop_oneof![Just(0u32), Just(u32::MAX - 3), any::<u32>()])
        .prop_map(|(n, start)| RingSize::exact(n).unwrap().starting_at(start))
}

fn admitted(n: usize, room: usize, want: Want) -> usize {
    if n <= room {
        n
    } else if want == Want::Burst {
        room
    } else {
        0
    }
}

/// Runs the operations on both ends and on the oracle; `E` is any element made from a number.
macro_rules! check {
    ($p:expr, $c:expr, $size:expr, $ops:expr, $elem:ty, $make:expr) => {{
        let (p, c, make) = ($p, $c, $make);
        let cap = $size.capacity();
        let mut oracle: VecDeque<$elem> = VecDeque::new();
        let mut next = 0u64;
        let mut fresh = |n: usize| -> Vec<$elem> {
            (0..n)
                .map(|_| {
                    next += 1;
                    make(next)
                })
                .collect()
        };
        for op in $ops {
            match op {
                Op::Push => {
                    let v = fresh(1)[0];
                    let r = p.enqueue(v);
                    prop_assert_eq!(r.is_ok(), oracle.len() < cap);
                    if r.is_ok() {
                        oracle.push_back(v);
                    }
                }
                Op::Pop => prop_assert_eq!(c.dequeue(), oracle.pop_front()),
                Op::Put(n, w) => {
                    let v = fresh(n);
                    let k = admitted(n, cap - oracle.len(), w);
                    let m = p.enqueue_counted(&v, w);
                    prop_assert_eq!(m.count, k);
                    oracle.extend(&v[..k]);
                    prop_assert_eq!(m.left, cap - oracle.len());
                }
                Op::Take(n, w) => {
                    let mut out = vec![make(0); n];
                    let k = admitted(n, oracle.len(), w);
                    let m = c.dequeue_counted(&mut out, w);
                    prop_assert_eq!(m.count, k);
                    let expect: Vec<_> = oracle.drain(..k).collect();
                    prop_assert_eq!(&out[..k], &expect[..]);
                    prop_assert_eq!(m.left, oracle.len());
                }
                Op::FromVec(n, w) => {
                    let mut v = fresh(n);
                    let all = v.clone();
                    let k = admitted(n, cap - oracle.len(), w);
                    let got = match w {
                        Want::Bulk => p.enqueue_bulk_from(&mut v),
                        Want::Burst => p.enqueue_burst_from(&mut v),
                    };
                    prop_assert_eq!(got, k);
                    prop_assert_eq!(&v[..], &all[k..]);
                    oracle.extend(&all[..k]);
                }
                Op::IntoVec(n, w) => {
                    let mut out = vec![make(7)];
                    let k = admitted(n, oracle.len(), w);
                    let got = match w {
                        Want::Bulk => c.dequeue_bulk_into(&mut out, n),
                        Want::Burst => c.dequeue_burst_into(&mut out, n),
                    };
                    prop_assert_eq!(got, k);
                    let expect: Vec<_> = oracle.drain(..k).collect();
                    prop_assert_eq!(&out[1..], &expect[..]);
                }
            }
            prop_assert_eq!(c.len(), oracle.len());
            prop_assert_eq!(p.free(), cap - oracle.len());
            prop_assert_eq!((c.is_empty(), p.is_full()), (oracle.is_empty(), oracle.len() == cap));
        }
        prop_assert_eq!(c.drain().collect::<Vec<_>>(), oracle.into_iter().collect::<Vec<_>>());
    }};
}

macro_rules! modes {
    ($($mode:ident),+) => { proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
        $(
            #[test]
            #[allow(unused_mut)]
            fn $mode(size in size(), ops in prop::collection::vec(op(), 0..80)) {
                let (mut p, mut c) = linerate_ring::$mode::<u64>(size).unwrap();
                check!(&mut p, &mut c, size, ops.clone(), u64, |n| n);
                let (mut p, mut c) = linerate_ring::$mode::<[u64; 2]>(size).unwrap();
                check!(&mut p, &mut c, size, ops.clone(), [u64; 2], |n: u64| [n, !n]);
                let (mut p, mut c) = linerate_ring::$mode::<[u8; 3]>(size).unwrap();
                check!(&mut p, &mut c, size, ops, [u8; 3], |n: u64| [n as u8, (n >> 8) as u8, 3]);
            }
        )+
        #[test]
        fn slots(size in size(), ops in prop::collection::vec(op(), 0..80)) {
            let r = SlotRing::<u64>::new(size).unwrap();
            check!(&r, &r, size, ops.clone(), u64, |n| n);
            let r = SlotRing::<[u64; 3]>::new(size).unwrap();
            check!(&r, &r, size, ops, [u64; 3], |n: u64| [n, n, n]);
        }
    } };
}
modes!(spsc, spsc_blocks, mpmc, mpsc, spmc, rts, hts);
