//! The built-in tester: sends numbered frames into the far ends of the ports, and checks what comes back.
//!
//! ```text
//!   source 0 ─► far end of port 0 ─► port 0 ─ forwarder ─► port 1 ─► far end of port 1 ─► check 0
//!   source 1 ─► far end of port 1 ─► port 1 ─ forwarder ─► port 0 ─► far end of port 0 ─► check 1
//! ```
//! A source keeps a bounded number of frames on their way, fewer than a ring holds, so that a forwarder without
//! a fault loses none, on one core or on two. Loss is a gap in a stream's sequence, never a difference of
//! counters. At the end the sources stop first, then what is on its way arrives, then counts are read.

mod check;
mod frames;
pub(super) mod inject;
mod source;
mod track;
mod wire;

use check::Check;
use frames::{FrameMaker, Way};
use source::Source;
pub(super) use {source::WINDOW, wire::wire};

use super::engine::{ENDED, Phase, Shown};
use crossbeam_utils::CachePadded;
use linerate_mem::{CycleScale, cycles_between, rdtsc};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Nothing having come for so long, while the forwarder took [`QUIET_TURNS`], nothing more will.
const QUIET_NS: u64 = 100_000_000;
/// Rounds in which a forwarder empties a full ring, even packet by packet. A forwarder that is not scheduled takes
/// none, and what it has not got to yet is not lost, however long that lasts.
const QUIET_TURNS: u64 = 2048;

/// What the tester has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct TesterCounts {
    /// Frames that it wanted to send.
    pub offered: u64,
    /// Frames that the far ends took.
    pub sent: u64,
    /// Frames that came back, whatever they were.
    pub received: u64,
    /// Frames that were sent and did not come back.
    pub lost: u64,
    /// Frames that came back changed.
    pub corrupt: u64,
    /// Frames that came back after a later one.
    pub reordered: u64,
    /// Frames that came back again.
    pub duplicated: u64,
}

impl TesterCounts {
    /// What is wrong, in one line.
    pub fn fault(&self) -> Option<String> {
        let parts = [
            (self.lost, "lost"),
            (self.corrupt, "corrupt"),
            (self.reordered, "out of order"),
            (self.duplicated, "duplicated"),
        ];
        let said: Vec<_> = parts.iter().filter(|p| p.0 > 0).map(|(n, what)| format!("{n} {what}")).collect();
        let sent = self.sent;
        (!said.is_empty()).then(|| format!("frames {} (of {sent} sent)", said.join(", ")))
    }

    fn add(&mut self, other: &TesterCounts) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.received += other.received;
        self.lost += other.lost;
        self.corrupt += other.corrupt;
        self.reordered += other.reordered;
        self.duplicated += other.duplicated;
    }
}

/// One stream's source and check; modes that do not receive have no source, modes that do not send no check.
#[derive(Debug)]
struct Lane {
    source: Option<Source>,
    check: Option<Check>,
}

impl Lane {
    /// Frames on their way, as far as is known.
    fn outstanding(&self) -> u64 {
        match (&self.source, &self.check) {
            (Some(source), Some(check)) => source.next().saturating_sub(check.back()),
            (Some(source), None) => source.waiting(),
            _ => 0,
        }
    }
}

/// All streams' sources and checks.
#[derive(Debug)]
pub(super) struct Tester {
    lanes: Vec<Lane>,
    /// What the lanes' streams show: one for each, or none where the forwarder is not watched.
    shown: Vec<Arc<CachePadded<Shown>>>,
    /// The streams' turns when nothing came for the first time since something came.
    marks: Vec<u64>,
    scale: CycleScale,
    /// When something came last.
    last: u64,
    /// Something came, and `marks` are older.
    came: bool,
    /// Nothing seems to come any more; one more empty turn, begun after that was seen, makes it certain.
    sure: bool,
    /// Set when it has stopped and nothing more is on its way.
    done: Arc<AtomicBool>,
}

