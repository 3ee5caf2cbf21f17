//! The forwarding loop: one stream's turn, and a core that takes its streams round and round.
//!
//! Made once for each mode, so that the mode's work stands inside the loop and only receive and transmit are
//! called through a pointer, once a burst. What it counts are plain numbers of its own thread; who looks on
//! while it runs reads the counters of the ports, and the few that are shared here are written when something
//! is lost.

use super::{histogram::Histogram, tester::Tester};
use crossbeam_utils::CachePadded;
use linerate_mbuf::Burst;
use linerate_mem::{ThreadTime, cycles_between, rdtsc};
use linerate_port::{RxQueue, TxQueue, stats::Counter};
use std::{
    hint,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// What a mode does with the packets of one burst.
pub(super) trait Mode: Send + 'static {
    /// Whether it receives; one that does not makes packets.
    const RECEIVES: bool = true;
    /// Whether it sends; one that does not leaves nothing in the burst.
    const SENDS: bool = true;

    /// Whether it makes packets beside receiving some: then it works also when none came.
    const MAKES: bool = false;
    /// Whether it may keep packets beyond their burst.
    const HOLDS: bool = false;

    /// Changes the packets of a burst, frees them, or puts up to `max` into an empty one.
    fn work(&mut self, burst: &mut Burst, max: usize);

    /// Told how many of the burst's last packets were not taken by the port and are freed.
    #[cold]
    fn unsent(&mut self, _count: usize) {}

    /// When nothing came: puts up to `max` of the packets that it keeps for too long into an empty burst; `all` = any.
    fn release(&mut self, _burst: &mut Burst, _max: usize, _all: bool) {}

    /// How many packets are to be sent; it and the next two differ for a mode that keeps them elsewhere.
    #[inline(always)]
    fn waiting(&self, burst: &Burst) -> usize {
        burst.len()
    }

    /// Sends them from the front; how many were taken.
    #[inline(always)]
    fn send(&mut self, tx: &mut TxQueue, burst: &mut Burst) -> usize {
        tx.tx_burst(burst)
    }

    /// Frees those that were not taken.
    fn give_up(&mut self, burst: &mut Burst) {
        burst.free_all();
    }

    /// Packets with bad checksums, for modes that count them.
    fn bad_checksums(&self) -> Option<BadChecksums> {
        None
    }
}

/// Packets that their port flagged as having bad checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BadChecksums {
    pub ip: u64,
    pub l4: u64,
    pub outer_ip: u64,
    pub outer_l4: u64,
}

impl BadChecksums {
    /// Adds another count.
    pub fn add(&mut self, other: &BadChecksums) {
        self.ip += other.ip;
        self.l4 += other.l4;
        self.outer_ip += other.outer_ip;
        self.outer_l4 += other.outer_l4;
    }
}

/// What all streams of a run have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Most packets of a burst, 1 or more.
    pub burst: usize,
    /// How often the unsent rest of a burst is offered again; 0 = never.
    pub retries: u32,
    /// Cycles between two offers.
    pub retry_cycles: u64,
    /// Charge cycles to the calls that did work.
    pub record_cycles: bool,
    /// Count the sizes of bursts.
    pub record_bursts: bool,
}

impl Settings {
    /// Whether anything is recorded: then the loop is another one.
    fn records(&self) -> bool {
        self.record_cycles || self.record_bursts
    }
}

/// How far a run is: read by all threads at each round, written by the one that runs the program.
#[derive(Debug)]
pub(super) struct Phase(CachePadded<AtomicU8>);

impl Phase {
    /// Packets are made and forwarded.
    pub const RUN: u8 = 0;
    /// Nothing new is made; what is on its way arrives.
    pub const DRAIN: u8 = 1;
    /// The end.
    pub const STOP: u8 = 2;

    pub fn new() -> Self {
        Phase(CachePadded::new(AtomicU8::new(Phase::RUN)))
    }

    /// A hint only: whoever sees it late does some rounds more. What threads hand over goes by their join.
    #[inline(always)]
    pub fn get(&self) -> u8 {
        self.0.load(Relaxed)
    }

    pub fn set(&self, phase: u8) {
        self.0.store(phase, Relaxed);
    }
}

