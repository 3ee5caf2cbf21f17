//! The Debian packages that tests need: the one list, and its installation.

use std::process::Command;

use super::command::run;
use super::{Context, Failure, Tally};

/// A package and the test that is skipped without it.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: &'static str,
    /// A program that the package brings; there means installed, from wherever.
    pub(super) program: &'static str,
    why: &'static str,
}

/// Reads our capture files with code that is not ours.
pub(super) const TCPDUMP: Package = Package {
    name: "tcpdump",
    program: "tcpdump",
    why: "reads the capture files that we write, as an independent judge (step captures)",
};

const ALL: &[&Package] = &[&TCPDUMP];

impl Package {
    /// Whether the program is there. Root's tools live in folders that others may not have in their path.
    pub(super) fn is_installed(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(["/usr/sbin", "/sbin"].map(Into::into))
            .any(|dir| dir.join(self.program).is_file())
    }
}

/// Installs what is missing when root, else says how. A package that stays missing is no failure: the step that
/// needs it is skipped and says so.
pub(super) fn step(context: &Context) -> Result<Tally, Failure> {
    for package in ALL {
        let state = if package.is_installed() { "there" } else { "missing" };
        println!("   {} ({state}): {}", package.name, package.why);
    }
    let missing: Vec<_> = ALL.iter().filter(|package| !package.is_installed()).map(|p| p.name).collect();
    if missing.is_empty() {
        return Ok(Tally::one_passed());
    }
    if context.install && rustix::process::geteuid().is_root() {
        let apt = |args: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
            run(&mut command)
        };
        let mut install = vec!["install", "--yes", "--no-install-recommends"];
        install.extend(&missing);
        // The lists of a fresh machine are empty, so they are fetched first; old lists may do where that fails.
        if let Err(why) = apt(&["update"]) {
            println!("   {why:#}");
        }
        if let Err(why) = apt(&install) {
            println!("   {why:#}");
        }
    }
    let still: Vec<_> = ALL.iter().filter(|package| !package.is_installed()).map(|p| p.name).collect();
    if still.is_empty() {
        return Ok(Tally::one_passed());
    }
    let list = still.join(" ");
    println!("   missing: {list}; install with: sudo apt-get install --no-install-recommends {list}");
    Ok(Tally::one_skipped(format!("packages: {list} not installed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_not() {
        let with = |program| Package { name: "p", program, why: "w" };
        assert!(with("sh").is_installed());
        assert!(!with("no-such-program-anywhere").is_installed());
    }
}
