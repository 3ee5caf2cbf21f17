//! Ctrl-C as a flag, and a `main` around it.

use crate::Error;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};
use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Whether somebody wants the program to end. Clones are the same wish.
///
/// ```
/// let stop = linerate::StopSignal::new();
/// assert!(!stop.is_set());
/// stop.clone().set();
/// assert!(stop.is_set());
/// ```
// Only a wish: nothing is published by it, so its order does not matter.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// A wish that only [`set`](Self::set) makes.
    pub fn new() -> Self {
        StopSignal::default()
    }

    /// A wish that Ctrl-C and SIGTERM make too; a second one of the same kind ends the program at once.
    ///
    /// # Errors
    ///
    /// The system refuses a handler.
    pub fn listen() -> Result<Self, Error> {
        let stop = StopSignal::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal sets the flag that lets the second one end the program.
            flag::register_conditional_shutdown(signal, 128 + signal, stop.0.clone())
                .and_then(|_| flag::register(signal, stop.0.clone()))
                .map_err(|source| Error::System { what: "a signal handler", source })?;
        }
        Ok(stop)
    }

    /// Wants the end.
    pub fn set(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether the end is wanted. A load from a line that nobody writes: cheap enough for every turn of a loop.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Runs a program's work with its arguments (without its name) and a [`StopSignal`] that listens; an error is told
/// on standard error with its hint.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     linerate::run(|args, stop| {
///         let mut port = linerate::PortBuilder::new(args[0].as_str()).start()?;
///         let mut burst = linerate::mbuf::Burst::new();
///         while !stop.is_set() {
///             port.rx[0].rx_burst(&mut burst, 32);
///             port.tx[0].tx_burst(&mut burst);
///         }
///         port.stop().map(drop)
///     })
/// }
/// ```
pub fn run(work: impl FnOnce(&[String], &StopSignal) -> Result<(), Error>) -> ExitCode {
    let args: Vec<String> = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    match StopSignal::listen().and_then(|stop| work(&args, &stop)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => e.tell(),
    }
}
