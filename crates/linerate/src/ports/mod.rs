//! `linerate ports`: what this machine offers, and why not more. Only looks: nothing is opened for traffic, attached
//! or changed.
//!
//! ```text
//!  machine (files of /proc, /sys, /dev; rtnetlink) ─► verdict (what a driver could do, why not) ─► text, json
//! ```

mod json;
mod machine;
mod text;
mod verdict;

use clap::Args as ClapArgs;
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Options of `linerate ports`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Write it as JSON to this file (- = standard output, and the text is left out)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs it; the exit status.
pub fn main(args: Args) -> ExitCode {
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        // Who read enough and closed the pipe needs no more.
        Err((_, e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err((path, e)) => {
            _ = writeln!(
                io::stderr(),
                "error: cannot write {}: {e}\n  hint: name a file in a folder that exists and may be written",
                path.display()
            );
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), (PathBuf, io::Error)> {
    let json = args.json.as_deref();
    let at = |p: &Path| {
        let p = p.to_path_buf();
        move |e| (p, e)
    };
    // Opened first: a bad path is told before anything else.
    let file = match json {
        Some(p) if p != Path::new("-") => Some((p, File::create(p).map_err(at(p))?)),
        _ => None,
    };
    let machine = machine::Machine::look();
    let stdout = Path::new("standard output");
    if json == Some(Path::new("-")) {
        return writeln!(io::stdout().lock(), "{:#}", json::value(&machine)).map_err(at(stdout));
    }
    if let Some((p, mut file)) = file {
        writeln!(file, "{:#}", json::value(&machine)).map_err(at(p))?;
    }
    write!(io::stdout().lock(), "{}", text::text(&machine)).map_err(at(stdout))
}
