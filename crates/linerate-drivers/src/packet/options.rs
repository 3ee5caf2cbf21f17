//! What a packet port's description says, and the shape of a ring that follows from it.

use linerate_port::{KeyInfo, PortError, PortSpec, SpecError};

/// The keys; names as DPDK's.
pub(super) const KEYS: &[KeyInfo] = &[
    KeyInfo { name: "qpairs", value: "N (16)", help: "most queues in each direction", repeats: false },
    KeyInfo {
        name: "blocksz",
        value: "BYTES (65536)",
        help: "size of a block of ring memory, a power of two of at least a page",
        repeats: false,
    },
    KeyInfo {
        name: "framesz",
        value: "BYTES (2048, more for a larger MTU)",
        help: "size of a slot, rounded up to a power of two",
        repeats: false,
    },
    KeyInfo {
        name: "framecnt",
        value: "N (the queue's descriptors)",
        help: "slots of a ring, rounded up to whole blocks",
        repeats: false,
    },
    KeyInfo {
        name: "qdisc_bypass",
        value: "0|1 (0)",
        help: "send past the queueing discipline and past tcpdump; a few per cent faster",
        repeats: false,
    },
    KeyInfo {
        name: "fanout_mode",
        value: "hash|lb|cpu|rnd|rollover|qm (hash)",
        help: "how frames are spread over several receive queues",
        repeats: false,
    },
];

/// Bytes of a page: what a block is made of.
const PAGE: usize = 4096;
/// Largest slot that is chosen without being asked for.
const AUTO_SLOT: usize = 16384;
/// Bytes before a frame in a slot: header, address, and what alignment asks for.
pub(super) const SLOT_OVERHEAD: usize = 96;
/// Most bytes of a ring.
const MAX_RING: usize = 1 << 30;

/// What a description says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) queues: u16,
    blocksz: usize,
    framesz: Option<usize>,
    framecnt: Option<usize>,
    pub(super) qdisc_bypass: bool,
    /// `PACKET_FANOUT_*`.
    pub(super) fanout: u16,
}

/// Names of the ways to spread, with the kernel's numbers.
const FANOUT: [(&str, u16); 6] = [("hash", 0), ("lb", 1), ("cpu", 2), ("rollover", 3), ("rnd", 4), ("qm", 5)];

impl Options {
    pub(super) fn read(spec: &PortSpec) -> Result<Self, PortError> {
        let optional = |key, range: std::ops::RangeInclusive<u64>| -> Result<Option<usize>, SpecError> {
            let n = spec.number(key, *range.start(), range)?;
            Ok(spec.value(key).map(|_| n as usize))
        };
        let blocksz = spec.number("blocksz", 65536, PAGE as u64..=1 << 24)? as usize;
        if !blocksz.is_power_of_two() {
            let what = format!("blocksz={blocksz} is no power of two");
            return Err(spec.bad_value("blocksz", what, "write blocksz=65536").into());
        }
        let framesz = optional("framesz", 256..=1 << 18)?.map(usize::next_power_of_two);
        if let Some(f) = framesz.filter(|&f| f > blocksz && spec.value("blocksz").is_some()) {
            let what = format!("a slot of {f} bytes does not fit a block of {blocksz}");
            return Err(spec.bad_value("framesz", what, format!("write blocksz={f}")).into());
        }
        let fanout = match spec.value("fanout_mode") {
            None => 0,
            Some(v) => match FANOUT.iter().find(|(name, _)| *name == v) {
                Some((_, n)) => *n,
                None => {
                    let all = FANOUT.map(|(name, _)| name).join(", ");
                    let what = format!("there is no fanout mode {v:?}");
                    return Err(spec.bad_value("fanout_mode", what, format!("modes: {all}")).into());
                }
            },
        };
        let options = Options {
            queues: spec.number("qpairs", 16, 1..=64)? as u16,
            blocksz,
            framesz,
            framecnt: optional("framecnt", 1..=1 << 20)?,
            qdisc_bypass: spec.switch("qdisc_bypass", false)?,
            fanout,
        };
        let shape = options.shape(1500, 512);
        if shape.bytes() > MAX_RING {
            let what = format!("a ring of {} slots of {} bytes is over 1 GiB", shape.slots, shape.slot);
            return Err(spec.bad_value("framecnt", what, "write framecnt=512").into());
        }
        Ok(options)
    }