/// What a stream tells while it runs: written when something is lost or nothing comes, so it costs nothing
/// otherwise.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Packets that the transmit port did not take.
    pub dropped: Counter,
    /// 1 when its input has ended.
    pub ended: Counter,
    /// 1 when one of its queues is stopped.
    pub stopped: Counter,
    /// Rounds of its core in which its queues ran, counted now and then; [`ENDED`] when there will be no more.
    pub turns: Counter,
}

/// The turns of a stream whose core has ended.
pub(super) const ENDED: u64 = 1 << 63;

/// What a stream has counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Packets received.
    pub rx: u64,
    /// Packets sent.
    pub tx: u64,
    /// Packets made by the mode, or received and not freed by it: what was handed to transmit.
    pub offered: u64,
    /// Packets that the port did not take.
    pub dropped: u64,
    /// Cycles of calls that did work.
    pub busy_cycles: u64,
    /// Cycles of all calls.
    pub all_cycles: u64,
}

/// A receive queue, a transmit queue, and what is done between them.
pub(super) struct Stream<M> {
    pub rx: RxQueue,
    pub tx: TxQueue,
    pub mode: M,
    pub counts: Counts,
    pub shown: Arc<CachePadded<Shown>>,
    /// Where this stream stands in the layout.
    pub number: usize,
    pub rx_bursts: Histogram,
    pub tx_bursts: Histogram,
    /// How far the run is: whoever waits looks whether it still may.
    pub phase: Arc<Phase>,
    ended: bool,
    end_of_poll: bool,
    /// Nothing new is made any more.
    draining: bool,
}

impl<M: Mode> Stream<M> {
    pub fn new(number: usize, rx: RxQueue, mut tx: TxQueue, mode: M) -> Self {
        let end_of_poll = tx.has_end_of_poll();
        let (rx_bursts, tx_bursts) = (Histogram::new(), Histogram::new());
        let (counts, shown, phase) = (Counts::default(), Arc::default(), Arc::new(Phase::new()));
        Stream {
            rx,
            tx,
            mode,
            counts,
            shown,
            number,
            rx_bursts,
            tx_bursts,
            phase,
            ended: false,
            end_of_poll,
            draining: false,
        }
    }

    /// One turn; whether there was something to do.
    #[inline(always)]
    fn turn<const REC: bool>(&mut self, burst: &mut Burst, s: &Settings) -> bool {
        let mut came = true;
        if M::SENDS && !self.tx.is_running() {
            return self.stopped(burst);
        }
        if M::RECEIVES {
            let got = self.rx.rx_burst(burst, s.burst);
            if REC && s.record_bursts {
                self.rx_bursts.count(got);
            }
            if M::MAKES && !self.rx.is_running() {
                return self.stopped(burst);
            }
            if got == 0 && !M::MAKES {
                if M::HOLDS {
                    self.mode.release(burst, s.burst, self.draining);
                }
                if !M::HOLDS || burst.is_empty() {
                    if self.end_of_poll {
                        self.tx.end_of_poll();
                    }
                    return false;
                }
                came = false;
            }
            self.counts.rx += got as u64;
        }
        if came {
            self.mode.work(burst, s.burst);
        }
        if M::SENDS {
            let offered = self.mode.waiting(burst);
            if !M::RECEIVES && offered == 0 {
                return false;
            }
            let mut sent = self.mode.send(&mut self.tx, burst);
            if sent != offered {
                let Stream { mode, tx, counts, shown, phase, .. } = self;
                let stop = || phase.get() == Phase::STOP;
                sent += rest(mode, tx, burst, s, (counts, shown, &stop));
            }
            self.counts.offered += offered as u64;
            self.counts.tx += sent as u64;
            if REC && s.record_bursts {
                self.tx_bursts.count(sent);
            }
            if self.end_of_poll {
                self.tx.end_of_poll();
            }
        }
        true
    }

