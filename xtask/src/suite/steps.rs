//! The steps of `cargo xtask test`, in the order they run: what fails fastest first.

use std::process::Command;

use anyhow::Context as _;

use super::command::{check, tests};
use super::{Context, Failure, Tally, captures, packages, smoke};

/// One step.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) run: fn(&Context) -> Result<Tally, Failure>,
}

pub(super) const ALL: &[Step] = &[
    Step { name: "packages", what: "Debian packages that tests need", run: packages::step },
    Step {
        name: "fmt",
        what: "the code is formatted",
        run: |c| check(cargo(c).args(["fmt", "--all", "--check"])),
    },
    Step { name: "clippy", what: "no lint warns", run: clippy },
    Step { name: "doc", what: "the documentation builds without a warning", run: doc },
    Step {
        name: "build",
        what: "everything builds",
        run: |c| check(cargo(c).args(["build", "--workspace"])),
    },
    Step {
        name: "test",
        what: "unit, integration and documentation tests, with the fuzz corpora",
        run: test,
    },
    Step { name: "stress", what: "the tests of what threads share, with the optimiser on", run: stress },
    Step { name: "loom", what: "every ordering, model-checked, and the mutants that must fail", run: loom },
    Step {
        name: "smoke",
        what: "the first command of the README moves packets and loses none",
        run: smoke::step,
    },
    Step {
        name: "captures",
        what: "a capture file goes through and tcpdump reads the same",
        run: captures::step,
    },
];

/// Crates whose threads share memory: the optimiser may break there what it leaves alone in a debug build.
const SHARED: &[&str] = &["linerate-ring", "linerate-mem", "linerate-mbuf"];

/// A cargo command in the repository.
pub(super) fn cargo(context: &Context) -> Command {
    // The cargo that runs us, or a different toolchain would rebuild the world.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&context.root);
    command
}

/// Links fast: these builds are run once, and whole-program optimisation takes longer than the tests.
fn quick_release(command: &mut Command) -> &mut Command {
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
}

fn clippy(context: &Context) -> Result<Tally, Failure> {
    check(cargo(context).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn doc(context: &Context) -> Result<Tally, Failure> {
    check(cargo(context).args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn test(context: &Context) -> Result<Tally, Failure> {
    tests(cargo(context).args(["test", "--workspace", "--no-fail-fast"]))
}

fn stress(context: &Context) -> Result<Tally, Failure> {
    let mut command = cargo(context);
    command.args(["test", "--release", "--lib", "--tests"]);
    command.args(SHARED.iter().flat_map(|name| ["-p", name]));
    // A folder of its own, or each run would throw away the release build that people use, and the other way round.
    command.env("CARGO_TARGET_DIR", context.target.join("stress"));
    tests(quick_release(&mut command))
}

fn loom(context: &Context) -> Result<Tally, Failure> {
    let mut total = Tally::default();
    for name in modelled(context).context("looking for crates with models")? {
        let mut command = cargo(context);
        command.args(["test", "--release", "-p", &name, "--lib"]);
        if has_loom_tests(context, &name) {
            command.args(["--test", "loom*"]);
        }
        command.arg("loom");
        // The flag changes every crate's build, so it has a folder of its own too.
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", context.target.join("loom"));
        match tests(quick_release(&mut command)) {
            Ok(tally) => total.add(tally),
            Err(mut failure) => {
                failure.tally.add(total);
                return Err(failure);
            }
        }
    }
    Ok(total)
}

/// The crates that bring models: those whose manifest has dependencies for `cfg(loom)`. Asked of the manifests and not
/// kept as a list, so that a new crate's models cannot be forgotten.
fn modelled(context: &Context) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(context.root.join("crates"))? {
        let entry = entry?;
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml")).unwrap_or_default();
        if manifest.contains("[target.'cfg(loom)'.") {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    anyhow::ensure!(!names.is_empty(), "no crate has models");
    Ok(names)
}

fn has_loom_tests(context: &Context, name: &str) -> bool {
    let dir = context.root.join("crates").join(name).join("tests");
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("loom"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Context {
        Context { root: crate::suite::root(), target: "target".into(), install: false }
    }

    #[test]
    fn the_rings_models_are_found() {
        assert!(modelled(&here()).unwrap().contains(&"linerate-ring".to_owned()));
    }

    #[test]
    fn crates_named_here_exist() {
        for name in SHARED {
            assert!(here().root.join("crates").join(name).join("Cargo.toml").exists(), "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
