//! `linerate testpmd -i`: the run under command of a person or a script.
//!
//! ```text
//!  input (terminal, pipe) or file ─► grammar (a line by the table) ─► table (a row: words, help, what it does)
//!                                                                       └─► session, show, set, ports, flow
//! ```

mod flow;
mod grammar;
mod input;
mod ports;
mod session;
mod set;
mod show;
mod table;

use super::{error::TestpmdError, plan::PromptPlan, run::Job};
use grammar::Known;
use input::{Entry, Input};
use session::Session;
use std::time::Duration;

/// How soon a signal is noticed.
const TICK: Duration = Duration::from_millis(20);

/// Carries out command files, then lines as they come, until somebody wants the end; what went wrong.
///
/// # Errors
///
/// A command file cannot be read, or the input cannot be had; nothing is forwarded then.
pub(super) fn run(job: Job, plan: &PromptPlan) -> Result<Vec<String>, TestpmdError> {
    let known = Known { ports: job.rig.ports.len() };
    let out = job.out;
    let files = plan.files.iter().map(|(path, echo)| match std::fs::read(path) {
        Ok(bytes) => Ok((bytes, *echo)),
        Err(source) => Err(TestpmdError::File { option: "--cmdline-file", path: path.clone(), source }),
    });
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let input = Input::open(known, out)?;
    let mut session = Session::new(job);
    for (bytes, echo) in files {
        session.lines(&mut bytes.as_slice(), echo);
    }
    if plan.auto_start && !session.is_over() && !session.is_running() {
        out.say("Start automatic packet forwarding");
        if let Err(e) = session.start(0) {
            out.say(&e);
        }
    }
    while !session.is_over() {
        input.ask();
        let entry = loop {
            if session.is_interrupted() {
                out.say("");
                break Entry::Interrupted;
            }
            if let Some(entry) = input.next(TICK) {
                break entry;
            }
        };
        match entry {
            Entry::Line(line) => session.line(&line),
            Entry::TooLong => out.say(&too_long()),
            Entry::Interrupted | Entry::End => session.end(),
            Entry::Failed(why) => {
                session.fault(format!("standard input: {why}"));
                session.end();
            }
        }
    }
    Ok(session.quit())
}

/// About a line that was thrown away.
fn too_long() -> String {
    format!("a line is longer than {} bytes and was left out", input::LINE_MAX)
}
