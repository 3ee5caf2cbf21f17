//! Ctrl-C and its like: the first asks for an orderly end, one that comes a while later ends at once.

use super::error::TestpmdError;
use linerate::StopSignal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Listens to SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
///
/// The system refuses a handler.
pub(super) fn listen() -> Result<StopSignal, TestpmdError> {
    StopSignal::listen_to(&[SIGINT, SIGTERM, SIGHUP])
        .map_err(|source| TestpmdError::System { what: "a signal handler", source })
}
