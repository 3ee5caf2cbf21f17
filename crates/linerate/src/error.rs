//! What can go wrong when ports are opened and started from one call.

use linerate_mbuf::PoolError;
use linerate_port::{PortError, SpecError};
use std::{io, process::ExitCode};
use thiserror::Error;

/// Why a program on the façade cannot go on. [`hint`](Self::hint) says what mends it.
#[derive(Debug, Error)]
pub enum Error {
    /// A port was refused, or refused something.
    #[error("{0}")]
    Port(#[from] PortError),
    /// The pool of a port cannot be made.
    #[error("{0}")]
    Pool(#[from] PoolError),
    /// The system refused something that is no port's.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The program was called in a way that it does not know.
    #[error("{what}")]
    Usage {
        /// What is wrong with the call.
        what: String,
        /// How to call it.
        hint: String,
    },
}

impl Error {
    /// The command or the option that mends it.
    ///
    /// ```
    /// let e = linerate::PortBuilder::new("null:sz=64").start().unwrap_err();
    /// assert!(e.hint().contains("did you mean `size`?"));
    /// ```
    pub fn hint(&self) -> String {
        match self {
            Error::Port(e) => e.hint(),
            Error::Pool(e) => e.hint().to_string(),
            Error::System { .. } => "`strace -f` shows the call that failed".into(),
            Error::Usage { hint, .. } => hint.clone(),
        }
    }

    /// Says it and its hint on standard error, as the commands of `linerate` do.
    pub(crate) fn tell(&self) -> ExitCode {
        eprintln!("error: {self}\n  hint: {}", self.hint());
        ExitCode::FAILURE
    }
}

impl From<SpecError> for Error {
    fn from(e: SpecError) -> Self {
        Error::Port(e.into())
    }
}