    /// Sends what the mode still keeps when the run ends.
    #[cold]
    #[inline(never)]
    fn finish(&mut self, burst: &mut Burst, s: &Settings) {
        loop {
            self.mode.release(burst, s.burst, true);
            let offered = burst.len();
            if offered == 0 {
                return;
            }
            let mut sent = self.tx.tx_burst(burst);
            if sent != offered {
                let Stream { mode, tx, counts, shown, phase, .. } = self;
                let stop = || phase.get() == Phase::STOP;
                sent += rest(mode, tx, burst, s, (counts, shown, &stop));
            }
            self.counts.offered += offered as u64;
            self.counts.tx += sent as u64;
            self.tx.end_of_poll();
        }
    }

    /// A stream whose transmit queue is stopped is passed over; empty calls carry out what its port asks of it.
    #[cold]
    #[inline(never)]
    fn stopped(&mut self, burst: &mut Burst) -> bool {
        self.tx.tx_burst(burst);
        self.rx.rx_burst(burst, 0);
        false
    }

    /// Whether its input has ended; asked now and then.
    #[cold]
    #[inline(never)]
    fn has_ended(&mut self) -> bool {
        self.ended = self.ended || M::RECEIVES && !M::MAKES && self.rx.is_exhausted();
        let stopped = M::RECEIVES && !self.rx.is_running() || M::SENDS && !self.tx.is_running();
        self.shown.ended.set(self.ended.into());
        self.shown.stopped.set(stopped.into());
        self.ended
    }

    /// Tells the tester that its core takes turns, and whether this stream has its part of them.
    fn show_turns(&self, turns: u64) {
        let runs = (!M::RECEIVES || self.rx.is_running()) && (!M::SENDS || self.tx.is_running());
        self.shown.stopped.set((!runs).into());
        if runs {
            self.shown.turns.add(turns);
        }
    }

    /// Sends `bursts` bursts of packets made by `maker` before forwarding begins (`--tx-first`), or fewer when
    /// `stop` says that the run is to end.
    pub fn send_first(&mut self, maker: &mut impl Mode, bursts: u32, s: &Settings, stop: &dyn Fn() -> bool) {
        let mut burst = Burst::new();
        for _ in 0..bursts {
            if stop() {
                return;
            }
            maker.work(&mut burst, s.burst);
            let offered = burst.len();
            let mut sent = self.tx.tx_burst(&mut burst);
            if sent != offered {
                let Stream { tx, counts, shown, .. } = self;
                sent += rest(maker, tx, &mut burst, s, (counts, shown, stop));
            }
            self.counts.offered += offered as u64;
            self.counts.tx += sent as u64;
            self.tx.end_of_poll();
        }
    }
}

/// How long packets are offered again when the run is to end.
const GRACE: Duration = Duration::from_millis(10);

/// Offers the rest of what `mode` sends again if that is wanted, and drops what is left; packets sent. When `stop`
/// says that the run is to end it goes on for no longer than [`GRACE`], whatever the delay between two offers.
#[cold]
#[inline(never)]
fn rest<M: Mode>(
    mode: &mut M,
    tx: &mut TxQueue,
    burst: &mut Burst,
    s: &Settings,
    (counts, shown, stop): (&mut Counts, &Shown, &dyn Fn() -> bool),
) -> usize {
    let mut sent = 0;
    let begun = (s.retries > 0).then(Instant::now);
    let over = || stop() && begun.is_some_and(|b| b.elapsed() > GRACE);
    for _ in 0..s.retries {
        let from = rdtsc();
        while cycles_between(from, rdtsc()) < s.retry_cycles && !over() {
            hint::spin_loop();
        }
        sent += mode.send(tx, burst);
        if mode.waiting(burst) == 0 {
            return sent;
        }
        if over() {
            break;
        }
    }
    let left = mode.waiting(burst);
    mode.unsent(left);
    mode.give_up(burst);
    counts.dropped += left as u64;
    shown.dropped.set(counts.dropped);
    sent
}

/// How a core's run went.
#[derive(Clone, Debug, Default)]
pub(super) struct CoreRun {
    /// Its thread's time over the whole loop.
    pub time: ThreadTime,
    /// Cycles from the first round to the last that counts for the rate: to the end of the run, or of its inputs.
    pub cycles: u64,
    /// Packets received in these cycles.
    pub rx: u64,
    /// Packets sent in these cycles.
    pub tx: u64,
    /// Cycles of the whole loop.
    pub loop_cycles: u64,
}

