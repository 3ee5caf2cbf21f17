//! Pages, cores, NUMA nodes and clocks: what the machine gives, before there is any packet.

pub mod cores;
pub mod ids;
pub mod lane;
pub mod pages;
pub mod topology;

pub use cores::{CoreError, CoreId, allowed_cores, current_core, pin_current_thread};
pub use ids::{IdList, IdListError};
pub use lane::{LaneSet, MAX_LANES, NO_LANE, current_lane, with_lanes_frozen};
pub use pages::{HugeCounts, HugeSize, MemError, MemLimit, PageKind, PagePreference, PageRequest, Pages};
pub use topology::{Closeness, Cpu, NumaNode, Topology, TopologyError};

/// Tells people and `cargo xtask test` that a test, or a part of it, was not run here, and why. Written past the test
/// harness, which would swallow it.
#[cfg(test)]
fn skip(test: &str, why: &str) {
    use std::io::Write as _;
    _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
