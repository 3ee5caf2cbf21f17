//! The port model that every driver implements.
//!
//! A [`Port`] is configured, given queues, started, stopped and closed; a step at the wrong time is refused by
//! name ([`PortError::WrongState`]). While it is started its queues are taken out of it as [`RxQueue`] and
//! [`TxQueue`], owned by whoever polls them; dropping one brings it home. A port cannot be stopped while a
//! queue is out, so that nobody ever polls a stopped device.
//!
//! A driver implements [`PortDriver`], [`RxDriver`] and [`TxDriver`] and passes the [`conformance`] suite.

pub mod caps;
pub mod classify;
pub mod config;
pub mod conformance;
pub mod driver;
pub mod error;
pub mod event;
pub mod filter;
pub mod flow;
pub mod ids;
pub mod port;
pub mod program;
pub mod queue;
pub mod rss;
pub mod spec;
pub mod state;
pub mod stats;

pub use caps::{Capabilities, Limits, PortInfo, RxOffloads, TxOffloads};
pub use config::{ETHER_OVERHEAD, PortConfig, RxQueueConfig, TxQueueConfig};
pub use driver::{DriverContext, PortDriver, RxContext, RxDriver, TxContext, TxDriver};
pub use error::PortError;
pub use event::{EventSink, LinkCause, LinkState, PortEvent};
pub use filter::{FilterState, MacAddress};
pub use flow::{FlowAction, FlowError, FlowId, FlowItem, FlowRule};
pub use ids::{PortId, QueueId};
pub use port::Port;
pub use program::{Frame, ProgramCounters, RxProgram, SoftStage, Verdict};
pub use queue::{RxQueue, TxQueue};
pub use rss::{RssConfig, RssTypes};
pub use spec::{DriverEntry, KeyInfo, OpenPort, PortSpec, SpecError};
pub use state::PortState;
pub use stats::{PortStats, RxCounters, TxCounters, Xstat};
