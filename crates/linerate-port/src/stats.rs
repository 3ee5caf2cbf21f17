//! Counters: one writer each, read by anyone without disturbing it.

use crossbeam_utils::CachePadded;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// A counter with one writer: adding is a load and a store, no read-modify-write.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the one writer may.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets; only the one writer may.
    #[inline(always)]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Reads.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What a receive queue counts. Written by the queue's owner, on a line of its own.
#[derive(Debug, Default)]
pub struct RxCounters {
    /// Packets delivered.
    pub packets: Counter,
    /// Their bytes (0 if the port does not count bytes).
    pub bytes: Counter,
    /// Packets lost because no descriptor was free or the queue was full.
    pub missed: Counter,
    /// Bad frames.
    pub errors: Counter,
    /// Packets lost, or receives put off, because no buffer was to be had.
    pub nombuf: Counter,
}

/// What a transmit queue counts. Written by the queue's owner, on a line of its own.
#[derive(Debug, Default)]
pub struct TxCounters {
    /// Packets taken and sent.
    pub packets: Counter,
    /// Their bytes (0 if the port does not count bytes).
    pub bytes: Counter,
    /// Packets taken but not sent: too long, or failed on the way.
    pub errors: Counter,
}

/// A queue's counters as shared between the queue and its port.
pub type SharedRx = Arc<CachePadded<RxCounters>>;
/// A queue's counters as shared between the queue and its port.
pub type SharedTx = Arc<CachePadded<TxCounters>>;

/// A port's counters as a sum over its queues since the last reset, with DPDK's meanings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received (`ipackets`).
    pub rx_packets: u64,
    /// Bytes received, without check sequence; `None` if the port does not count bytes.
    pub rx_bytes: Option<u64>,
    /// Packets lost for want of a descriptor (`imissed`).
    pub rx_missed: u64,
    /// Bad frames (`ierrors`).
    pub rx_errors: u64,
    /// Buffer allocation failures (`rx_nombuf`).
    pub rx_nombuf: u64,
    /// Packets sent (`opackets`).
    pub tx_packets: u64,
    /// Bytes sent; `None` if the port does not count bytes.
    pub tx_bytes: Option<u64>,
    /// Failed transmissions (`oerrors`).
    pub tx_errors: u64,
}

impl PortStats {
    /// The difference to an earlier reading; a counter that went backwards counts as no change.
    #[must_use]
    pub fn since(&self, before: &PortStats) -> PortStats {
        let opt = |a: Option<u64>, b: Option<u64>| a.map(|a| a.saturating_sub(b.unwrap_or(0)));
        PortStats {
            rx_packets: self.rx_packets.saturating_sub(before.rx_packets),
            rx_bytes: opt(self.rx_bytes, before.rx_bytes),
            rx_missed: self.rx_missed.saturating_sub(before.rx_missed),
            rx_errors: self.rx_errors.saturating_sub(before.rx_errors),
            rx_nombuf: self.rx_nombuf.saturating_sub(before.rx_nombuf),
            tx_packets: self.tx_packets.saturating_sub(before.tx_packets),
            tx_bytes: opt(self.tx_bytes, before.tx_bytes),
            tx_errors: self.tx_errors.saturating_sub(before.tx_errors),
        }
    }
}

/// A named counter, for everything that [`PortStats`] has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xstat {
    /// Name in DPDK's way: `rx_q0_packets`, `tx_good_bytes`.
    pub name: String,
    /// Value since the last reset.
    pub value: u64,
}

/// The names that every port has, from its basic counters (DPDK's).
pub(crate) fn basic_xstats(s: &PortStats) -> Vec<Xstat> {
    let x = |name: &str, value| Xstat { name: name.into(), value };
    let mut v = vec![x("rx_good_packets", s.rx_packets), x("tx_good_packets", s.tx_packets)];
    v.extend(s.rx_bytes.map(|b| x("rx_good_bytes", b)));
    v.extend(s.tx_bytes.map(|b| x("tx_good_bytes", b)));
    v.extend([
        x("rx_missed_errors", s.rx_missed),
        x("rx_errors", s.rx_errors),
        x("tx_errors", s.tx_errors),
        x("rx_mbuf_allocation_errors", s.rx_nombuf),
    ]);
    v
}

/// Widens a 32-bit counter of a device to 64 bits (bug case 32): never goes back, survives wraps between two
/// readings and a reading that failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Widened {
    last: u32,
    total: u64,
}

impl Widened {
    /// Starts at the device's present value, which counts as 0.
    pub fn starting_at(raw: u32) -> Self {
        Widened { last: raw, total: 0 }
    }

    /// Takes a reading; `None` = it failed, and the last value stands.
    pub fn update(&mut self, raw: Option<u32>) -> u64 {
        if let Some(raw) = raw {
            self.total += u64::from(raw.wrapping_sub(self.last));
            self.last = raw;
        }
        self.total
    }

    /// Counts from 0 again, from the present raw value on.
    pub fn reset(&mut self) {
        self.total = 0;
    }
}

/// A rate per second that does not overflow: `count` things in `ns` nanoseconds.
pub fn rate(count: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| count as f64 * 1e9 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Bug case 32.
    #[test]
    fn a_narrow_counter_wraps_without_a_jump() {
        let mut w = Widened::starting_at(0xFFFF_FFF0);
        assert_eq!(w.update(Some(0xFFFF_FFFE)), 14);
        assert_eq!(w.update(None), 14);
        assert_eq!(w.update(Some(0x0000_000A)), 26);
        w.reset();
        assert_eq!(w.update(None), 0);
        assert_eq!(w.update(Some(0x0000_000B)), 1);
        assert_eq!(rate(50_000_000_000, 1_000_000_000), Some(5e10));
        assert_eq!(rate(u64::MAX, 1).map(|r| r > 1e28), Some(true));
        assert_eq!(rate(1, 0), None);
    }

    #[test]
    fn a_counter_that_went_back_is_no_change() {
        let a = PortStats { rx_packets: 5, rx_bytes: Some(9), ..Default::default() };
        let b = PortStats { rx_packets: 3, rx_bytes: Some(12), ..Default::default() };
        let d = b.since(&a);
        assert_eq!((d.rx_packets, d.rx_bytes, d.tx_bytes), (0, Some(3), None));
    }
}
