//! What can go wrong with ring ports.

use linerate_port::{PortError, PortId};
use linerate_ring::RingError;
use thiserror::Error;

/// Why a ring port, or the far end of one, cannot be had.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingPortError {
    /// The port that it is connected to does not exist.
    #[error("ring:{name} is connected to ring:{peer}, and there is no such port")]
    PeerMissing {
        /// The port.
        name: String,
        /// The port that is missing.
        peer: String,
    },
    /// The one sends on more queues than the other receives on.
    #[error("ring:{from} sends on {tx} queues, ring:{to} receives on {rx}")]
    Queues {
        /// The sender.
        from: String,
        /// Its transmit queues.
        tx: u16,
        /// The receiver.
        to: String,
        /// Its receive queues.
        rx: u16,
    },
    /// A far end was asked for, of a port that is not there.
    #[error("there is no port ring:{name}")]
    NotOpen {
        /// The port asked for.
        name: String,
    },
    /// A far end was asked for, of a port that has none.
    #[error("ring:{name} has no far end")]
    NoFarEnd {
        /// The port asked for.
        name: String,
    },
    /// There are not so many queues.
    #[error("ring:{name} has no queue {queue}; there are 0 to {}", count - 1)]
    NoQueue {
        /// The port.
        name: String,
        /// The queue asked for.
        queue: u16,
        /// Queues a ring port can have.
        count: u16,
    },
    /// Somebody else holds this end of the ring.
    #[error("the {end} of queue {queue} of ring:{name} is in use elsewhere")]
    EndTaken {
        /// The port.
        name: String,
        /// The queue.
        queue: u16,
        /// "sending end" or "receiving end".
        end: &'static str,
    },
    /// A ring cannot be made.
    #[error("ring:{name}: {source}")]
    Ring {
        /// The port.
        name: String,
        /// Why.
        source: RingError,
    },
}

impl RingPortError {
    /// What mends it.
    pub fn hint(&self) -> String {
        match self {
            RingPortError::PeerMissing { name, peer } => format!("add --port ring:{peer},peer={name}"),
            RingPortError::Queues { to, tx, .. } => format!("configure ring:{to} with {tx} receive queues"),
            RingPortError::NotOpen { name } => format!("open ring:{name},far=1 first"),
            RingPortError::NoFarEnd { name } => format!("open it as ring:{name},far=1"),
            RingPortError::NoQueue { count, .. } => format!("take a queue below {count}"),
            RingPortError::EndTaken { .. } => "an end has one owner; drop it there first".into(),
            RingPortError::Ring { .. } => "choose a smaller size=".into(),
        }
    }

    pub(super) fn at(self, port: PortId) -> PortError {
        let hint = self.hint();
        PortError::Driver { port, source: Box::new(self), hint }
    }
}
