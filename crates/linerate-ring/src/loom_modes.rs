//! Every mode with its true orders, through all scenes. See `loom_scenes.rs` for the commands.

use loom::thread;

use crate::loom_scenes::*;
use crate::orders::TABLE;
use crate::ring::{HtsRing, MpmcRing, RtsRing};
use crate::side::Want;
use crate::slots::SlotRing;
use crate::{Hts, Multi, Rts};

macro_rules! all_scenes {
    ($name:ident, $ring:ty, $bound:literal) => {
        mod $name {
            use super::*;

            #[test]
            fn there_and_round_1() {
                play(TABLE, 3, there_and_round::<$ring>(1, 3));
            }
            #[test]
            fn there_and_round_2() {
                play(TABLE, $bound, there_and_round::<$ring>(2, 3));
            }
            #[test]
            fn two_in_one_out() {
                play(TABLE, $bound, super::two_in_one_out::<$ring>);
            }
            #[test]
            fn two_out_one_in() {
                play(TABLE, $bound, super::two_out_one_in::<$ring>);
            }
            #[test]
            fn one_in_two_out() {
                play(TABLE, $bound, super::one_in_two_out::<$ring>);
            }
            #[test]
            fn one_out_two_in() {
                play(TABLE, $bound, super::one_out_two_in::<$ring>);
            }
            #[test]
            fn through_one_core() {
                play(TABLE, 3, super::through_one_core::<$ring>(2));
                play(TABLE, 3, super::through_one_core_full::<$ring>(2));
            }
            #[test]
            fn overtaken() {
                play(TABLE, 3, super::overtaken::<$ring>);
                play(TABLE, 3, super::overtaken_full::<$ring>);
            }
        }
    };
}
all_scenes!(mpmc, MpmcRing<u32>, 3);
all_scenes!(rts, RtsRing<u32>, 3);
all_scenes!(hts, HtsRing<u32>, 3);
all_scenes!(slots, SlotRing<u32>, 3);
all_scenes!(multi_in_hts_out, crate::Ring<u32, Multi, Hts>, 3);

#[test]
fn spsc() {
    play(TABLE, 4, ends(|| crate::spsc(size(1)).unwrap()));
    play(TABLE, 4, ends(|| crate::spsc(size(2)).unwrap()));
}

#[test]
fn blocks() {
    for capacity in 1..=3 {
        play(TABLE, 3, ends(move || crate::spsc_blocks(size(capacity)).unwrap()));
    }
    play(TABLE, 3, across_blocks(true));
    play(TABLE, 3, across_blocks(false));
}

#[test]
fn mpsc() {
    play(TABLE, 3, ends(|| crate::mpsc(size(2)).unwrap()));
    play(TABLE, 3, || {
        let (p, mut c) = crate::mpsc(size(2)).unwrap();
        let q = p.clone();
        let t = thread::spawn(move || q.enqueue(2).unwrap());
        let u = thread::spawn(move || {
            let mut out = Vec::new();
            c.dequeue_bulk_into(&mut out, 2);
            (c, out)
        });
        p.enqueue(1).unwrap();
        t.join().unwrap();
        let (mut c, mut out) = u.join().unwrap();
        out.extend(c.drain());
        assert!(out == [1, 2] || out == [2, 1]);
    });
}

#[test]
fn spmc() {
    play(TABLE, 3, ends(|| crate::spmc(size(2)).unwrap()));
    play(TABLE, 3, || {
        let (mut p, c) = crate::spmc(size(2)).unwrap();
        assert_eq!(p.enqueue_bulk(&[1, 2]), 2);
        let d = c.clone();
        let t = thread::spawn(move || d.dequeue().unwrap());
        let u = thread::spawn(move || p.enqueue_bulk(&[3, 4]));
        assert_eq!(c.dequeue().unwrap() + t.join().unwrap(), 3);
        let put = u.join().unwrap();
        assert_eq!(c.drain().count(), put);
    });
}

#[test]
fn the_last_one_moves_the_tail() {
    play(TABLE, 4, last_one_moves_the_tail::<Rts>(true));
    play(TABLE, 4, last_one_moves_the_tail::<Rts>(false));
}

#[test]
fn look_and_leave_hts() {
    play(TABLE, 3, look_and_leave::<Hts>);
    play(TABLE, 3, reserve_and_leave::<Hts>);
}

#[test]
fn peek_and_zero_copy_spsc() {
    play(TABLE, 4, || {
        let (mut p, mut c) = crate::spsc::<u32>(size(2)).unwrap();
        let t = thread::spawn(move || {
            p.enqueue_start(2, Want::Bulk).unwrap().finish_copy(&[1]);
            let mut sent = 1;
            while sent < 3 {
                if let Some(mut w) = p.write_slots(2, Want::Burst) {
                    w.write(sent + 1).unwrap();
                    sent += w.commit() as u32;
                }
                thread::yield_now();
            }
        });
        let mut got = Vec::new();
        while got.len() < 3 {
            let next = got.len() as u32 + 1;
            if next == 2 {
                if let Some(r) = c.read_slots(2, Want::Burst) {
                    r.commit_with(1, |v| got.push(v));
                }
            } else if let Some(look) = c.dequeue_start(2, Want::Burst) {
                assert_eq!(look.get(0), Some(&next));
                look.finish_into(&mut got, 1);
            }
            thread::yield_now();
        }
        t.join().unwrap();
        assert_eq!(got, [1, 2, 3]);
    });
}

#[test]
fn dropping_drops_what_is_left() {
    play(TABLE, 3, || {
        let (mut p, mut c) = crate::spsc(size(2)).unwrap();
        let one = std::sync::Arc::new(());
        let values = [one.clone(), one.clone()];
        let t = thread::spawn(move || {
            for v in values {
                drop(p.enqueue(v));
            }
        });
        drop(c.dequeue());
        drop(c);
        t.join().unwrap();
        assert_eq!(std::sync::Arc::strong_count(&one), 1);
    });
}
