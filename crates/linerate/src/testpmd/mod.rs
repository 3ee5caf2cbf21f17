//! `linerate testpmd`: forward packets between ports, and report what moved.
//!
//! ```text
//!  options ─► plan ─► rig (ports, pools) ─► run ─┬─► engine (a thread a core: streams round and round, modes/)
//!                                                ├─► prompt (commands, where there are to be any)
//!                                                ├─► tester (numbered frames, and their check)
//!                                                ├─► live (a line each second)
//!                                                └─► report, json
//! ```

mod cores;
mod diagnose;
mod engine;
mod error;
mod flush;
mod histogram;
mod json;
mod json_file;
mod live;
mod modes;
mod options;
mod out;
mod plan;
mod pools;
mod prompt;
mod report;
mod rig;
mod run;
mod signals;
mod streams;
mod tester;
mod threads;
mod topology;

pub use options::Args;

use std::process::ExitCode;

/// Runs the command; every problem is told on standard error.
pub fn main(args: Args) -> ExitCode {
    let done = plan::Plan::new(args).and_then(run::run);
    let faults = match done {
        Ok(faults) if faults.is_empty() && out::failure().is_none() => return ExitCode::SUCCESS,
        Ok(faults) => faults,
        Err(e) => vec![format!("{e}\n  hint: {}", e.hint())],
    };
    for fault in faults.into_iter().chain(out::failure()) {
        out::complain(&format!("error: {fault}"));
    }
    ExitCode::FAILURE
}