    /// The shape of a receive ring for frames of up to `frame` bytes and so many descriptors. Longer ones come
    /// through the socket.
    pub(super) fn shape(&self, frame: usize, descriptors: u16) -> Shape {
        let auto = (frame + SLOT_OVERHEAD).next_power_of_two().clamp(2048, AUTO_SLOT);
        self.of_slots(self.framesz.unwrap_or(auto), descriptors)
    }

    /// The shape of a transmit ring, whose slots hold every frame of up to `frame` bytes.
    pub(super) fn tx_shape(&self, frame: usize, descriptors: u16) -> Shape {
        let least = (frame + SLOT_OVERHEAD).next_power_of_two();
        self.of_slots(self.framesz.unwrap_or(2048).max(least), descriptors)
    }

    fn of_slots(&self, slot: usize, descriptors: u16) -> Shape {
        let wanted = self.framecnt.unwrap_or(usize::from(descriptors)).max(1);
        let block = self.blocksz.max(slot).min((wanted * slot).next_power_of_two()).max(PAGE);
        let slots = wanted.next_multiple_of(block / slot);
        Shape { slot, slots, block }
    }
}

/// The shape of a ring: slots never straddle blocks, and blocks lie side by side, so slots do as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes of a slot, a power of two.
    pub(super) slot: usize,
    /// Number of slots.
    pub(super) slots: usize,
    /// Bytes of a block, a power of two, at least a slot and a page.
    pub(super) block: usize,
}

impl Shape {
    pub(super) fn bytes(&self) -> usize {
        self.slot * self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, PortError> {
        let spec: PortSpec = text.parse().unwrap();
        Options::read(&spec)
    }

    #[test]
    fn rings_have_whole_blocks_of_whole_slots() {
        let o = read("packet:x").unwrap();
        assert_eq!(o.shape(1522, 512), Shape { slot: 2048, slots: 512, block: 65536 });
        assert_eq!(o.shape(9022, 512), Shape { slot: 16384, slots: 512, block: 65536 });
        assert_eq!(o.shape(65535, 1), Shape { slot: 16384, slots: 1, block: 16384 });
        assert_eq!(o.shape(64, 1), Shape { slot: 2048, slots: 2, block: 4096 });
        assert_eq!(o.shape(64, 33), Shape { slot: 2048, slots: 64, block: 65536 });
        let o = read("packet:x,framesz=512").unwrap();
        assert_eq!((o.shape(1522, 64).slot, o.tx_shape(1518, 64).slot), (512, 2048));
        assert_eq!(o.tx_shape(16256 + 18, 64).slot, 16384);
        let o = read("packet:x,framesz=3000,blocksz=4096,framecnt=7").unwrap();
        assert_eq!(o.shape(64, 512), Shape { slot: 4096, slots: 7, block: 4096 });
        for frame in [0, 64, 1522, 2000, 9000, 65535] {
            for n in [1, 2, 3, 31, 512, 32768] {
                for o in [read("packet:x,blocksz=4096").unwrap(), read("packet:x,framesz=256").unwrap()] {
                    let s = o.shape(frame, n);
                    assert!(s.slots >= n.into() && s.block >= s.slot && s.bytes() % s.block == 0, "{s:?}");
                }
            }
        }
    }

    #[test]
    fn bad_values_are_pointed_at() {
        for (text, what) in [
            ("packet:x,blocksz=5000", "no power of two"),
            ("packet:x,blocksz=2048", "wanted a number from 4096"),
            ("packet:x,framesz=8192,blocksz=4096", "does not fit a block"),
            ("packet:x,framesz=0", "wanted a number from 256"),
            ("packet:x,framecnt=0", "wanted a number from 1"),
            ("packet:x,framecnt=1048576,framesz=2048", "over 1 GiB"),
            ("packet:x,qpairs=65", "wanted a number from 1 to 64"),
            ("packet:x,qdisc_bypass=yes", "wanted 0 or 1"),
            ("packet:x,fanout_mode=spread", "no fanout mode"),
        ] {
            let e = read(text).expect_err(text);
            assert!(e.to_string().contains(what), "{text}: {e}");
            assert!(!e.hint().is_empty());
        }
        assert_eq!(read("packet:x,fanout_mode=qm").unwrap().fanout, 5);
    }
}
