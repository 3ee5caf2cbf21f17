//! Child processes as measurements need them: each in its own session with a raised scheduling weight,
//! pinned, ended with us, and with a time limit on everything that waits.
//!
//! A session of its own matters because the kernel shares the CPU between sessions (autogroup), and a
//! nice value counts only within one: without it a compiler beside the run takes half of the core.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

/// The weight that measured sessions get, on the scale of `nice`; needs CAP_SYS_NICE, and is left out without.
const AUTOGROUP: &str = "-15";

/// A child that leads its own session and is killed, with that session's group, when this is dropped.
#[derive(Debug)]
pub struct Session {
    child: Child,
}

/// What a finished command printed.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Session {
    /// Starts `command` in a session of its own, allowed on `cores` only when some are given.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: &mut Command, cores: &[usize]) -> Result<Self> {
        let set = (!cores.is_empty()).then(|| {
            let mut set = CpuSet::new();
            cores.iter().for_each(|core| set.set(*core));
            set
        });
        let prepare = move || {
            rustix::process::setsid()?;
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if let Some(set) = &set {
                rustix::thread::sched_setaffinity(None, set)?;
            }
            Ok(())
        };
        // SAFETY: runs between fork and exec, so it may only do what is async-signal-safe: three system
        // calls without a wrapper of libc's, no allocation, no lock. `set` was built before.
        unsafe { command.pre_exec(prepare) };
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        // Best effort: absent without CONFIG_SCHED_AUTOGROUP, refused without CAP_SYS_NICE.
        let _ = std::fs::write(format!("/proc/{}/autogroup", child.id()), AUTOGROUP);
        Ok(Self { child })
    }

    /// The process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When `limit` passes first.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= end {
                bail!("still running after {} s", limit.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

/// Reads a pipe on a thread of its own, so that whoever wants the text can wait with a limit.
pub fn follow(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (tx, rx) = channel();
    std::thread::spawn(move || {
        let mut block = [0_u8; 16 * 1024];
        while let Ok(n) = pipe.read(&mut block) {
            if n == 0 || tx.send(block[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    rx
}

/// Runs `command` to its end and gives what it printed, whatever its status.
///
/// # Errors
/// When it cannot be started or is still running after `limit`; then with what it printed until there.
pub fn run(command: &mut Command, cores: &[usize], limit: Duration) -> Result<Finished> {
    let name = shown(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut session = Session::start(command, cores)?;
    let stdout = session.child().stdout.take().map(follow);
    let stderr = session.child().stderr.take().map(follow);
    let ended = session.wait(limit);
    drop(session); // ends what still runs, so that the readers see the end of their pipes
    let text = |rx: Option<Receiver<Vec<u8>>>| {
        let bytes: Vec<u8> = rx.into_iter().flatten().flatten().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (stdout, stderr) = (text(stdout), text(stderr));
    let status = ended.with_context(|| format!("{name}\n{}", tail(&stderr, 20)))?;
    Ok(Finished { status, stdout, stderr })
}

/// As [`run`], but a failure status is an error that carries the program's standard error.
///
/// # Errors
/// As [`run`], and when the program failed.
pub fn run_ok(command: &mut Command, cores: &[usize], limit: Duration) -> Result<Finished> {
    let finished = run(command, cores, limit)?;
    if !finished.status.success() {
        let said = if finished.stderr.trim().is_empty() { &finished.stdout } else { &finished.stderr };
        bail!("{} ended with {}\n{}", shown(command), finished.status, tail(said, 30));
    }
    Ok(finished)
}

/// Tries again once, after a moment, what fails: huge pages may be short for as long as a neighbour's test runs.
///
/// # Errors
/// The second failure.
pub fn twice<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    attempt().or_else(|error| {
        eprintln!("failed, trying once more: {error:#}");
        std::thread::sleep(Duration::from_secs(2));
        attempt()
    })
}

/// A command as one would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

/// The last `lines` lines of a text, indented.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].iter().map(|l| format!("    {l}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_an_error_with_its_own_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo the reason >&2; exit 3"]);
        let error = run_ok(&mut command, &[], Duration::from_secs(10)).expect_err("status 3 is a failure");
        assert!(error.to_string().contains("the reason"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun >&2; exec sleep 60"]);
        let start = Instant::now();
        let error = run(&mut command, &[], Duration::from_millis(200)).expect_err("it sleeps longer");
        assert!(start.elapsed() < Duration::from_secs(20));
        assert!(format!("{error:#}").contains("begun"), "{error:#}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("no-such-program-here"), &[], Duration::from_secs(1))
            .expect_err("it does not exist");
        assert!(error.to_string().contains("no-such-program-here"));
    }
}
