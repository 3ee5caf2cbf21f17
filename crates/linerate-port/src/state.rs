//! The life of a port, and which step is allowed when.

use core::fmt;

/// Where a port is in its life.
///
/// ```text
///   Opened ──configure──► Configured ──start──► Started
///                            ▲  │ ▲               │
///                  configure └──┘ └─────stop──────┘
///   any but Started ──close──► Closed          any ──device gone──► Removed ──close──► Closed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortState {
    /// Made, not configured.
    Opened,
    /// Configured; queues may be set up.
    Configured,
    /// Packets move.
    Started,
    /// The device went away under us; only closing is left.
    Removed,
    /// Over.
    Closed,
}

/// A step that needs a certain state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortStep {
    /// `configure`
    Configure,
    /// `rx_queue_setup` and `tx_queue_setup`
    QueueSetup,
    /// `start`
    Start,
    /// `stop`
    Stop,
    /// `close`
    Close,
    /// `reset`
    Reset,
    /// `set_mtu`
    SetMtu,
    /// Taking a queue, starting or stopping one.
    UseQueue,
    /// Filters, RSS, flow rules: wherever the port is configured.
    Adjust,
}

impl PortState {
    /// Whether the step is allowed in this state: the whole table.
    pub const fn allows(self, step: PortStep) -> bool {
        use PortState as S;
        use PortStep as T;
        matches!(
            (step, self),
            (T::Configure, S::Opened | S::Configured)
                | (T::QueueSetup | T::SetMtu | T::Start, S::Configured)
                | (T::Stop | T::UseQueue, S::Started)
                | (T::Close, S::Opened | S::Configured | S::Removed)
                | (T::Reset, S::Opened | S::Configured)
                | (T::Adjust, S::Configured | S::Started)
        )
    }

    /// All states.
    pub const ALL: [PortState; 5] =
        [PortState::Opened, PortState::Configured, PortState::Started, PortState::Removed, PortState::Closed];
}

impl PortStep {
    /// The states in which it is allowed, in words.
    pub fn allowed_in(self) -> String {
        let states: Vec<_> =
            PortState::ALL.iter().filter(|s| s.allows(self)).map(|s| s.to_string()).collect();
        states.join(" or ")
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortState::Opened => "opened",
            PortState::Configured => "configured",
            PortState::Started => "started",
            PortState::Removed => "removed",
            PortState::Closed => "closed",
        })
    }
}

impl fmt::Display for PortStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortStep::Configure => "configure it",
            PortStep::QueueSetup => "set up a queue",
            PortStep::Start => "start it",
            PortStep::Stop => "stop it",
            PortStep::Close => "close it",
            PortStep::Reset => "reset it",
            PortStep::SetMtu => "change its MTU",
            PortStep::UseQueue => "use a queue",
            PortStep::Adjust => "change its filters or rules",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allowed_after_the_end() {
        use PortStep::*;
        for step in [Configure, QueueSetup, Start, Stop, Close, Reset, SetMtu, UseQueue, Adjust] {
            assert!(!PortState::Closed.allows(step), "{step}");
            assert!(!step.allowed_in().is_empty());
        }
        assert!(PortState::Removed.allows(Close));
        assert!(!PortState::Removed.allows(Start));
        assert!(!PortState::Started.allows(Close));
    }
}
