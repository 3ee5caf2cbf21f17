//! `linerate testpmd`.

use std::process::ExitCode;

/// Options of `linerate testpmd`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it; the exit status.
pub fn main(_: Args) -> ExitCode {
    ExitCode::FAILURE
}
