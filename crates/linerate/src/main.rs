//! The one binary: `linerate <subcommand>`.

mod perf;
mod ports;
mod testpmd;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A userspace packet data plane and the tools that prove its numbers.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Forward packets between ports, and report what moved.
    Testpmd(testpmd::Args),
    /// Measure rings, pools and packet buffers.
    Perf(perf::Args),
    /// List drivers and interfaces, what each could do here, and why not.
    Ports(ports::Args),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Testpmd(args) => testpmd::main(args),
        Command::Perf(args) => perf::main(args),
        Command::Ports(args) => ports::main(args),
    }
}
