//! Ctrl-C and its like: the first asks for an orderly end, one that comes a while later ends at once.

use super::error::TestpmdError;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// `timeout` and some shells send a signal twice; a second one sooner than this is no impatience.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether somebody wants the run to end.
#[derive(Debug)]
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    /// The wish was noticed.
    noticed: AtomicBool,
    /// Another signal ends the program at once; set a while after the wish was noticed.
    impatient: Arc<AtomicBool>,
}

impl Signals {
    /// Listens to SIGINT, SIGTERM and SIGHUP.
    ///
    /// # Errors
    ///
    /// The system refuses a handler.
    pub fn listen() -> Result<Self, TestpmdError> {
        let signals =
            Signals { stop: Arc::default(), noticed: AtomicBool::new(false), impatient: Arc::default() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, 128 + signal, signals.impatient.clone())
                .and_then(|_| flag::register(signal, signals.stop.clone()))
                .map_err(|source| TestpmdError::System { what: "a signal handler", source })?;
        }
        Ok(signals)
    }

    /// Whether one has come.
    pub fn stop(&self) -> bool {
        let stop = self.stop.load(Relaxed);
        if stop && !self.noticed.swap(true, Relaxed) {
            let impatient = self.impatient.clone();
            // Nobody waits for it: it is gone with the program.
            thread::spawn(move || {
                thread::sleep(PATIENCE);
                impatient.store(true, Relaxed);
            });
        }
        stop
    }
}