/// A core's work: its streams and, when there is no other core for it, the tester.
pub(super) struct Core<M> {
    pub streams: Vec<Stream<M>>,
    pub tester: Option<Tester>,
}

/// Rounds between two looks at whether the inputs have ended.
const LOOK: u32 = 64;

impl<M: Mode> Core<M> {
    /// Forwards until the phase is [`Phase::STOP`], or all inputs have ended. Both records and the rate's figures
    /// are taken on the calling thread.
    pub fn run(&mut self, settings: &Settings, phase: &Phase) -> CoreRun {
        if settings.records() {
            self.run_as::<true>(settings, phase)
        } else {
            self.run_as::<false>(settings, phase)
        }
    }

    fn run_as<const REC: bool>(&mut self, settings: &Settings, phase: &Phase) -> CoreRun {
        let mut burst = Burst::new();
        let (before, start) = (ThreadTime::now(), rdtsc());
        let (rx, tx) = self.moved();
        self.rounds::<REC>(&mut burst, settings, phase, Phase::RUN);
        let cycles = cycles_between(start, rdtsc());
        let (rx_now, tx_now) = self.moved();
        self.streams.iter_mut().for_each(|s| s.draining = true);
        self.rounds::<REC>(&mut burst, settings, phase, Phase::DRAIN);
        if M::HOLDS {
            self.streams.iter_mut().for_each(|s| s.finish(&mut burst, settings));
        }
        self.streams.iter().for_each(|s| s.shown.turns.set(ENDED));
        let loop_cycles = cycles_between(start, rdtsc());
        let time = ThreadTime::now().since(&before);
        CoreRun { time, cycles, rx: rx_now - rx, tx: tx_now - tx, loop_cycles }
    }

    fn moved(&self) -> (u64, u64) {
        self.streams.iter().fold((0, 0), |(rx, tx), s| (rx + s.counts.rx, tx + s.counts.tx))
    }

