//! A port's counters: sums over its queues, by name, and since the last reset of them.

use super::Port;
use crate::{
    Capabilities, PortStats, ProgramCounters, QueueId, Xstat,
    classify::StageBooks,
    queue::at_home,
    stats::{Counter, basic_xstats},
};

impl Port {
    fn raw_stats(&self) -> PortStats {
        let bytes = self.info.capabilities.contains(Capabilities::BYTE_COUNTS).then_some(0);
        let mut s = PortStats { rx_bytes: bytes, tx_bytes: bytes, ..Default::default() };
        for (q, b) in self.rx.iter().enumerate().filter_map(|(q, s)| Some((q, &s.as_ref()?.books))) {
            let (c, [packets, bytes]) = (&b.counters, b.stage.received(&b.counters));
            s.rx_packets += packets;
            s.rx_bytes = s.rx_bytes.map(|b| b + bytes);
            s.rx_missed += self.missed(q);
            s.rx_errors += c.errors.get();
            s.rx_nombuf += c.nombuf.get();
        }
        for c in self.tx.iter().flatten().map(|s| &s.books) {
            s.tx_packets += c.packets.get();
            s.tx_bytes = s.tx_bytes.map(|b| b + c.bytes.get());
            s.tx_errors += c.errors.get();
        }
        s
    }

    /// Frames that a receive queue missed: at its device, and because its inbox was full.
    fn missed(&self, queue: usize) -> u64 {
        let slot = self.rx.get(queue).and_then(Option::as_ref);
        let own = slot.map_or(0, |s| s.books.counters.missed.get());
        own + self.rx.iter().flatten().map(|s| s.books.stage.missed_by(queue)).sum::<u64>()
    }

    /// The port's counters since it was configured or since the last reset of them.
    pub fn stats(&self) -> PortStats {
        self.raw_stats().since(&self.baseline)
    }

    pub(super) fn raw_xstats(&self) -> Vec<Xstat> {
        let x = |name: String, value| Xstat { name, value };
        let mut v = Vec::new();
        let bytes = self.info.capabilities.contains(Capabilities::BYTE_COUNTS);
        for (q, s) in self.rx.iter().enumerate().filter_map(|(q, s)| Some((q, s.as_ref()?))) {
            let c = &s.books.counters;
            let received = s.books.stage.received(c);
            v.push(x(format!("rx_q{q}_packets"), received[0]));
            if bytes {
                v.push(x(format!("rx_q{q}_bytes"), received[1]));
            }
            v.push(x(format!("rx_q{q}_errors"), c.errors.get()));
            v.push(x(format!("rx_q{q}_missed"), self.missed(q)));
        }
        for (q, s) in self.tx.iter().enumerate().filter_map(|(q, s)| Some((q, s.as_ref()?))) {
            v.push(x(format!("tx_q{q}_packets"), s.books.packets.get()));
            if bytes {
                v.push(x(format!("tx_q{q}_bytes"), s.books.bytes.get()));
            }
        }
        if self.info.capabilities.contains(Capabilities::RX_PROGRAM) {
            let sum = |of: fn(&ProgramCounters) -> &Counter| {
                self.rx.iter().flatten().map(|s| of(&s.books.program).get()).sum()
            };
            v.push(x("rx_program_pass".into(), sum(|p| &p.pass)));
            v.push(x("rx_program_drop".into(), sum(|p| &p.drop)));
            v.push(x("rx_program_tx".into(), sum(|p| &p.tx)));
            v.push(x("rx_program_redirect".into(), sum(|p| &p.redirect)));
            v.push(x("rx_program_aborted".into(), sum(|p| &p.aborted)));
        }
        if !self.software().is_empty() {
            let sum = |of: fn(&StageBooks) -> &Counter| {
                self.rx.iter().flatten().map(|s| of(&s.books.stage).get()).sum()
            };
            v.push(x("rx_filtered_packets".into(), sum(|b| &b.filtered)));
            v.push(x("rx_flow_drop_packets".into(), sum(|b| &b.dropped)));
            v.push(x("rx_malformed_packets".into(), sum(|b| &b.malformed)));
        }
        v.extend(self.driver.xstats());
        v
    }

    /// All counters by name: DPDK's names for what DPDK has, then the queues', then the driver's own.
    pub fn xstats(&self) -> Vec<Xstat> {
        let mut v = basic_xstats(&self.stats());
        v.extend(self.raw_xstats().into_iter().map(|x| {
            let before = self.xbaseline.get(&x.name).copied().unwrap_or(0);
            Xstat { value: x.value.saturating_sub(before), ..x }
        }));
        v
    }

    /// Lets all counters begin at 0 from here on.
    pub fn reset_stats(&mut self) {
        self.baseline = self.raw_stats();
        self.xbaseline = self.raw_xstats().into_iter().map(|x| (x.name, x.value)).collect();
    }

    /// Packets that wait in a receive queue which is home, if the driver can tell.
    pub fn rx_pending(&self, queue: QueueId) -> Option<usize> {
        let slot = self.rx.get(queue.index())?.as_ref()?;
        at_home(&slot.home).as_ref()?.pending()
    }
}
