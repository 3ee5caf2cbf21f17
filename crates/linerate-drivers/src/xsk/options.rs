//! What a description of an AF_XDP port says. Keys are named as DPDK's `net_af_xdp` names them where it has them.

use linerate_port::{KeyInfo, PortError, PortSpec};

/// The keys.
pub(super) const KEYS: &[KeyInfo] = &[
    KeyInfo {
        name: "mode",
        value: "auto|native|generic|zero-copy (auto)",
        help: "where the program stands, and whether packets are copied; auto takes the best there is and says which",
        repeats: false,
    },
    KeyInfo {
        name: "start_queue",
        value: "N (0)",
        help: "the interface's first queue to take",
        repeats: false,
    },
    KeyInfo { name: "queue_count", value: "N (all)", help: "queues to take from there on", repeats: false },
    KeyInfo { name: "queues", value: "N (all)", help: "the same as queue_count", repeats: false },
    KeyInfo { name: "force_copy", value: "0|1 (0)", help: "no zero-copy even where it is", repeats: false },
    KeyInfo {
        name: "busy_budget",
        value: "N (64)",
        help: "packets of a busy poll; 0 = do not poll the driver from the receive call",
        repeats: false,
    },
    KeyInfo {
        name: "irq_defer_us",
        value: "N (0)",
        help: "keep the queue's interrupts off so long after a busy poll; stays set if the process is killed",
        repeats: false,
    },
    KeyInfo {
        name: "shared_umem",
        value: "0|1 (0)",
        help: "one packet memory for all queues",
        repeats: false,
    },
    KeyInfo {
        name: "frame_size",
        value: "BYTES (from the MTU)",
        help: "bytes of a frame of packet memory",
        repeats: false,
    },
    KeyInfo {
        name: "unaligned",
        value: "0|1 (0)",
        help: "frames that are no power of two; needs huge pages",
        repeats: false,
    },
    KeyInfo {
        name: "tx_selftest",
        value: "0|1 (1 with zero-copy)",
        help: "send one frame at the start, and refuse to start if it does not leave",
        repeats: false,
    },
];

/// How the program is attached and whether packets are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The best that works.
    Auto,
    /// In the driver or not at all.
    Native,
    /// In the kernel's stack.
    Generic,
    /// In the driver and without copying, or not at all.
    ZeroCopy,
}

/// What a description says.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) mode: Mode,
    pub(super) start_queue: u32,
    /// `None` = as many as there are.
    pub(super) queues: Option<u32>,
    pub(super) force_copy: bool,
    pub(super) busy_budget: u32,
    pub(super) irq_defer_us: u32,
    pub(super) shared_umem: bool,
    pub(super) frame_size: Option<u32>,
    pub(super) unaligned: bool,
    /// `None` = with zero-copy.
    pub(super) tx_selftest: Option<bool>,
}

/// Most queues of a port.
pub(super) const MAX_QUEUES: u32 = 64;

impl Options {
    pub(super) fn read(spec: &PortSpec) -> Result<Self, PortError> {
        let mode = match spec.value("mode") {
            None | Some("auto") => Mode::Auto,
            Some("native") => Mode::Native,
            Some("generic") => Mode::Generic,
            Some("zero-copy") => Mode::ZeroCopy,
            Some(other) => {
                let what = format!("mode={other}: wanted auto, native, generic or zero-copy");
                return Err(spec.bad_value("mode", what, "write mode=auto").into());
            }
        };
        let given = |key, default| spec.value(key).is_some().then_some(default);
        let count = match (spec.value("queues"), spec.value("queue_count")) {
            (Some(_), Some(_)) => {
                let what = "queues and queue_count are the same";
                return Err(spec.bad_value("queues", what, "give one of them").into());
            }
            (Some(_), None) => Some(spec.number("queues", 1, 1..=MAX_QUEUES.into())? as u32),
            (None, Some(_)) => Some(spec.number("queue_count", 1, 1..=MAX_QUEUES.into())? as u32),
            (None, None) => None,
        };
        let force_copy = spec.switch("force_copy", false)?;
        if force_copy && mode == Mode::ZeroCopy {
            let what = "zero-copy and force_copy exclude each other";
            return Err(spec.bad_value("force_copy", what, "leave one of them out").into());
        }
        let unaligned = spec.switch("unaligned", false)?;
        // The exact set depends on the page size and is checked with it.
        let frame_size = spec.number("frame_size", 2048, 1..=1 << 20)? as u32;
        let tx_selftest = spec.switch("tx_selftest", false)?;
        Ok(Options {
            mode,
            start_queue: spec.number("start_queue", 0, 0..=u16::MAX.into())? as u32,
            queues: count,
            force_copy,
            busy_budget: spec.number("busy_budget", 64, 0..=u16::MAX.into())? as u32,
            irq_defer_us: spec.number("irq_defer_us", 0, 0..=1_000_000)? as u32,
            shared_umem: spec.switch("shared_umem", false)?,
            frame_size: given("frame_size", ()).map(|()| frame_size),
            unaligned,
            tx_selftest: given("tx_selftest", ()).map(|()| tx_selftest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(keys: &str) -> Result<Options, PortError> {
        let spec: PortSpec = format!("xsk:eth0{keys}").parse().unwrap();
        spec.resolve(&[crate::xsk::ENTRY])?;
        Options::read(&spec)
    }

    #[test]
    fn nothing_said_is_the_best_there_is() {
        let o = read("").unwrap();
        assert_eq!((o.mode, o.start_queue, o.queues, o.busy_budget), (Mode::Auto, 0, None, 64));
        assert!(!o.force_copy && !o.shared_umem && !o.unaligned && o.frame_size.is_none());
        let o =
            read(",mode=native,start_queue=2,queues=3,busy_budget=0,frame_size=4096,tx_selftest=1").unwrap();
        assert_eq!((o.mode, o.start_queue, o.queues, o.busy_budget), (Mode::Native, 2, Some(3), 0));
        assert_eq!((o.frame_size, o.tx_selftest), (Some(4096), Some(true)));
        assert_eq!(read(",queue_count=2,irq_defer_us=200").unwrap().irq_defer_us, 200);
    }

    #[test]
    fn each_bad_value_is_one_error_that_points_at_it() {
        for (bad, at) in [
            (",mode=driver", "driver"),
            (",mode=", ""),
            (",queues=0", "0"),
            (",queues=65", "65"),
            (",queue_count=1,queues=1", "1"),
            (",start_queue=65536", "65536"),
            (",force_copy=2", "2"),
            (",force_copy=1,mode=zero-copy", "1"),
            (",busy_budget=-1", "-1"),
            (",frame_size=x", "x"),
            (",irq_defer_us=1000001", "1000001"),
        ] {
            let e = match read(bad) {
                Err(PortError::Spec(e)) => e,
                other => panic!("{bad}: {other:?}"),
            };
            assert!(e.text[e.at..].starts_with(at), "{bad}: {e}");
            assert!(!e.hint().is_empty());
        }
        // A wrong key is named, with the right ones.
        let e = read(",queue=2").unwrap_err();
        assert!(e.hint().contains("did you mean `queues`"), "{}", e.hint());
    }
}
