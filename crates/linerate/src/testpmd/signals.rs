//! Ctrl-C and its like: the first asks for an orderly end, the second ends at once.

use super::error::TestpmdError;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Whether somebody wants the run to end.
#[derive(Debug)]
pub(super) struct Signals(Arc<AtomicBool>);

impl Signals {
    /// Listens to SIGINT, SIGTERM and SIGHUP.
    ///
    /// # Errors
    ///
    /// The system refuses a handler.
    pub fn listen() -> Result<Self, TestpmdError> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the second one finds the flag set by the first.
            flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
                .and_then(|_| flag::register(signal, stop.clone()))
                .map_err(|source| TestpmdError::System { what: "a signal handler", source })?;
        }
        Ok(Signals(stop))
    }

    /// Whether one has come.
    pub fn stop(&self) -> bool {
        self.0.load(Relaxed)
    }
}
