//! The façade over synchronisation primitives: core's in ordinary builds, loom's in model checks.
//!
//! Every other file of the crate takes its atomics, cells, shared pointers and spin hints from here, so
//! that the code that is model-checked is the code that ships.

#[cfg(not(loom))]
mod real {
    pub(crate) use core::cell::UnsafeCell;
    pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    pub(crate) use std::sync::Arc;

    /// Tells the processor that this is a wait loop.
    #[inline(always)]
    pub(crate) fn spin() {
        core::hint::spin_loop();
    }

    /// A retry that is no wait: nothing to tell the processor.
    #[inline(always)]
    pub(crate) fn spin_model() {}
}

#[cfg(loom)]
mod real {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// Lets another thread of the model run: without it a wait loop would never end in the model.
    pub(crate) fn spin() {
        loom::thread::yield_now();
    }

    /// A retry whose progress depends on another thread's store becoming visible.
    pub(crate) fn spin_model() {
        loom::thread::yield_now();
    }
}

pub(crate) use real::*;

/// An assertion of the protocol: checked in debug builds, and always in models (which run in release).
macro_rules! protocol_assert {
    ($($arg:tt)+) => {
        if cfg!(any(loom, debug_assertions)) {
            assert!($($arg)+);
        }
    };
}
pub(crate) use protocol_assert;