impl Tester {
    fn new(lanes: Vec<Lane>, scale: CycleScale) -> Self {
        let (shown, marks) = (Vec::new(), Vec::new());
        Tester { lanes, shown, marks, scale, last: rdtsc(), came: true, sure: false, done: Arc::default() }
    }

    /// Watches the turns of the streams, in the order of the lanes: what they have not got to yet is waited for.
    pub fn watch(&mut self, shown: Vec<Arc<CachePadded<Shown>>>) {
        self.shown = shown;
    }

    /// Whether a lane's forwarder has had its turns since nothing came; in `drain` one that is stopped has none to
    /// come.
    fn had_turns(&self, lane: usize, drain: bool) -> bool {
        let Some(shown) = self.shown.get(lane) else { return true };
        let turns = shown.turns.get();
        let since = turns.saturating_sub(self.marks.get(lane).copied().unwrap_or(turns));
        turns >= ENDED || since >= QUIET_TURNS || drain && shown.stopped.get() != 0
    }

    /// Set when the run drains and nothing more is on its way.
    pub fn done(&self) -> Arc<AtomicBool> {
        self.done.clone()
    }

    /// Runs on a core of its own until the phase is [`Phase::STOP`].
    pub fn run(&mut self, phase: &Phase) {
        loop {
            match phase.get() {
                Phase::STOP => return,
                now => self.turn(now),
            }
        }
    }

    /// What was counted; loss in modes without a check is not known here and is 0.
    pub fn counts(&self) -> TesterCounts {
        let mut sum = TesterCounts::default();
        for lane in &self.lanes {
            let mut counts = lane.check.as_ref().map(Check::counts).unwrap_or_default();
            if let Some(source) = &lane.source {
                (counts.offered, counts.sent) = (source.offered(), source.next());
                if let Some(check) = &lane.check {
                    counts.lost = counts.sent.saturating_sub(check.distinct() + counts.corrupt);
                }
            }
            sum.add(&counts);
        }
        sum
    }

    #[cold]
    #[inline(never)]
    fn idle(&mut self, phase: u8) {
        let outstanding: u64 = self.lanes.iter().map(Lane::outstanding).sum();
        let blind = self.lanes.iter().any(|l| l.source.is_none());
        if std::mem::take(&mut self.came) {
            self.marks.clear();
            self.marks.extend(self.shown.iter().map(|s| s.turns.get()));
            self.sure = false;
        }
        let late = self.scale.cycles_to_ns(cycles_between(self.last, rdtsc())) > QUIET_NS;
        let had = |n| self.had_turns(n, phase == Phase::DRAIN);
        let seems = late
            && if phase == Phase::DRAIN {
                (0..self.lanes.len()).all(had)
            } else {
                (0..self.lanes.len()).any(had)
            };
        let quiet = seems && std::mem::replace(&mut self.sure, seems);
        if phase == Phase::DRAIN && (quiet || outstanding == 0 && !blind && !self.holds()) {
            self.done.store(true, Relaxed);
        } else if phase == Phase::RUN && quiet {
            // Whatever is still out is lost; go on without it.
            for n in 0..self.lanes.len() {
                if self.had_turns(n, false)
                    && let Some(source) = &mut self.lanes[n].source
                {
                    source.give_up();
                }
            }
            (self.last, self.came) = (rdtsc(), true);
        }
    }

    fn holds(&self) -> bool {
        self.lanes.iter().any(|l| l.check.as_ref().is_some_and(Check::holds))
    }
}

