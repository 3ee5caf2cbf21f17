//! What can go wrong with a port: the facts, and what mends it.

use crate::{
    FlowError, PortId, SpecError,
    state::{PortState, PortStep},
};
use thiserror::Error;

/// Why a port refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PortError {
    /// A step at the wrong time.
    #[error("port {port} is {state}: cannot {step} (only while {})", step.allowed_in())]
    WrongState {
        /// Which port.
        port: PortId,
        /// What was tried.
        step: PortStep,
        /// Where the port is.
        state: PortState,
    },
    /// Queues are still with whoever polls them.
    #[error("port {port}: queues are still in use: rx {rx:?}, tx {tx:?}")]
    QueuesOut {
        /// Which port.
        port: PortId,
        /// Receive queues that are out.
        rx: Vec<u16>,
        /// Transmit queues that are out.
        tx: Vec<u16>,
    },
    /// A queue was never set up.
    #[error("port {port}: {kind} queue {queue} is not set up")]
    QueueMissing {
        /// Which port.
        port: PortId,
        /// "rx" or "tx".
        kind: &'static str,
        /// Which queue.
        queue: u16,
    },
    /// A queue is out already.
    #[error("port {port}: {kind} queue {queue} is in use elsewhere")]
    QueueTaken {
        /// Which port.
        port: PortId,
        /// "rx" or "tx".
        kind: &'static str,
        /// Which queue.
        queue: u16,
    },
    /// A number out of range.
    #[error("port {port}: {what} {wanted}; allowed are {min} to {max}")]
    Range {
        /// Which port.
        port: PortId,
        /// What it counts.
        what: &'static str,
        /// What was asked for.
        wanted: u64,
        /// Least allowed.
        min: u64,
        /// Most allowed.
        max: u64,
    },
    /// A frame of the MTU's size does not fit a receive buffer, and scatter is off.
    #[error(
        "port {port}: a frame of MTU {mtu} is up to {frame} bytes, a buffer of pool {pool} holds {room}, and scatter is off"
    )]
    FrameTooLong {
        /// Which port.
        port: PortId,
        /// The MTU.
        mtu: u32,
        /// The longest frame with that MTU.
        frame: u32,
        /// Bytes a buffer holds behind its headroom.
        room: u32,
        /// The pool.
        pool: String,
    },
    /// The driver or device cannot do it.
    #[error("port {port}: driver {driver} has no {what}")]
    Unsupported {
        /// Which port.
        port: PortId,
        /// Its driver.
        driver: &'static str,
        /// What was asked for.
        what: String,
    },
    /// The pool cannot feed the queue.
    #[error("port {port}: pool {pool} has {have} buffers, the queue needs {need}")]
    PoolTooSmall {
        /// Which port.
        port: PortId,
        /// The pool.
        pool: String,
        /// Buffers it has.
        have: u32,
        /// Buffers needed.
        need: u32,
    },
    /// A value that makes no sense here.
    #[error("port {port}: {what}: {why}")]
    Invalid {
        /// Which port.
        port: PortId,
        /// What was given.
        what: String,
        /// Why it is refused.
        why: String,
    },
    /// The device is gone.
    #[error("port {port}: the device is gone")]
    Removed {
        /// Which port.
        port: PortId,
    },
    /// The system refused.
    #[error("port {port}: {what}: {source}")]
    System {
        /// Which port.
        port: PortId,
        /// What was tried, with its object.
        what: String,
        /// What the system said.
        source: std::io::Error,
        /// What mends it.
        hint: String,
    },
    /// A bad flow rule.
    #[error("port {port}: {source}")]
    Flow {
        /// Which port.
        port: PortId,
        /// What is wrong with it.
        source: FlowError,
    },
    /// A bad port description.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A driver's own error.
    #[error("port {port}: {source}")]
    Driver {
        /// Which port.
        port: PortId,
        /// The driver's error.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// What mends it.
        hint: String,
    },
}

impl PortError {
    /// What mends it.
    pub fn hint(&self) -> String {
        match self {
            PortError::WrongState { step, .. } => match step {
                PortStep::Close | PortStep::Configure | PortStep::QueueSetup | PortStep::SetMtu => {
                    "stop the port first (and configure it before its queues)".into()
                }
                PortStep::Start => "configure the port and set up its queues first".into(),
                _ => "start the port first".into(),
            },
            PortError::QueuesOut { .. } => "drop the queues: that brings them home".into(),
            PortError::QueueMissing { kind, .. } => {
                format!("call {kind}_queue_setup for every configured queue")
            }
            PortError::QueueTaken { .. } => "a queue has one owner; configure more queues".into(),
            PortError::Range { min, max, .. } => format!("choose {min} to {max}"),
            PortError::FrameTooLong { frame, .. } => {
                format!("turn scatter on, lower the MTU, or take buffers with {frame} bytes of data room")
            }
            PortError::Unsupported { .. } => "`linerate ports` tells what each driver can do".into(),
            PortError::PoolTooSmall { need, .. } => format!("make the pool at least {need} buffers large"),
            PortError::Invalid { .. } => "see the allowed values in the message".into(),
            PortError::Removed { .. } => "close the port".into(),
            PortError::System { hint, .. } | PortError::Driver { hint, .. } => hint.clone(),
            PortError::Flow { source, .. } => source.hint(),
            PortError::Spec(s) => s.hint(),
        }
    }
}
