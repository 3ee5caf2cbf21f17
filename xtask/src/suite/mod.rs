//! `cargo xtask test`: everything that must hold before a change is kept, in one command.
//!
//! Steps run in order, each with its name and time; the first that fails ends the run with the command that repeats
//! it. The last line is always `N passed, N failed, N skipped`: a step that runs tests counts its tests, any other
//! step counts as one.

mod captures;
mod command;
mod packages;
mod smoke;
mod steps;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Check the whole project: packages, format, lints, documentation, tests, models and the first command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run this step alone (may be given several times).
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// List the steps and end.
    #[arg(long)]
    list: bool,
    /// Never install packages, root or not.
    #[arg(long)]
    no_install: bool,
}

/// What a step or a whole run came to.
#[derive(Debug, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    /// What was not run, each with its reason.
    skipped: Vec<String>,
}

impl Tally {
    fn one_passed() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    fn one_skipped(what: String) -> Self {
        Self { skipped: vec![what], ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
    }
}

/// A step that failed: what it counted until then, and why.
#[derive(Debug)]
struct Failure {
    tally: Tally,
    why: anyhow::Error,
}

impl From<anyhow::Error> for Failure {
    fn from(why: anyhow::Error) -> Self {
        Self { tally: Tally { failed: 1, ..Tally::default() }, why }
    }
}

/// What steps need to know.
#[derive(Debug)]
struct Context {
    root: PathBuf,
    target: PathBuf,
    install: bool,
}

/// Runs the steps.
///
/// # Errors
/// An unknown step's name. A step that fails is told on the spot and ends in exit status 1.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.list {
        for step in steps::ALL {
            println!("{:<10} {}", step.name, step.what);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(unknown) = args.only.iter().find(|name| steps::ALL.iter().all(|step| step.name != **name)) {
        let names: Vec<_> = steps::ALL.iter().map(|step| step.name).collect();
        bail!("no step is named {unknown:?}; the steps are {}", names.join(", "));
    }
    let wanted: Vec<_> = steps::ALL
        .iter()
        .filter(|step| args.only.is_empty() || args.only.iter().any(|name| name == step.name))
        .collect();

    let root = root();
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    let context = Context { root, target, install: !args.no_install };
    let began = Instant::now();
    let mut total = Tally::default();
    let mut failed = None;
    for (at, step) in wanted.iter().enumerate() {
        println!("\n== {}/{} {}: {}", at + 1, wanted.len(), step.name, step.what);
        let start = Instant::now();
        match (step.run)(&context) {
            Ok(tally) => {
                println!("== {} ok in {}", step.name, seconds(start.elapsed()));
                total.add(tally);
            }
            Err(Failure { tally, why }) => {
                println!("== {} FAILED after {}: {why:#}", step.name, seconds(start.elapsed()));
                println!("   run it again with: cargo xtask test --only {}", step.name);
                let unrun: Vec<_> = wanted.iter().skip(at + 1).map(|step| step.name).collect();
                if !unrun.is_empty() {
                    println!("   not run: {}", unrun.join(", "));
                }
                total.add(tally);
                failed = Some(step.name);
                break;
            }
        }
    }

    println!();
    for what in &total.skipped {
        println!("skipped: {what}");
    }
    println!("took {}", seconds(began.elapsed()));
    println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped.len());
    Ok(if failed.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The repository: the folder above this crate's.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.clone(), PathBuf::from)
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up() {
        let mut total = Tally::one_passed();
        total.add(Tally { passed: 4, failed: 2, skipped: vec!["a".into()] });
        total.add(Tally::one_skipped("b".into()));
        assert_eq!((total.passed, total.failed, total.skipped.len()), (5, 2, 2));
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("Cargo.lock").exists());
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_names() {
        let args = Args { only: vec!["clipy".into()], list: false, no_install: true };
        let err = run(&args).unwrap_err().to_string();
        assert!(err.contains("clipy") && err.contains("clippy") && err.contains("loom"), "{err}");
    }
}
