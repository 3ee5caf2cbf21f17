//! Keeping a queue's interrupts off while it is busy-polled.
//!
//! A call that polls the driver saves nothing as long as every packet raises an interrupt as well. The kernel leaves
//! interrupts off after a busy poll if the receive context (NAPI) is told to defer them: then packets wait for the
//! next poll, a whole batch at a time, and a timer takes over should none come. On veth, where an "interrupt" is a
//! pass through the kernel's softirq for every single frame, that is worth a third of the cost of a frame.
//!
//! On veth the context lives exactly as long as the XDP program, so nothing is left behind whatever happens; there it
//! is the default. On other drivers it outlives us, and is done only if asked for, and put back at the end.

use super::{
    netdev::{Deferral, Netdev},
    sys,
};
use std::{
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, PoisonError},
};

/// The driver whose contexts go with the program.
pub(super) const CONTEXT_GOES_WITH_PROGRAM: &str = "veth";
/// Microseconds for which interrupts are put off there.
pub(super) const DEFER_US: u32 = 200;
/// Empty polls before interrupts come back.
const POLLS: u32 = 2;

/// What is wanted of a queue's receive context, and what it was like before.
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

    /// Tells the context of a socket's queue; false if it is not known yet, which it is once a packet has come.
    pub(super) fn apply(&self, socket: BorrowedFd<'_>) -> bool {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_some() {
            return true;
        }
        let napi = sys::get_option(socket, libc::SOL_SOCKET, sys::SO_INCOMING_NAPI_ID).unwrap_or(0u32);
        if napi == 0 {
            return false;
        }
        if let Ok(former) = self.netdev.deferral(napi) {
            let wanted = Deferral { polls: POLLS, timeout_ns: self.timeout_ns };
            // A kernel that cannot (before 6.13) leaves it as it is: slower, and all else the same.
            if former.is_on() || self.netdev.set_deferral(napi, wanted).is_ok() {
                *before = Some((napi, former));
            }
        }
        true
    }

    /// Puts it back as it was.
    pub(super) fn restore(&self) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((napi, former)) = before.take() {
            // The context may be gone with its interface.
            let _ = self.netdev.set_deferral(napi, former);
        }
    }
}

impl Drop for Tuning {
    fn drop(&mut self) {
        self.restore();
    }
}
