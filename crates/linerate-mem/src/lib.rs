//! Pages, cores, NUMA nodes and clocks: what the machine gives, before there is any packet.
//!
//! - [`PageRequest`] → [`Pages`]: memory in the largest pages there are, on the node of choice, populated; one line
//!   says what was taken and what it costs. [`DmaRegion`] is the same memory as a device sees it.
//! - [`Topology`], [`CoreId`], [`pin_current_thread`]: which processors there are, how close, and staying on one.
//! - [`current_lane`]: a small number of the calling thread's own, the index of every per-core cache.
//! - [`Clock`]: the processor's counter with its calibration error ([`TscClock`]), or one that tests step.
//!   [`ThreadTime`] is the part of the wall time that a thread was really on its core.

pub mod clock;
pub mod cores;
pub mod dma;
pub mod ids;
pub mod lane;
pub mod oncpu;
pub mod pages;
pub mod topology;
pub mod tsc;

pub use clock::{Clock, VirtualClock};
pub use cores::{CoreError, CoreId, allowed_cores, current_core, pin_current_thread};
pub use dma::{DmaRegion, Iova};
pub use ids::{IdList, IdListError};
pub use lane::{LaneSet, MAX_LANES, NO_LANE, current_lane, with_lanes_frozen};
pub use oncpu::ThreadTime;
pub use pages::{HugeCounts, HugeSize, MemError, MemLimit, PageKind, PagePreference, PageRequest, Pages};
pub use topology::{Closeness, Cpu, NumaNode, Topology, TopologyError};
pub use tsc::{CycleScale, TscClock, cycles_between, is_before, rdtsc, rdtsc_ordered};

/// Tells people and `cargo xtask test` that a test, or a part of it, was not run here, and why. Written past the test
/// harness, which would swallow it.
#[cfg(test)]
fn skip(test: &str, why: &str) {
    use std::io::Write as _;
    _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
