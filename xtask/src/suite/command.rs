//! Runs a command with its output visible, counts the tests in that output, and ends it when it takes too long.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use super::{Failure, Tally};

/// The longest that one command may take. A test that hangs must not hang whoever waits for the run.
const LIMIT: Duration = Duration::from_secs(25 * 60);

/// What the output of `cargo test` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    skipped: Vec<String>,
}

impl Counts {
    /// Reads one line: libtest's result line, or a test's own word that it was not run.
    fn line(&mut self, line: &str) {
        // A test that cannot run here writes `SKIPPED name: reason`, maybe behind the harness's own dots.
        if let Some((_, what)) = line.split_once("SKIPPED ") {
            if !self.skipped.iter().any(|known| known == what) {
                self.skipped.push(what.to_owned());
            }
        } else if let Some(result) = line.trim_start().strip_prefix("test result: ") {
            let count = |what: &str| {
                let before = result.split(what).next().filter(|before| before.len() < result.len());
                before.and_then(|text| text.split_whitespace().last()?.parse::<u64>().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
            self.ignored += count(" ignored");
        }
    }

    fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        for what in other.skipped {
            if !self.skipped.contains(&what) {
                self.skipped.push(what);
            }
        }
    }

    /// A test that said it was skipped has been counted as passed by its harness: it is taken off there.
    fn tally(self) -> Tally {
        let mut skipped = self.skipped;
        let passed = self.passed.saturating_sub(skipped.len() as u64);
        skipped.extend((0..self.ignored).map(|_| "a test marked #[ignore]".to_owned()));
        Tally { passed, failed: self.failed, skipped }
    }
}

/// Runs a command that counts as one.
pub(super) fn check(command: &mut Command) -> Result<Tally, Failure> {
    run(command)?;
    Ok(Tally::one_passed())
}

/// Runs a `cargo test`, whose tests are counted one by one; having none is a failure too.
pub(super) fn tests(command: &mut Command) -> Result<Tally, Failure> {
    let (counts, outcome) = run_counting(command)?;
    judge(counts, outcome, &shown(command))
}

fn judge(counts: Counts, outcome: Result<()>, command: &str) -> Result<Tally, Failure> {
    let mut tally = counts.tally();
    match outcome {
        Err(why) => {
            tally.failed = tally.failed.max(1); // a build that breaks before any test counts as one
            Err(Failure { tally, why })
        }
        Ok(()) if tally.passed == 0 => Err(anyhow!("{command} ran no test").into()),
        Ok(()) => Ok(tally),
    }
}

/// Runs a command with its output visible.
///
/// # Errors
/// When it cannot be started, fails, or takes longer than [`LIMIT`].
pub(super) fn run(command: &mut Command) -> Result<()> {
    run_counting(command)?.1
}

fn run_counting(command: &mut Command) -> Result<(Counts, Result<()>)> {
    println!("   $ {}", shown(command));
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always"); // cargo sees our pipe and would leave it out
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    let readers = [
        child.stdout.take().map(|pipe| thread::spawn(|| tee(pipe, std::io::stdout()))),
        child.stderr.take().map(|pipe| thread::spawn(|| tee(pipe, std::io::stderr()))),
    ];
    let status = wait(&mut child, LIMIT).with_context(|| shown(command));
    let mut counts = Counts::default();
    for reader in readers.into_iter().flatten() {
        counts.merge(reader.join().unwrap_or_default());
    }
    let outcome = status.and_then(|status| {
        if status.success() { Ok(()) } else { Err(anyhow!("{} ended with {status}", shown(command))) }
    });
    Ok((counts, outcome))
}

/// Passes a pipe on line by line and counts what goes by.
fn tee(pipe: impl Read, mut out: impl Write) -> Counts {
    let mut counts = Counts::default();
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    while pipe.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        _ = out.write_all(&line);
        _ = out.flush();
        counts.line(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    counts
}

/// Waits for a child up to `limit`, then ends it and all that it started.
fn wait(child: &mut Child, limit: Duration) -> Result<std::process::ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > limit {
            // Its children first: an ended parent would leave them to run on and hold our pipes open.
            for pid in descendants(child.id()) {
                if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                    _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            _ = child.kill();
            _ = child.wait();
            bail!("took longer than {} minutes and was ended", limit.as_secs() / 60);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The processes that `pid` started, and those that they started.
fn descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    found.remove(0);
    found
}

/// A command as one would type it.
pub(super) fn shown(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| {
        let (name, value) = (name.to_string_lossy(), value?.to_string_lossy());
        (name != "CARGO_TERM_COLOR").then(|| format!("{name}={}", quoted(&value)))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    set.chain(words.map(|word| quoted(&word.to_string_lossy()))).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Never to the real output: the run that runs this test would count it.
    fn counts(output: &str) -> Counts {
        let mut copy = Vec::new();
        let counts = tee(output.as_bytes(), &mut copy);
        assert_eq!(copy, output.as_bytes(), "passed on as it came");
        counts
    }

    #[test]
    fn counts_what_the_harness_and_the_tests_say() {
        let output = "test result: ok. 57 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            ....SKIPPED huge pages: none here\nSKIPPED huge pages: none here\nnoise \u{1b}[0m\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; finished in 0.1s";
        let tally = judge(counts(output), Ok(()), "x").unwrap();
        assert_eq!((tally.passed, tally.failed), (59, 0));
        assert_eq!(tally.skipped, ["huge pages: none here", "a test marked #[ignore]"]);
    }

    #[test]
    fn failure_and_no_tests_at_all_are_failures() {
        let failed = counts("test result: FAILED. 5 passed; 2 failed; 0 ignored\n");
        let failure = judge(failed, Err(anyhow!("status 101")), "x").unwrap_err();
        assert_eq!((failure.tally.passed, failure.tally.failed), (5, 2));
        let none = counts("test result: ok. 0 passed; 0 failed; 0 ignored; 4 filtered out\n");
        let failure = judge(none, Ok(()), "x").unwrap_err();
        assert!(failure.why.to_string().contains("ran no test"));
        assert_eq!(judge(Counts::default(), Err(anyhow!("no build")), "x").unwrap_err().tally.failed, 1);
    }

    #[test]
    fn a_commands_end_is_told() {
        assert_eq!(check(&mut sh("exit 0")).unwrap().passed, 1);
        let why = check(&mut sh("exit 101")).unwrap_err().why.to_string();
        assert!(why.contains("101") && why.contains("sh -c"), "{why}");
        assert!(check(&mut Command::new("/nonexistent/program")).is_err());
    }

    #[test]
    fn a_child_that_hangs_is_ended_with_its_children() {
        let mut child = sh("sleep 600 & sleep 600 & wait").spawn().unwrap();
        let start = Instant::now();
        // Wait until both grandchildren are there, or the test would show nothing.
        while descendants(child.id()).len() < 2 && start.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        let family = descendants(child.id());
        assert_eq!(family.len(), 2);
        let err = wait(&mut child, Duration::from_millis(100)).unwrap_err();
        assert!(err.to_string().contains("ended"), "{err}");
        let gone = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !family.iter().all(gone) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(family.iter().all(gone));
    }

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("cargo");
        command.args(["test", "-p", "x"]).env("RUSTFLAGS", "--cfg loom");
        assert_eq!(shown(&command), "RUSTFLAGS='--cfg loom' cargo test -p x");
    }
}
