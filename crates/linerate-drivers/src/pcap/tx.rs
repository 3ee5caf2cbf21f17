//! The transmit queues: one writes a capture, one drops.

use linerate_mbuf::{Burst, Mbuf, Packet, Segments, SharedMbuf};
use linerate_mem::Clock;
use linerate_port::{EventSink, PortError, QueueId, TxContext, TxDriver, stats::SharedTx};
use std::{
    cell::Cell,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use super::error::FileError;
use super::format::{CaptureWriter, PcapError, TimeBase, WriterOptions};
use super::output::Output;

/// What both kinds of packet are to a writer.
pub(super) trait Bytes {
    fn total(&self) -> u32;
    fn pieces(&self) -> Segments<'_>;
}

impl Bytes for Mbuf {
    #[inline(always)]
    fn total(&self) -> u32 {
        self.len()
    }
    #[inline(always)]
    fn pieces(&self) -> Segments<'_> {
        self.segments()
    }
}

impl Bytes for SharedMbuf {
    #[inline(always)]
    fn total(&self) -> u32 {
        self.len()
    }
    #[inline(always)]
    fn pieces(&self) -> Segments<'_> {
        self.segments()
    }
}

/// Frees what it is given, and counts it as sent.
#[derive(Debug)]
pub(super) struct DropTx {
    counters: SharedTx,
}

impl DropTx {
    pub(super) fn new(context: TxContext) -> Self {
        DropTx { counters: context.counters }
    }

    #[inline(always)]
    fn drop_all<P: Packet + Bytes>(&mut self, burst: &mut Burst<P>) -> usize {
        let n = burst.len();
        let bytes: u64 = burst.as_slice().iter().map(|p| u64::from(p.total())).sum();
        burst.free_all();
        self.counters.packets.add(n as u64);
        self.counters.bytes.add(bytes);
        n
    }
}

impl TxDriver for DropTx {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn stop(&mut self) {}

    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.drop_all(burst)
    }

    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        self.drop_all(burst)
    }
}

/// Writes what it is given into a file, each packet with the time at which it was given.
#[derive(Debug)]
pub(super) struct FileTx {
    counters: SharedTx,
    clock: Clock,
    events: EventSink,
    queue: QueueId,
    path: PathBuf,
    options: WriterOptions,
    /// The file until the first start.
    file: Option<Output>,
    writer: Option<CaptureWriter<Output>>,
    times: TimeBase,
    running: bool,
    /// Somebody polls this queue, or did.
    taken: Cell<bool>,
    /// The last write failed and that was told.
    failing: bool,
    /// Bytes that were in the file then.
    failed_at: u64,
    /// Packets that were counted as sent, could not be written, and were counted as errors for that.
    stuck: u64,
}

impl FileTx {
    pub(super) fn new(
        context: TxContext,
        events: EventSink,
        path: PathBuf,
        options: WriterOptions,
        file: Output,
    ) -> Self {
        let (counters, clock, queue) = (context.counters, context.clock, context.queue);
        let times = time_base(&clock);
        let (file, writer) = (Some(file), None);
        FileTx {
            counters,
            clock,
            events,
            queue,
            path,
            options,
            file,
            writer,
            times,
            running: false,
            taken: Cell::new(false),
            failing: false,
            failed_at: 0,
            stuck: 0,
        }
    }

    #[inline(always)]
    fn write_all<P: Packet + Bytes>(&mut self, burst: &mut Burst<P>) -> usize {
        let (mut bytes, mut sent) = (0, 0u64);
        let n = burst.len();
        let Some(writer) = &mut self.writer else { return 0 };
        let mut failure = None;
        for p in burst.as_slice() {
            let now = self.times.ns_at(self.clock.now_cycles());
            match writer.write_record(now, p.total(), p.pieces()) {
                Ok(()) => {
                    bytes += u64::from(p.total());
                    sent += 1;
                }
                Err(e) => failure = Some(e),
            }
        }
        burst.free_all();
        self.counters.packets.add(sent);
        self.counters.bytes.add(bytes);
        self.settle(n as u64 - sent, failure);
        n
    }

    /// Counts what could not be written, and tells of it once until writing works again.
    #[inline(always)]
    fn settle(&mut self, lost: u64, failure: Option<PcapError>) {
        match failure {
            None if self.failing => self.recover(),
            None => {}
            Some(e) => self.fail(lost, e),
        }
    }

    /// A packet that only the buffer took proves nothing: writing works again when more bytes are in the file.
    #[cold]
    #[inline(never)]
    fn recover(&mut self) {
        self.failing = self.writer.as_ref().is_some_and(|w| w.written() <= self.failed_at);
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, lost: u64, e: PcapError) {
        self.counters.errors.add(lost);
        self.failed_at = self.writer.as_ref().map_or(0, CaptureWriter::written);
        if !std::mem::replace(&mut self.failing, true) {
            let e = FileError::new(&self.path, e);
            self.events.queue_error("tx", self.queue, format!("{e}; {}", e.hint()));
        }
    }
}

/// The present, as nanoseconds since 1970 of this clock's cycles. A virtual clock begins in 1970, so that a run
/// in virtual time writes the same file each time.
fn time_base(clock: &Clock) -> TimeBase {
    let cycles = clock.now_cycles();
    let start_ns = match clock {
        Clock::Real(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
        }
        Clock::Virtual(_) => clock.now_ns(),
    };
    TimeBase::new(clock.scale(), cycles, start_ns)
}

impl TxDriver for FileTx {
    fn start(&mut self) -> Result<(), PortError> {
        self.times = time_base(&self.clock);
        if let Some(file) = self.file.take() {
            // Into the buffer only: the file is emptied by the first write.
            let writer = CaptureWriter::new(file, &self.options);
            self.writer = Some(writer.map_err(|e| FileError::new(&self.path, e).at(self.events.port()))?);
        }
        self.running = true;
        Ok(())
    }

    fn stop(&mut self) {
        self.running = false;
        let Some(writer) = &mut self.writer else { return };
        if writer.records() == 0 && !self.taken.get() && writer.sink().is_some_and(Output::is_old) {
            // Nobody polled this queue: the run ended before it began, and an old capture stays.
            return;
        }
        if let Err(e) = writer.flush() {
            let stuck = match &e {
                PcapError::Write { unwritten, .. } => *unwritten,
                _ => 0,
            };
            // They stay buffered: what a former stop has counted is not counted again.
            let lost = stuck.saturating_sub(std::mem::replace(&mut self.stuck, stuck));
            self.fail(lost, e);
        }
    }

    /// Nothing is to be done then; whoever polls asks that before the first turn.
    fn has_end_of_poll(&self) -> bool {
        self.taken.set(true);
        false
    }

    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.write_all(burst)
    }

    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        self.write_all(burst)
    }
}

impl Drop for FileTx {
    /// What could not be written was counted and told; the writer's own end would tell it again.
    fn drop(&mut self) {
        if self.running {
            self.stop();
        }
        match self.writer.take() {
            Some(writer) if self.failing => drop(writer.finish()),
            Some(writer) => writer.abandon(),
            None => {}
        }
    }
}
