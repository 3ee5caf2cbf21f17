//! Every row of the table of orders, weakened: the model must fail. See `loom_scenes.rs` for the commands.
//!
//! A passing model proves little unless it is known to fail when it should. Each test names the edge by its
//! letter in the drawing of its mode.

use crate::loom_scenes::*;
use crate::orders::{Edges, TABLE, Table};
use crate::ring::{HtsRing, MpmcRing, RtsRing};
use crate::slots::SlotRing;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::{Hts, Rts};

fn prod(f: impl Fn(&mut Edges)) -> Table {
    let mut t = TABLE;
    f(&mut t.prod);
    t
}

fn cons(f: impl Fn(&mut Edges)) -> Table {
    let mut t = TABLE;
    f(&mut t.cons);
    t
}

/// `name: side, what is weakened => ring, scene;`
macro_rules! mutants {
    ($($name:ident: $side:ident, $edge:ident = $order:ident => $bound:literal, $scene:expr;)+) => { $(
        #[test]
        fn $name() {
            let table = $side(|e| e.$edge = $order);
            must_fail(concat!(stringify!($side), ".", stringify!($edge)), table, $bound, $scene);
        }
    )+ };
}

mod single {
    use super::*;
    fn scene() -> impl Fn() + Sync + Send + 'static {
        ends(|| crate::spsc(size(1)).unwrap())
    }
    mutants! {
        a_of_producer: prod, opposite_tail = Relaxed => 3, scene();
        a_of_consumer: cons, opposite_tail = Relaxed => 3, scene();
        t_of_producer: prod, tail_store = Relaxed => 3, scene();
        t_of_consumer: cons, tail_store = Relaxed => 3, scene();
    }
}

mod mpmc {
    use super::*;
    type R = MpmcRing<u32>;
    mutants! {
        a_of_producers: prod, opposite_tail = Relaxed => 3, there_and_round::<R>(1, 2);
        a_of_consumers: cons, opposite_tail = Relaxed => 3, there_and_round::<R>(1, 2);
        t_of_producers: prod, tail_store = Relaxed => 3, there_and_round::<R>(1, 2);
        t_of_consumers: cons, tail_store = Relaxed => 3, there_and_round::<R>(1, 2);
        w_of_producers: prod, tail_wait = Relaxed => 3, two_in_one_out::<R>;
        w_of_consumers: cons, tail_wait = Relaxed => 3, two_out_one_in::<R>;
        h_of_producers: prod, head_load = Relaxed => 3, one_out_two_in::<R>;
        h_of_consumers: cons, head_load = Relaxed => 3, one_in_two_out::<R>;
        c_of_producers: prod, head_cas_ok = Relaxed => 3, one_out_two_in::<R>;
        c_of_consumers: cons, head_cas_ok = Relaxed => 3, one_in_two_out::<R>;
        f_of_producers: prod, head_cas_fail = Relaxed => 3, overtaken_full::<R>;
        f_of_consumers: cons, head_cas_fail = Relaxed => 3, overtaken::<R>;
    }

    fn as_dpdk_had_it(e: &mut Edges) {
        e.head_load = Relaxed;
        e.fence_after_head = true;
        e.head_cas_ok = Relaxed;
        e.head_cas_fail = Relaxed;
    }

    #[test]
    fn dpdk_2018_to_2025_consumers() {
        must_fail("head relaxed + fence", cons(as_dpdk_had_it), 3, through_one_core::<R>(1));
    }

    #[test]
    fn dpdk_2018_to_2025_producers() {
        must_fail("head relaxed + fence", prod(as_dpdk_had_it), 3, through_one_core_full::<R>(1));
    }

    /// What it looks like: the room that the second consumer computes.
    #[test]
    fn dpdk_2018_to_2025_sees_a_negative_count() {
        let why = must_fail("head relaxed + fence", cons(as_dpdk_had_it), 3, through_one_core::<R>(1));
        assert!(why.contains("room 4294967295 of 1"), "{why}");
    }
}

