//! A queue's receive context (NAPI): what busy polling polls, and for how long it leaves its interrupts off.
//!
//! Busy polling needs to know the context. The kernel tells a socket at its binding (zero-copy, Linux 6.14), or with
//! the first packet (before 6.13), or never (copy mode since then); without one, a call that is meant to poll costs
//! hundreds of cycles for nothing, so none is made.
//!
//! Polling saves little as long as every packet raises an interrupt as well. They stay off after a busy poll if the
//! context is told to defer them: then packets wait for the next poll, and a timer takes over should none come. The
//! setting outlives us, so it is made only if asked for (`irq_defer_us`), and put back at the end.

use super::{
    netdev::{Deferral, Netdev},
    sys,
};
use std::{
    os::fd::AsFd,
    sync::{Arc, Mutex, PoisonError},
};

/// Empty polls before interrupts come back.
const POLLS: u32 = 2;

/// The context from which a socket receives, if the kernel has told it.
pub(super) fn context_of(socket: impl AsFd) -> Option<u32> {
    sys::get_option(socket, libc::SOL_SOCKET, sys::SO_INCOMING_NAPI_ID).ok().filter(|id| *id != 0)
}

/// What is wanted of a context, and what it was like before.
#[derive(Debug)]
pub(super) struct Tuning {
    netdev: Arc<Netdev>,
    timeout_ns: u64,
    /// The context and its former setting, once told.
    before: Mutex<Option<(u32, Deferral)>>,
}

impl Tuning {
    pub(super) fn new(netdev: Arc<Netdev>, timeout_us: u32) -> Self {
        Tuning { netdev, timeout_ns: u64::from(timeout_us) * 1000, before: Mutex::new(None) }
    }

    /// Tells a context to put its interrupts off. A kernel that cannot (before 6.13) leaves it as it is.
    pub(super) fn apply(&self, context: u32) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_none()
            && let Ok(former) = self.netdev.deferral(context)
            && self
                .netdev
                .set_deferral(context, Deferral { polls: POLLS, timeout_ns: self.timeout_ns })
                .is_ok()
        {
            *before = Some((context, former));
        }
    }

    /// Puts it back as it was.
    pub(super) fn restore(&self) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((context, former)) = before.take() {
            // The context may be gone with its interface.
            let _ = self.netdev.set_deferral(context, former);
        }
    }
}

impl Drop for Tuning {
    fn drop(&mut self) {
        self.restore();
    }
}
