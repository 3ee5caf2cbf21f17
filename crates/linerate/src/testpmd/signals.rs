//! Ctrl-C and its like: the first asks for an orderly end, one after that was noticed ends at once.

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
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    /// Set once the wish was noticed: `timeout` and some shells send a signal twice within microseconds, and the
    /// second of these is no impatience.
    noticed: Arc<AtomicBool>,
}

impl Signals {
    /// Listens to SIGINT, SIGTERM and SIGHUP.
    ///
    /// # Errors
    ///
    /// The system refuses a handler.
    pub fn listen() -> Result<Self, TestpmdError> {
        let signals = Signals { stop: Arc::default(), noticed: Arc::default() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, 128 + signal, signals.noticed.clone())
                .and_then(|_| flag::register(signal, signals.stop.clone()))
                .map_err(|source| TestpmdError::System { what: "a signal handler", source })?;
        }
        Ok(signals)
    }

    /// Whether one has come.
    pub fn stop(&self) -> bool {
        let stop = self.stop.load(Relaxed);
        if stop {
            self.noticed.store(true, Relaxed);
        }
        stop
    }
}