mod rts {
    use super::*;
    type R = RtsRing<u32>;
    mutants! {
        a_of_producers: prod, opposite_tail = Relaxed => 3, there_and_round::<R>(1, 2);
        a_of_consumers: cons, opposite_tail = Relaxed => 3, there_and_round::<R>(1, 2);
        u_of_producers: prod, rts_tail_cas_ok = Relaxed => 3, there_and_round::<R>(1, 2);
        u_of_consumers: cons, rts_tail_cas_ok = Relaxed => 3, there_and_round::<R>(1, 2);
        h_of_producers: prod, head_load = Relaxed => 3, through_one_core_full::<R>(1);
        h_of_consumers: cons, head_load = Relaxed => 3, through_one_core::<R>(1);
        c_of_producers: prod, head_cas_ok = Relaxed => 3, through_one_core_full::<R>(1);
        c_of_consumers: cons, head_cas_ok = Relaxed => 3, through_one_core::<R>(1);
        f_of_producers: prod, head_cas_fail = Relaxed => 3, overtaken_full::<R>;
        f_of_consumers: cons, head_cas_fail = Relaxed => 3, overtaken::<R>;
        l_of_producers: prod, rts_tail_load = Relaxed => 3, last_one_moves_the_tail::<Rts>(true);
        l_of_consumers: cons, rts_tail_load = Relaxed => 3, last_one_moves_the_tail::<Rts>(false);
        m_of_producers: prod, rts_tail_cas_fail = Relaxed => 3, last_one_moves_the_tail::<Rts>(true);
        m_of_consumers: cons, rts_tail_cas_fail = Relaxed => 3, last_one_moves_the_tail::<Rts>(false);
    }
}

mod hts {
    use super::*;
    type R = HtsRing<u32>;
    mutants! {
        a_of_producers: prod, opposite_tail = Relaxed => 3, there_and_round::<R>(1, 2);
        a_of_consumers: cons, opposite_tail = Relaxed => 3, there_and_round::<R>(1, 2);
        t_of_producers: prod, tail_store = Relaxed => 3, there_and_round::<R>(1, 2);
        t_of_consumers: cons, tail_store = Relaxed => 3, there_and_round::<R>(1, 2);
        h_of_producers: prod, head_load = Relaxed => 3, through_one_core_full::<R>(1);
        h_of_consumers: cons, head_load = Relaxed => 3, through_one_core::<R>(1);
        f_of_producers: prod, head_cas_fail = Relaxed => 3, overtaken_full::<R>;
        f_of_consumers: cons, head_cas_fail = Relaxed => 3, overtaken::<R>;
        c_of_producers: prod, hts_cas_ok = Release => 3, reserve_and_leave::<Hts>;
        c_of_consumers: cons, hts_cas_ok = Release => 3, look_and_leave::<Hts>;
    }

    /// The release half of C has no reader (see `hts.rs`), and the model agrees: it holds without it.
    #[test]
    fn release_of_c_is_not_needed() {
        for table in [prod(|e| e.hts_cas_ok = Acquire), cons(|e| e.hts_cas_ok = Acquire)] {
            play(table, 2, two_in_one_out::<R>);
            play(table, 2, two_out_one_in::<R>);
            play(table, 2, one_in_two_out::<R>);
            play(table, 2, one_out_two_in::<R>);
            play(table, 3, through_one_core::<R>(2));
            play(table, 3, through_one_core_full::<R>(2));
            play(table, 3, overtaken::<R>);
            play(table, 3, overtaken_full::<R>);
            play(table, 3, look_and_leave::<Hts>);
            play(table, 3, reserve_and_leave::<Hts>);
        }
    }
}

mod slots {
    use super::*;
    type R = SlotRing<u32>;
    mutants! {
        q_of_producers: prod, seq_load = Relaxed => 3, there_and_round::<R>(2, 3);
        q_of_consumers: cons, seq_load = Relaxed => 3, there_and_round::<R>(2, 3);
        s_of_producers: prod, seq_store = Relaxed => 3, there_and_round::<R>(2, 3);
        s_of_consumers: cons, seq_store = Relaxed => 3, there_and_round::<R>(2, 3);
    }
}

mod blocks {
    use super::*;
    fn scene() -> impl Fn() + Sync + Send + 'static {
        ends(|| crate::spsc_blocks(size(1)).unwrap())
    }
    mutants! {
        a_of_producer: prod, opposite_tail = Relaxed => 3, scene();
        s_of_producer: prod, seq_store = Relaxed => 3, scene();
        q_of_consumer: cons, seq_load = Relaxed => 3, scene();
        t_of_consumer: cons, tail_store = Relaxed => 3, scene();
        s_across_blocks: prod, seq_store = Relaxed => 3, across_blocks(true);
        q_across_blocks: cons, seq_load = Relaxed => 3, across_blocks(false);
        a_across_blocks: prod, opposite_tail = Relaxed => 3, across_blocks(true);
        t_across_blocks: cons, tail_store = Relaxed => 3, across_blocks(true);
    }
}