    /// Takes all streams round and round while the phase is `now` and an input has not ended.
    #[inline(never)]
    fn rounds<const REC: bool>(&mut self, burst: &mut Burst, s: &Settings, phase: &Phase, now: u8) {
        // What makes packets makes none any more while the rest drains.
        let forwards = M::RECEIVES && !M::MAKES || now == Phase::RUN;
        let mut last = rdtsc();
        let (mut looks, mut shows) = (LOOK, LOOK);
        while phase.get() == now {
            let mut worked = false;
            if forwards {
                for stream in &mut self.streams {
                    let did = stream.turn::<REC>(burst, s);
                    worked |= did;
                    if REC && s.record_cycles {
                        // One reading a turn: where one call ends the next begins.
                        let here = rdtsc();
                        let took = cycles_between(last, here);
                        stream.counts.all_cycles += took;
                        if did {
                            stream.counts.busy_cycles += took;
                        }
                        last = here;
                    }
                }
            } else if self.tester.is_none() {
                hint::spin_loop();
            }
            if let Some(tester) = &mut self.tester {
                tester.turn(now);
                if REC {
                    last = rdtsc();
                }
            }
            shows -= 1;
            if shows == 0 {
                shows = LOOK;
                self.show_turns();
            }
            if !worked {
                looks -= 1;
                if looks == 0 {
                    looks = LOOK;
                    if self.all_ended() {
                        return;
                    }
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn show_turns(&self) {
        self.streams.iter().for_each(|s| s.show_turns(LOOK.into()));
    }

    #[cold]
    #[inline(never)]
    fn all_ended(&mut self) -> bool {
        // Every stream is asked, so that each keeps its answer.
        self.streams.iter_mut().filter_map(|s| (!s.has_ended()).then_some(())).count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testpmd::modes::{io::Io, rxonly::RxOnly};
    use linerate_mbuf::Mempool;
    use linerate_mem::Clock;
    use linerate_port::{Port, PortConfig, PortId, QueueId, RxQueueConfig, TxQueueConfig};

    const SETTINGS: Settings =
        Settings { burst: 32, retries: 0, retry_cycles: 0, record_cycles: false, record_bursts: false };

    fn port(spec: &str, pool: &Mempool) -> Port {
        let mut port = linerate_drivers::open(&spec.parse().unwrap(), PortId(0), Clock::real()).unwrap();
        port.configure(PortConfig::default()).unwrap();
        port.rx_queue_setup(QueueId(0), RxQueueConfig::new(pool)).unwrap();
        port.tx_queue_setup(QueueId(0), TxQueueConfig::default()).unwrap();
        port.start().unwrap();
        port
    }

    fn stream<M: Mode>(rx: &mut Port, tx: &mut Port, mode: M) -> Stream<M> {
        Stream::new(0, rx.take_rx(QueueId(0)).unwrap(), tx.take_tx(QueueId(0)).unwrap(), mode)
    }

    #[test]
    fn what_is_received_is_sent_or_dropped_and_nothing_is_left() {
        let pool = Mempool::builder("engine", 4096).build().unwrap();
        let (mut from, mut to) = (port("null", &pool), port("ring:engine_full,size=100", &pool));
        let mut s = stream(&mut from, &mut to, Io);
        let mut burst = Burst::new();
        for _ in 0..10 {
            assert!(s.turn::<false>(&mut burst, &SETTINGS));
            assert!(burst.is_empty());
        }
        let c = &s.counts;
        assert_eq!((c.rx, c.offered, c.tx, c.dropped), (320, 320, 100, 220));
        assert_eq!(s.shown.dropped.get(), 220);
        assert_eq!(pool.counts().held, 100, "what waits in the ring");
        drop(s);
        to.stop().unwrap();
        assert_eq!(pool.counts().held, 0);
    }

    #[test]
    fn retries_are_bounded_and_only_the_rest_is_offered() {
        let pool = Mempool::builder("engine", 4096).build().unwrap();
        let (mut from, mut to) = (port("null", &pool), port("ring:engine_retry,size=40", &pool));
        let mut s = stream(&mut from, &mut to, Io);
        let settings = Settings { retries: 5, retry_cycles: 10, record_bursts: true, ..SETTINGS };
        let mut burst = Burst::new();
        assert!(s.turn::<true>(&mut burst, &settings) && s.turn::<true>(&mut burst, &settings));
        assert_eq!((s.counts.tx, s.counts.dropped), (40, 24));
        // One cell a burst, of what was taken of it in all.
        assert_eq!(s.tx_bursts.cells().collect::<Vec<_>>(), [(8, 1), (32, 1)]);
        assert_eq!(s.rx_bursts.cells().collect::<Vec<_>>(), [(32, 2)]);
    }

    #[test]
    fn a_wait_between_offers_ends_with_the_run() {
        let pool = Mempool::builder("engine", 4096).build().unwrap();
        let (mut from, mut to) = (port("null", &pool), port("ring:engine_wait,size=1", &pool));
        let mut s = stream(&mut from, &mut to, Io);
        let settings = Settings { retries: 65535, retry_cycles: u64::MAX, ..SETTINGS };
        let begun = Instant::now();
        let phase = s.phase.clone();
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            phase.set(Phase::STOP);
        });
        assert!(s.turn::<false>(&mut Burst::new(), &settings));
        stopper.join().unwrap();
        assert!(begun.elapsed() >= GRACE);
        assert_eq!((s.counts.tx, s.counts.dropped), (1, 31));
        // Nor do the packets that are sent before the run hold it up.
        s.send_first(&mut Io, 4, &settings, &|| true);
        assert_eq!(s.counts.offered, 32);
    }

    #[test]
    fn a_core_shows_its_turns_and_that_it_has_ended() {
        let pool = Mempool::builder("engine", 1024).build().unwrap();
        let (mut a, mut b) = (port("null:no-rx=1", &pool), port("null", &pool));
        let mut core = Core { streams: vec![stream(&mut a, &mut b, Io)], tester: None };
        core.show_turns();
        assert_eq!(core.streams[0].shown.turns.get(), 64);
        a.set_rx_queue_running(QueueId(0), false).unwrap();
        core.streams[0].turn::<false>(&mut Burst::new(), &SETTINGS);
        core.show_turns();
        let shown = &core.streams[0].shown;
        assert_eq!((shown.turns.get(), shown.stopped.get()), (64, 1));
        let phase = Phase::new();
        phase.set(Phase::STOP);
        core.run(&SETTINGS, &phase);
        assert_eq!(core.streams[0].shown.turns.get(), ENDED);
    }

    #[test]
    fn a_stream_with_a_stopped_queue_is_passed_over_and_comes_back() {
        let pool = Mempool::builder("engine", 4096).build().unwrap();
        let (mut from, mut to) = (port("null", &pool), port("null", &pool));
        let mut s = stream(&mut from, &mut to, Io);
        let mut burst = Burst::new();
        assert!(s.turn::<false>(&mut burst, &SETTINGS));
        to.set_tx_queue_running(QueueId(0), false).unwrap();
        assert!(!s.turn::<false>(&mut burst, &SETTINGS));
        assert!(!s.has_ended());
        assert_eq!((s.counts.rx, s.shown.stopped.get()), (32, 1));
        to.set_tx_queue_running(QueueId(0), true).unwrap();
        s.turn::<false>(&mut burst, &SETTINGS);
        assert!(s.turn::<false>(&mut burst, &SETTINGS), "the request is seen though nothing is sent");
        from.set_rx_queue_running(QueueId(0), false).unwrap();
        s.turn::<false>(&mut burst, &SETTINGS);
        assert!(!s.turn::<false>(&mut burst, &SETTINGS));
        // A mode that does not send does not look at the transmit queue.
        let (mut from, mut to) = (port("null", &pool), port("null", &pool));
        to.set_tx_queue_running(QueueId(0), false).unwrap();
        assert!(stream(&mut from, &mut to, RxOnly).turn::<false>(&mut burst, &SETTINGS));
    }

    #[test]
    fn a_core_runs_until_it_is_told_and_polls_are_all_in_the_histogram() {
        let pool = Mempool::builder("engine", 4096).build().unwrap();
        let (mut a, mut b) = (port("null", &pool), port("null:no-rx=1", &pool));
        let phase = Arc::new(Phase::new());
        let settings = Settings { record_cycles: true, record_bursts: true, ..SETTINGS };
        let mut core = Core { streams: vec![stream(&mut a, &mut b, Io)], tester: None };
        core.streams.push({
            let (rx, tx) = (b.take_rx(QueueId(0)).unwrap(), a.take_tx(QueueId(0)).unwrap());
            Stream::new(1, rx, tx, Io)
        });
        let stopper = std::thread::spawn({
            let phase = phase.clone();
            move || {
                std::thread::sleep(std::time::Duration::from_millis(20));
                phase.set(Phase::STOP);
            }
        });
        let run = core.run(&settings, &phase);
        stopper.join().unwrap();
        let [busy, idle] = [&core.streams[0], &core.streams[1]];
        assert_eq!(busy.rx_bursts.cells().collect::<Vec<_>>(), [(32, busy.counts.rx / 32)]);
        assert_eq!(idle.rx_bursts.cells().count(), 1, "empty polls only");
        assert_eq!(idle.rx_bursts.total(), busy.rx_bursts.total());
        assert!(busy.counts.busy_cycles > 0 && busy.counts.busy_cycles == busy.counts.all_cycles);
        assert_eq!(idle.counts.busy_cycles, 0, "idle polls are not charged");
        assert!(idle.counts.all_cycles > 0);
        assert_eq!((run.rx, run.tx), (busy.counts.rx, busy.counts.tx));
        assert!(run.cycles > 0 && run.loop_cycles >= run.cycles && run.time.wall_ns > 0);
    }

    #[test]
    fn a_core_whose_phase_is_over_does_nothing() {
        let pool = Mempool::builder("engine", 1024).build().unwrap();
        let (mut a, mut b) = (port("null", &pool), port("null", &pool));
        let phase = Phase::new();
        phase.set(Phase::STOP);
        let mut core = Core { streams: vec![stream(&mut a, &mut b, Io)], tester: None };
        let run = core.run(&SETTINGS, &phase);
        assert_eq!((run.rx, run.tx, core.streams[0].counts.rx), (0, 0, 0));
    }
}
