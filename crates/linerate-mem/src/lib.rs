//! Pages, cores, NUMA nodes and clocks: what the machine gives, before there is any packet.

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
