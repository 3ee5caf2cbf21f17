//! Pages, cores, NUMA nodes and clocks: what the machine gives, before there is any packet.

pub mod lane;

pub use lane::{LaneSet, MAX_LANES, NO_LANE, current_lane, with_lanes_frozen};
