//! What a session knows: the ports, what runs, and what is to run next.

use super::{
    grammar::{self, Known},
    input::{Entry, plain},
    table, too_long,
};
use crate::testpmd::{
    cores::Cores,
    diagnose,
    engine::Counts,
    error::TestpmdError,
    histogram::Histogram,
    pools::Need,
    report::{Report, StreamResult},
    run::{Job, Running, wind_down},
    streams,
};
use linerate_port::{PortState, PortStats};
use std::{
    io::BufRead,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

/// Files that load each other end here.
const DEPTH: usize = 16;
/// Offers of a burst's rest unless it is said otherwise.
const RETRIES: u32 = 64;
/// After which time a run that moved nothing says why.
const SILENCE: Duration = Duration::from_secs(3);

/// How a command ended: well, or with what is wrong and how to go on.
pub(super) type Done = Result<(), String>;

/// A prompt's run.
pub(super) struct Session {
    pub job: Job,
    pub running: Option<Running>,
    since: Instant,
    /// The last run's report.
    pub last: Option<Report>,
    /// Drops of each stream that were there when the figures were cleared.
    cleared: Vec<u64>,
    /// Each port's counters when they were shown last, and when that was in nanoseconds.
    pub shown: Vec<Option<(u64, PortStats)>>,
    pub hide_zero: bool,
    /// Offers of a burst's rest where they are repeated.
    pub retries: u32,
    faults: Vec<String>,
    over: bool,
    depth: usize,
}

/// An error with what mends it.
pub(super) fn told(e: &TestpmdError) -> String {
    format!("{e}\n  hint: {}", e.hint())
}

impl Session {
    /// With ports that are started, and nothing running.
    pub fn new(job: Job) -> Self {
        Session {
            running: None,
            since: Instant::now(),
            last: None,
            cleared: Vec::new(),
            shown: vec![None; job.rig.ports.len()],
            hide_zero: false,
            retries: if job.plan.retries > 0 { job.plan.retries } else { RETRIES },
            faults: Vec::new(),
            over: false,
            depth: 0,
            job,
        }
    }

    /// Whether `quit` was given or the input has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether packets are forwarded.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a signal has come.
    pub fn is_interrupted(&self) -> bool {
        self.job.signals.is_set()
    }

    /// No command will come after this one.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// Notes what makes the exit status 1.
    pub fn fault(&mut self, what: String) {
        self.faults.push(what);
    }

    /// Writes a text.
    pub fn say(&self, text: &str) {
        self.job.out.say(text);
    }

    /// What the reader of lines has to know.
    fn known(&self) -> Known {
        Known { ports: self.job.rig.ports.len() }
    }

    /// Carries a line out. Whatever is wrong with it is said, and the session goes on.
    pub fn line(&mut self, line: &str) {
        let line = line.trim_start_matches('\u{feff}');
        if line.trim_start().starts_with('#') || line.trim().is_empty() {
            return;
        }
        let done = match grammar::read(line, table::rows(), self.known()) {
            Ok((row, values)) => table::TABLE.get(row).map_or(Ok(()), |r| (r.run)(self, &values)),
            Err(e) => Err(e.to_string()),
        };
        if let Err(e) = done {
            self.say(&e);
        }
    }

    /// Carries out the lines of a file, also after a bad one; `echo` shows them.
    pub fn lines(&mut self, input: &mut impl BufRead, echo: bool) {
        while !self.over && !self.is_interrupted() {
            match plain(input) {
                Entry::Line(line) => {
                    if echo {
                        self.say(&line);
                    }
                    self.line(&line);
                }
                Entry::TooLong => self.say(&too_long()),
                Entry::Failed(why) => return self.say(&format!("the file cannot be read: {why}")),
                Entry::End | Entry::Interrupted => return,
            }
        }
    }

    /// The commands of a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or files load each other without end.
    pub fn load(&mut self, path: &str, echo: bool) -> Done {
        if self.depth >= DEPTH {
            return Err(format!("{path}: files load each other {DEPTH} deep\n  hint: let none load itself"));
        }
        let bytes = std::fs::read(path)
            .map_err(|e| format!("{path}: {e}\n  hint: look at the path and its rights with `ls -l`"))?;
        self.depth += 1;
        self.lines(&mut bytes.as_slice(), echo);
        self.depth -= 1;
        self.say(&format!("Read CLI commands from {path}"));
        Ok(())
    }

    /// Refuses a command that needs forwarding stopped.
    ///
    /// # Errors
    ///
    /// It runs.
    pub fn need_stopped(&self) -> Done {
        match self.running {
            Some(_) => Err("packets are being forwarded\n  hint: `stop` first".into()),
            None => Ok(()),
        }
    }

    /// Lays streams and cores out as the plan now says.
    ///
    /// # Errors
    ///
    /// Cores or buffers that are not there.
    pub fn lay_out(&mut self) -> Result<(), TestpmdError> {
        let job = &mut self.job;
        let plan = &job.plan;
        let streams =
            streams::layout(&plan.forward, plan.mode.topology(plan.topology), plan.queues.0, plan.queues.1);
        let wanted = plan.cores.min(streams.len());
        let cores = Cores::choose(wanted, plan.built_in(), plan.core_list.as_deref())?;
        let limits: Vec<_> = job.rig.ports.iter().map(|p| p.port.info().limits).collect();
        let have = job.rig.pools.iter().map(|p| p.buffers()).min();
        Need::of(plan, &limits, streams.len(), job.rig.burst).buffers(have)?;
        (job.streams, job.cores) = (streams, cores);
        Ok(())
    }

    /// Starts forwarding, with so many bursts of made packets first.
    ///
    /// # Errors
    ///
    /// It runs already, a port is stopped, or what the plan asks for cannot be had.
    pub fn start(&mut self, tx_first: u32) -> Done {
        self.need_stopped()?;
        let plan = &self.job.plan;
        for &p in &plan.forward {
            let state = self.job.rig.ports.get(p).map(|p| p.port.state());
            if state != Some(PortState::Started) {
                return Err(format!("port {p} is not started\n  hint: `port start {p}` first"));
            }
        }
        self.job.plan.tx_first = tx_first;
        self.job.plan.check().map_err(|e| told(&e))?;
        self.lay_out().map_err(|e| told(&e))?;
        let running = self.job.begin().map_err(|e| told(&e))?;
        (self.since, self.cleared) = (Instant::now(), vec![0; running.views.len()]);
        self.running = Some(running);
        Ok(())
    }

    /// Stops forwarding and prints the report.
    ///
    /// # Errors
    ///
    /// Nothing runs.
    pub fn stop(&mut self) -> Done {
        let Some(running) = self.running.take() else {
            return Err("nothing is being forwarded\n  hint: `start` begins".into());
        };
        self.say("Telling cores to stop...");
        if self.since.elapsed() >= SILENCE && self.moved(&running.baseline) == 0 {
            let cause = diagnose::cause(&mut self.job.rig, &running.views, self.job.plan.mode);
            self.say(&cause.line(self.since.elapsed().as_secs()));
        }
        wind_down(&running.threads);
        let (cores, mut streams, tester, faults) = running.threads.join();
        self.faults.extend(faults);
        for (s, cleared) in streams.iter_mut().zip(&self.cleared) {
            s.counts.dropped = s.counts.dropped.saturating_sub(*cleared);
        }
        let report = self.job.report(&running.baseline, cores, streams, tester);
        self.faults.extend(report.tester.as_ref().and_then(|t| t.fault()));
        self.say(&report.text());
        self.say("Done.");
        self.last = Some(report);
        Ok(())
    }

    fn moved(&self, baseline: &[PortStats]) -> u64 {
        let ports = self.job.rig.ports.iter().zip(baseline);
        ports.map(|(p, b)| p.port.stats().since(b)).map(|s| s.rx_packets + s.tx_packets).sum()
    }

    /// The blocks of the ports: of what runs, or of what ran last.
    pub fn figures(&self) -> Option<String> {
        let Some(running) = &self.running else { return self.last.as_ref().map(Report::blocks) };
        let streams = running.views.iter().zip(&self.cleared).map(|(v, cleared)| StreamResult {
            plan: v.plan,
            counts: Counts { dropped: v.shown.dropped.get().saturating_sub(*cleared), ..Counts::default() },
            bad: None,
            rx_bursts: Histogram::new(),
            tx_bursts: Histogram::new(),
        });
        Some(self.job.report(&running.baseline, Vec::new(), streams.collect(), None).blocks())
    }

    /// Counts from now on.
    pub fn clear_figures(&mut self) {
        self.last = None;
        let Some(running) = &mut self.running else { return };
        self.cleared = running.views.iter().map(|v| v.shown.dropped.get()).collect();
        running.baseline = self.job.rig.ports.iter().map(|p| p.port.stats()).collect();
    }

    /// Sets a port's counters to 0, for the figures of what runs too.
    pub fn clear_port(&mut self, number: usize) {
        let Some(p) = self.job.rig.ports.get_mut(number) else { return };
        p.port.reset_stats();
        let now = p.port.stats();
        if let Some(slot) = self.shown.get_mut(number) {
            *slot = None;
        }
        if let Some(slot) = self.running.as_mut().and_then(|r| r.baseline.get_mut(number)) {
            *slot = now;
        }
    }

    /// Waits so long, or until all inputs have ended or somebody wants the end.
    pub fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.is_interrupted() {
            if let Some(running) = &self.running {
                let threads = &running.threads;
                if threads.broken.load(Relaxed) || threads.forward.iter().all(|(.., h)| h.is_finished()) {
                    return;
                }
            }
            thread::sleep(end.saturating_duration_since(Instant::now()).min(super::TICK));
        }
    }

    /// The end: everything stopped and closed, the pools counted; what went wrong in the whole session.
    pub fn quit(mut self) -> Vec<String> {
        if self.is_running() {
            _ = self.stop();
        }
        let out = self.job.out;
        let mut faults = self.faults;
        faults.extend(self.job.rig.stop().into_iter().map(|e| format!("{e}; {}", e.hint())));
        for p in self.job.close(&mut faults) {
            let verdict = if p.held == 0 { "nothing leaked".into() } else { format!("{} LEAKED", p.held) };
            out.say(&format!(
                "Pool {}: {} buffers, {} free, {} held: {verdict}",
                p.name, p.total, p.free, p.held
            ));
        }
        out.say("Bye...");
        faults
    }
}