impl Tester {
    /// A bounded piece of work: a burst sent and a burst judged on every stream.
    #[inline(never)]
    pub fn turn(&mut self, phase: u8) {
        let mut came = 0;
        for lane in &mut self.lanes {
            if phase == Phase::RUN
                && let Some(source) = &mut lane.source
            {
                source.turn(lane.check.as_ref().map(Check::back));
            }
            if let Some(check) = &mut lane.check {
                came += check.turn(phase != Phase::RUN);
            }
        }
        if came > 0 {
            (self.last, self.came) = (rdtsc(), true);
        } else {
            self.idle(phase);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testpmd::modes::ModeName;
    use linerate_drivers::ring::far_end;
    use linerate_mbuf::{Burst, Mbuf, Mempool};
    use linerate_mem::Clock;
    use linerate_net::{MacAddr, swap::mac_swap};
    use linerate_port::{PortConfig, PortId, QueueId, RxQueueConfig, TxQueueConfig};

    #[test]
    fn a_fault_is_told_in_one_line() {
        let good = TesterCounts { offered: 9, sent: 9, received: 9, ..Default::default() };
        assert_eq!(good.fault(), None);
        let bad = TesterCounts { lost: 2, duplicated: 1, ..good };
        assert_eq!(bad.fault().as_deref(), Some("frames 2 lost, 1 duplicated (of 9 sent)"));
    }

    /// Forwards a few thousand frames by `work`, which gets each with its number, and gives what the tester says.
    fn forwarded(
        name: &str,
        mode: ModeName,
        mut work: impl FnMut(u64, Mbuf, &mut Burst, &Mempool),
    ) -> TesterCounts {
        let pool = Mempool::builder(name, 4096).build().unwrap();
        let spec = format!("ring:{name},far=1").parse().unwrap();
        let mut port = linerate_drivers::open(&spec, PortId(0), Clock::real()).unwrap();
        port.configure(PortConfig::default()).unwrap();
        port.rx_queue_setup(QueueId(0), RxQueueConfig::new(&pool)).unwrap();
        port.tx_queue_setup(QueueId(0), TxQueueConfig::default()).unwrap();
        port.start().unwrap();
        let (mut rx, mut tx) = (port.take_rx(QueueId(0)).unwrap(), port.take_tx(QueueId(0)).unwrap());
        let (sender, receiver) = far_end(name, 0).unwrap();
        let mac = MacAddr::new(port.info().mac.0);
        let way =
            Way { stream: 0, tester: MacAddr::new([2; 6]), near: mac, out: mac, peer: MacAddr::peer(0) };
        let source = Source::new(sender, FrameMaker::sent(&way, mode, 100, 1).unwrap(), &pool);
        let check = Check::numbered(receiver, FrameMaker::expected(&way, mode, true, 100, 1).unwrap());
        let mut tester =
            Tester::new(vec![Lane { source: Some(source), check: Some(check) }], Clock::real().scale());
        let (mut seen, mut turns, done) = (0, 0, tester.done());
        while !done.load(Relaxed) {
            turns += 1;
            tester.turn(if turns < 400 { Phase::RUN } else { Phase::DRAIN });
            let (mut came, mut out) = (Burst::new(), Burst::new());
            rx.rx_burst(&mut came, 32);
            for m in came.drain() {
                work(seen, m, &mut out, &pool);
                seen += 1;
            }
            tx.tx_burst(&mut out);
        }
        let counts = tester.counts();
        drop((tester, rx, tx));
        port.stop().unwrap();
        assert_eq!(pool.counts().held, 0);
        assert!(counts.sent > 5000 && counts.sent == seen, "{counts:?}");
        counts
    }

    #[test]
    fn a_sound_forwarder_is_found_sound() {
        let c = forwarded("t_sound", ModeName::Macswap, |_, mut m, out, _| {
            mac_swap(m.data_mut());
            out.push(m).unwrap();
        });
        assert_eq!((c.fault(), c.received, c.offered), (None, c.sent, c.sent));
    }

    #[test]
    fn lost_changed_doubled_and_late_frames_are_each_counted() {
        let c = forwarded("t_lost", ModeName::Io, |n, m, out, _| {
            // In the middle, and the last ones.
            if n != 1000 && n < 5000 {
                out.push(m).unwrap();
            }
        });
        assert_eq!((c.lost, c.corrupt, c.received), (1 + c.sent - 5000, 0, 4999));
        let c = forwarded("t_changed", ModeName::Io, |n, mut m, out, _| {
            if n < 100 {
                m.data_mut()[n as usize] ^= 1;
            }
            out.push(m).unwrap();
        });
        assert_eq!((c.corrupt, c.lost, c.duplicated, c.reordered), (100, 0, 0, 0), "a bit of every byte");
        let c = forwarded("t_short", ModeName::Io, |n, mut m, out, _| {
            assert!(n != 7 || m.trim(1));
            out.push(m).unwrap();
        });
        assert_eq!((c.corrupt, c.lost), (1, 0));
        let c = forwarded("t_double", ModeName::Io, |n, m, out, pool| {
            let again = (n == 50).then(|| m.copy(pool, 0, u32::MAX).unwrap());
            out.push(m).unwrap();
            again.into_iter().for_each(|m| out.push(m).unwrap());
        });
        assert_eq!((c.duplicated, c.lost, c.corrupt), (1, 0, 0));
        let mut held = None;
        let c = forwarded("t_late", ModeName::Io, |n, m, out, _| {
            if n == 10 {
                held = Some(m);
                return;
            }
            out.push(m).unwrap();
            held.take().into_iter().for_each(|m| out.push(m).unwrap());
        });
        assert_eq!((c.reordered, c.lost, c.corrupt), (1, 0, 0));
    }

    // A forwarder that the machine does not let run has lost nothing.
    #[test]
    fn frames_are_given_up_only_when_the_forwarder_has_had_its_turns() {
        let pool = Mempool::builder("t_idle", 4096).build().unwrap();
        let spec = "ring:t_turns,far=1".parse().unwrap();
        let mut port = linerate_drivers::open(&spec, PortId(0), Clock::real()).unwrap();
        port.configure(PortConfig::default()).unwrap();
        port.rx_queue_setup(QueueId(0), RxQueueConfig::new(&pool)).unwrap();
        port.tx_queue_setup(QueueId(0), TxQueueConfig::default()).unwrap();
        port.start().unwrap();
        let (sender, receiver) = far_end("t_turns", 0).unwrap();
        let mac = MacAddr::new(port.info().mac.0);
        let way =
            Way { stream: 0, tester: MacAddr::new([2; 6]), near: mac, out: mac, peer: MacAddr::peer(0) };
        let source = Source::new(sender, FrameMaker::sent(&way, ModeName::Io, 64, 1).unwrap(), &pool);
        let check = Check::numbered(receiver, FrameMaker::expected(&way, ModeName::Io, true, 64, 1).unwrap());
        let mut tester =
            Tester::new(vec![Lane { source: Some(source), check: Some(check) }], Clock::real().scale());
        let (shown, done) = (Arc::<CachePadded<Shown>>::default(), tester.done());
        tester.watch(vec![shown.clone()]);
        let quiet = std::time::Duration::from_nanos(QUIET_NS + QUIET_NS / 10);
        let sent = |t: &Tester| t.counts().sent;
        (0..2000).for_each(|_| tester.turn(Phase::RUN));
        assert_eq!(sent(&tester), WINDOW);
        std::thread::sleep(quiet);
        (0..100).for_each(|_| tester.turn(Phase::RUN));
        assert_eq!(sent(&tester), WINDOW, "it has had no turn");
        shown.turns.set(QUIET_TURNS);
        (0..100).for_each(|_| tester.turn(Phase::RUN));
        assert_eq!(sent(&tester), 2 * WINDOW, "it has had its turns, and they are lost");
        std::thread::sleep(quiet);
        (0..100).for_each(|_| tester.turn(Phase::DRAIN));
        assert!(!done.load(Relaxed));
        shown.turns.set(2 * QUIET_TURNS);
        (0..2).for_each(|_| tester.turn(Phase::DRAIN));
        assert!(done.load(Relaxed));
        assert_eq!(tester.counts().lost, 2 * WINDOW);
        drop(tester);
        port.stop().unwrap();
    }

    #[test]
    fn a_mode_that_does_not_do_its_work_is_found_out() {
        for mode in [ModeName::Mac, ModeName::Macswap, ModeName::FiveTupleSwap, ModeName::Csum] {
            let c = forwarded("t_idle", mode, |_, m, out, _| out.push(m).unwrap());
            assert_eq!((c.corrupt, c.lost), (c.sent, 0), "{mode:?}");
        }
    }
}
