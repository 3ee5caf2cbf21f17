//! Ctrl-C as a flag, and a `main` around it.

use crate::Error;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};
use std::{
    io,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// `timeout` and some shells send a signal twice; a second one sooner than this is the same wish.
const PATIENCE: Duration = Duration::from_secs(1);

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
pub struct StopSignal {
    stop: Arc<AtomicBool>,
    /// The wish was noticed.
    noticed: Arc<AtomicBool>,
    /// Another signal ends the program at once; set a while after the wish was noticed.
    impatient: Arc<AtomicBool>,
}

impl StopSignal {
    /// A wish that only [`set`](Self::set) makes.
    pub fn new() -> Self {
        StopSignal::default()
    }

    /// A wish that Ctrl-C and SIGTERM make too. One that comes a second after the wish was noticed ends the program
    /// at once.
    ///
    /// # Errors
    ///
    /// The system refuses a handler.
    pub fn listen() -> Result<Self, Error> {
        Self::listen_to(&[SIGINT, SIGTERM])
            .map_err(|source| Error::System { what: "a signal handler", source })
    }

    /// The same for signals of the caller's choice, by number.
    ///
    /// # Errors
    ///
    /// What the system says when it refuses a handler.
    pub fn listen_to(signals: &[i32]) -> io::Result<Self> {
        let stop = StopSignal::default();
        for &signal in signals {
            flag::register_conditional_shutdown(signal, 128 + signal, stop.impatient.clone())?;
            flag::register(signal, stop.stop.clone())?;
        }
        Ok(stop)
    }

    /// Wants the end.
    pub fn set(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Whether the end is wanted. A load from a line that nobody writes: cheap enough for every turn of a loop.
    #[inline]
    pub fn is_set(&self) -> bool {
        let stop = self.stop.load(Relaxed);
        if stop {
            self.notice();
        }
        stop
    }

    #[cold]
    #[inline(never)]
    fn notice(&self) {
        if !self.noticed.swap(true, Relaxed) {
            let impatient = self.impatient.clone();
            // Nobody waits for it: it is gone with the program.
            thread::spawn(move || {
                thread::sleep(PATIENCE);
                impatient.store(true, Relaxed);
            });
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::low_level::raise;

    #[test]
    fn signals_in_one_go_are_one_wish() {
        let stop = StopSignal::listen().unwrap();
        assert!(!stop.is_set());
        raise(SIGTERM).unwrap();
        raise(SIGTERM).unwrap();
        assert!(stop.is_set());
        // Noticed just now, and still the same wish.
        raise(SIGINT).unwrap();
        assert!(stop.clone().is_set());
    }
}
