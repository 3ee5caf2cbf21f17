//! What happens to a port by itself: link changes, reset, removal. Events, in order, each once.

use crate::{PortId, QueueId};
use linerate_mem::Clock;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// Most events kept for a port that nobody asks; older ones are dropped and counted.
const KEPT: usize = 256;

/// Why a link is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkCause {
    /// Nothing happened yet.
    Initial,
    /// Somebody set it up or down here.
    Admin,
    /// The other side, or the cable.
    Carrier,
    /// The port was started.
    Started,
    /// The port was stopped.
    Stopped,
    /// The device reported a fault.
    Fault,
}

/// A link as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Wanted up.
    pub admin_up: bool,
    /// Up.
    pub oper_up: bool,
    /// Speed in Mbit/s, if the medium has one.
    pub speed_mbps: Option<u32>,
    /// Why.
    pub cause: LinkCause,
    /// Since when, in nanoseconds of the port's clock.
    pub since_ns: u64,
    /// How often it went up or down.
    pub changes: u32,
}

impl LinkState {
    /// A link that never was up.
    pub const DOWN: LinkState = LinkState {
        admin_up: true,
        oper_up: false,
        speed_mbps: None,
        cause: LinkCause::Initial,
        since_ns: 0,
        changes: 0,
    };
}

/// Something that happened to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortEvent {
    /// The link changed.
    Link(LinkState),
    /// The device was reset; queues must be set up again.
    Reset,
    /// The device is gone.
    Removed,
    /// A queue failed.
    QueueError {
        /// "rx" or "tx".
        kind: &'static str,
        /// Which queue.
        queue: QueueId,
        /// What it said.
        what: String,
    },
    /// So many events were dropped because nobody took them.
    Lost(u64),
}

#[derive(Debug)]
struct Inner {
    link: LinkState,
    queue: VecDeque<PortEvent>,
    lost: u64,
    removed: bool,
}

/// Where a driver reports events, from any thread; the port and the application read them.
#[derive(Clone, Debug)]
pub struct EventSink {
    port: PortId,
    clock: Clock,
    inner: Arc<Mutex<Inner>>,
}

impl EventSink {
    /// For the port with this number, stamped by this clock.
    pub fn new(port: PortId, clock: Clock) -> Self {
        let inner = Inner { link: LinkState::DOWN, queue: VecDeque::new(), lost: 0, removed: false };
        EventSink { port, clock, inner: Arc::new(Mutex::new(inner)) }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        f(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports the link. One event for each change; saying the same again is none.
    pub fn link(&self, oper_up: bool, speed_mbps: Option<u32>, cause: LinkCause) {
        let now = self.clock.now_ns();
        self.with(|i| {
            let old = i.link;
            let admin_up = match cause {
                LinkCause::Admin => oper_up,
                _ => old.admin_up,
            };
            if (old.oper_up, old.speed_mbps, old.admin_up) == (oper_up, speed_mbps, admin_up) {
                return;
            }
            let changes = old.changes + u32::from(old.oper_up != oper_up);
            i.link = LinkState { admin_up, oper_up, speed_mbps, cause, since_ns: now, changes };
            let event = PortEvent::Link(i.link);
            i.push(event);
        });
    }

    /// Reports that the device is gone; once.
    pub fn removed(&self) {
        self.with(|i| {
            if !std::mem::replace(&mut i.removed, true) {
                i.push(PortEvent::Removed);
            }
        });
    }

    /// Reports a reset.
    pub fn reset(&self) {
        self.with(|i| i.push(PortEvent::Reset));
    }

    /// Reports a queue's failure.
    pub fn queue_error(&self, kind: &'static str, queue: QueueId, what: String) {
        self.with(|i| i.push(PortEvent::QueueError { kind, queue, what }));
    }

    /// The link as it is now.
    pub fn link_now(&self) -> LinkState {
        self.with(|i| i.link)
    }

    /// Whether the device is gone.
    pub fn is_removed(&self) -> bool {
        self.with(|i| i.removed)
    }

    /// Takes all events since the last call, in order.
    pub fn take(&self) -> Vec<PortEvent> {
        self.with(|i| {
            let lost = std::mem::take(&mut i.lost);
            let first = (lost > 0).then_some(PortEvent::Lost(lost));
            first.into_iter().chain(i.queue.drain(..)).collect()
        })
    }

    /// The port whose events these are.
    pub fn port(&self) -> PortId {
        self.port
    }
}

impl Inner {
    fn push(&mut self, e: PortEvent) {
        if self.queue.len() == KEPT {
            self.queue.pop_front();
            self.lost += 1;
        }
        self.queue.push_back(e);
    }
}
