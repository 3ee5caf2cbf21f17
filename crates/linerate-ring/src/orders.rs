//! The table of memory orders: every ordering that carries a protocol, by its letter.
//!
//! Ordinary builds see a constant and the compiler folds it away. A model check may give a ring another
//! table, with one edge weakened, and must then see the model fail; `loom_mutants.rs` does so for each row.
//! The drawings with the letters are at the top of `single.rs`, `multi.rs`, `rts.rs`, `hts.rs`,
//! `slots.rs`, `blocks.rs`.

use crate::sync::Ordering;
use Ordering::{AcqRel, Acquire, Release};

/// The orders of one side (all producers, or all consumers) of a ring. Each mode uses some of the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges {
    /// A: load of the opposite tail. Pairs with the opposite side's T. (All modes but slots.)
    pub opposite_tail: Ordering,
    /// T: store of the own tail. Pairs with the opposite side's A and, in MPMC, with W of the same side; in
    /// HTS with H of the same side. (Single, MPMC, HTS.)
    pub tail_store: Ordering,
    /// H: load of the own head. Pairs with C of the same side; in HTS with T. (MPMC, RTS, HTS.)
    pub head_load: Ordering,
    /// C: compare-and-swap of the own head, when it succeeds. Pairs with H and F. (MPMC, RTS.)
    pub head_cas_ok: Ordering,
    /// F: the same when it fails and hands out the newer head. Pairs with C; in HTS with T. (MPMC, RTS, HTS.)
    pub head_cas_fail: Ordering,
    /// W: the wait for those who reserved before us. Pairs with T of the same side. (MPMC.)
    pub tail_wait: Ordering,
    /// L: load of the own tail word before it is counted up. Pairs with U of the same side. (RTS.)
    pub rts_tail_load: Ordering,
    /// U: compare-and-swap of the own tail word. Pairs with A of the opposite side and L, M of the same. (RTS.)
    pub rts_tail_cas_ok: Ordering,
    /// M: the same when it fails. Pairs with U. (RTS.)
    pub rts_tail_cas_fail: Ordering,
    /// C of HTS: see the drawing in `hts.rs` for why it acquires too.
    pub hts_cas_ok: Ordering,
    /// Q: load of a slot's sequence number, or of a block's end. Pairs with S of the opposite side. (Slots, blocks.)
    pub seq_load: Ordering,
    /// S: store of a slot's sequence number, or of a block's end. Pairs with Q of the opposite side. (Slots, blocks.)
    pub seq_store: Ordering,
    /// What DPDK shipped from 2018 to 2025: head loaded relaxed, then an acquire fence. Only models turn it on.
    #[cfg(loom)]
    pub fence_after_head: bool,
}

/// The orders of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub prod: Edges,
    pub cons: Edges,
}

const EDGES: Edges = Edges {
    opposite_tail: Acquire,
    tail_store: Release,
    head_load: Acquire,
    head_cas_ok: Release,
    head_cas_fail: Acquire,
    tail_wait: Acquire,
    rts_tail_load: Acquire,
    rts_tail_cas_ok: Release,
    rts_tail_cas_fail: Acquire,
    hts_cas_ok: AcqRel,
    seq_load: Acquire,
    seq_store: Release,
    #[cfg(loom)]
    fence_after_head: false,
};

/// The correct table.
pub(crate) const TABLE: Table = Table { prod: EDGES, cons: EDGES };

#[cfg(loom)]
pub(crate) mod model {
    //! The table that rings made on this thread take. Loom runs all threads of a model on the thread that
    //! called it, so a test sets the table for its own models only.
    use super::{TABLE, Table};
    use std::cell::Cell;

    std::thread_local! {
        static CURRENT: Cell<Table> = const { Cell::new(TABLE) };
    }

    /// Rings made from now on by models of this test take `table`.
    pub(crate) fn set(table: Table) {
        CURRENT.with(|c| c.set(table));
    }

    pub(crate) fn current() -> Table {
        CURRENT.with(Cell::get)
    }
}
