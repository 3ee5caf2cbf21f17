//! The project's own commands, run as `cargo xtask COMMAND`.

mod compare_dpdk;
mod suite;

use std::process::ExitCode;

use clap::Parser;

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    Test(suite::Args),
    CompareDpdk(compare_dpdk::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test(args) => suite::run(&args),
        Task::CompareDpdk(args) => compare_dpdk::run(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
