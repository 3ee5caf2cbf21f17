//! The suite that every driver passes.
//!
//! A driver's tests implement [`Harness`], which opens fresh ports with whatever stands at their other end, and
//! call [`run_all`]. Every case runs, and the report names each one that failed, why, and those that have
//! nothing to test on this driver. After every case the pools must be whole.
//!
//! ```text
//! linerate_port::conformance::run_all(&MyHarness).assert_passed();
//! ```

mod bench;
mod books;
mod buffers;
mod bursts;
mod life;
mod limits;
mod queues;
#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;

use crate::{Port, PortError, QueueId};
use bench::{Lab, Stop};
use core::fmt;
use linerate_mbuf::Mempool;
use linerate_mem::Clock;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where a port's packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// There are none.
    Nothing,
    /// As many as are asked for, each time.
    Endless,
    /// So many on each queue, from the first one on at every start; fewer than 4096, and all of up to 1500 bytes.
    Finite(usize),
    /// What the port sends, queue by queue, as long as it waits.
    Loopback,
    /// What the rig [injects](Rig::inject).
    Injected,
}

/// Where a port's packets go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nobody sees them again.
    Dropped,
    /// The port receives them ([`Input::Loopback`]).
    Loopback,
    /// The rig [collects](Rig::collect) them.
    Collected,
    /// The rig collects them when the port has been stopped.
    CollectedAtStop,
}

/// A port under test, and the world around it. Dropping it takes all of that down.
pub trait Rig {
    /// The port.
    fn port(&mut self) -> &mut Port;

    /// Where its packets come from.
    fn input(&self) -> Input;

    /// Where its packets go to.
    fn output(&self) -> Output;

    /// Sends frames to a receive queue of the port, in order; how many of them, from the first on, went out.
    /// ([`Input::Injected`])
    fn inject(&mut self, _queue: QueueId, _frames: &[Vec<u8>]) -> usize {
        0
    }

    /// What the port has sent from a queue since the last call, in order. ([`Output::Collected`] and
    /// [`Output::CollectedAtStop`])
    fn collect(&mut self, _queue: QueueId) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Gives the world time to go on; called between two polls that found nothing.
    fn settle(&mut self) {}

    /// Whether the port must be configured with exactly the queues it was opened for.
    fn fixed_queues(&self) -> bool {
        false
    }

    /// Pools of the rig's own whose packets may come into the port's hands: they are audited too.
    fn pools(&self) -> Vec<Mempool> {
        Vec::new()
    }
}

/// Opens ports of one kind.
pub trait Harness {
    /// What is tested, such as a port's description.
    fn name(&self) -> String;

    /// Opens a port, not yet configured, whose other end serves `queues` queues (as many as the port can have,
    /// at most) in each direction. The ones opened before may still be there.
    ///
    /// # Errors
    ///
    /// The port cannot be opened.
    fn open(&self, clock: Clock, queues: u16) -> Result<Box<dyn Rig>, PortError>;
}

/// A named case.
type Case = (&'static str, fn(&Lab<'_>) -> Result<(), Stop>);

/// Names of all cases, in the order in which they run.
pub fn case_names() -> Vec<&'static str> {
    cases().iter().map(|(name, _)| *name).collect()
}

fn cases() -> Vec<Case> {
    [bursts::CASES, buffers::CASES, life::CASES, queues::CASES, books::CASES, limits::CASES].concat()
}

/// What came out.
#[derive(Debug, Default)]
pub struct Report {
    /// What was tested.
    pub name: String,
    /// Cases that passed.
    pub passed: Vec<&'static str>,
    /// Cases that have nothing to test on this driver, and why.
    pub skipped: Vec<(&'static str, String)>,
    /// Cases that failed, and why.
    pub failed: Vec<(&'static str, String)>,
}

impl Report {
    /// Ends a test that expects a clean report.
    ///
    /// # Panics
    ///
    /// With the whole report if any case failed, or none passed.
    #[track_caller]
    pub fn assert_passed(&self) {
        assert!(self.failed.is_empty() && !self.passed.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [self.passed.len(), self.skipped.len(), self.failed.len()];
        writeln!(f, "{}: {} passed, {} do not apply, {} failed", self.name, counts[0], counts[1], counts[2])?;
        for (case, why) in &self.failed {
            writeln!(f, "  FAILED {case}: {why}")?;
        }
        for (case, why) in &self.skipped {
            writeln!(f, "  does not apply: {case}: {why}")?;
        }
        Ok(())
    }
}

/// Runs every case on fresh ports. A case that panics has failed; the others still run.
pub fn run_all(harness: &dyn Harness) -> Report {
    run_some(harness, |_| true)
}

/// Runs the cases that are `wanted`, by name.
pub fn run_some(harness: &dyn Harness, wanted: impl Fn(&str) -> bool) -> Report {
    let mut report = Report { name: harness.name(), ..Default::default() };
    for (name, case) in cases() {
        if !wanted(name) {
            continue;
        }
        let lab = Lab::new(harness, name);
        let result = catch_unwind(AssertUnwindSafe(|| case(&lab)));
        let result = result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(Stop::Failed(format!("panicked: {text}")))
        });
        // What failed half-way may hold buffers; what did not, may not.
        match result.and_then(|()| lab.all_home("after the case")) {
            Ok(()) => report.passed.push(name),
            Err(Stop::Inapplicable(why)) => match lab.all_home("after the case") {
                Err(Stop::Failed(why)) => report.failed.push((name, why)),
                _ => report.skipped.push((name, why)),
            },
            Err(Stop::Failed(why)) => report.failed.push((name, why)),
        }
    }
    report
}
