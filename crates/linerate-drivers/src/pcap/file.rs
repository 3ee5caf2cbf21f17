//! The receive queue that reads a capture once.

use linerate_mbuf::Burst;
use linerate_port::{
    EventSink, PortError, ProgramCounters, QueueId, RxContext, RxDriver, RxProgram,
    stats::{Counter, SharedRx},
};
use std::{path::PathBuf, sync::Arc};

use super::claim::Claim;
use super::error::FileError;
use super::fill::Buffers;
use super::format::{CaptureInput, CaptureReader};
use super::replay::shorten;
use super::screen::Screen;

/// Packets of a file, once, from its beginning at every start.
#[derive(Debug)]
pub(super) struct FileRx {
    buffers: Buffers,
    counters: SharedRx,
    program: Arc<ProgramCounters>,
    screen: Option<Screen>,
    events: EventSink,
    queue: QueueId,
    path: PathBuf,
    reader: CaptureReader<CaptureInput>,
    _claim: Arc<Claim>,
    too_long: Arc<Counter>,
    /// The end was reached, or something that cannot be read.
    ended: bool,
}

/// What a look at the file gave.
enum Next {
    /// A packet was copied, or is to be shown to the program.
    Packet,
    /// A packet that cannot be received; counted.
    Skipped,
    /// No more, or none yet.
    End,
}

impl FileRx {
    pub(super) fn new(
        context: RxContext,
        buffers: Buffers,
        events: EventSink,
        path: PathBuf,
        reader: CaptureReader<CaptureInput>,
        claim: Arc<Claim>,
        too_long: Arc<Counter>,
    ) -> Self {
        let (counters, program, queue) = (context.counters, context.program, context.queue);
        FileRx {
            buffers,
            counters,
            program,
            screen: None,
            events,
            queue,
            path,
            reader,
            _claim: claim,
            too_long,
            ended: false,
        }
    }

    /// Gives the next packet of the file to `give`, unless it cannot be received.
    #[inline(always)]
    fn next(&mut self, give: impl FnOnce(&Buffers, Option<&mut Screen>, &[u8], Option<u64>) -> bool) -> Next {
        match self.reader.next_record() {
            Ok(Some(r)) if r.data.is_empty() || r.data.len() > self.buffers.longest() => {
                self.counters.errors.add(1);
                self.too_long.add(u64::from(!r.data.is_empty()));
                Next::Skipped
            }
            Ok(Some(r)) => {
                if give(&self.buffers, self.screen.as_mut(), r.data, r.timestamp_ns) {
                    Next::Packet
                } else {
                    self.counters.nombuf.add(1);
                    Next::Skipped
                }
            }
            Ok(None) => {
                self.ended = true;
                Next::End
            }
            // A pipe with no whole packet in it: what is there stays, the next call looks again.
            Err(e) if e.is_would_block() => Next::End,
            Err(e) => {
                let e = FileError::new(&self.path, e);
                self.fail(&e);
                Next::End
            }
        }
    }

    /// Ends the queue with an error that is counted and told.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, e: &FileError) {
        self.ended = true;
        self.counters.errors.add(1);
        self.events.queue_error("rx", self.queue, format!("{e}; {}", e.hint()));
    }

    /// Shows up to `count` packets to the program, and copies those that pass; bytes and packets copied.
    #[cold]
    #[inline(never)]
    fn fill_screened(&mut self, burst: &mut Burst, start: usize, count: usize) -> (u64, usize) {
        let (mut bytes, mut filled, mut seen) = (0, 0, 0);
        let mut times = Vec::new();
        let mut more = true;
        while seen < count && more {
            while seen < count && self.screen.as_ref().is_some_and(|s| !s.is_full()) {
                let next = self.next(|_, screen, data, time| {
                    times.push(time);
                    screen.map(|s| s.add(data)).is_some()
                });
                match next {
                    Next::Packet => seen += 1,
                    Next::Skipped => {}
                    Next::End => {
                        more = false;
                        break;
                    }
                }
            }
            let Some(screen) = &mut self.screen else { break };
            screen.run(|n, data| {
                let time = times.get(n).copied().flatten();
                let slot = burst.as_mut_slice().get_mut(start + filled);
                if slot.is_some_and(|m| self.buffers.fill(m, data, time)) {
                    bytes += data.len() as u64;
                    filled += 1;
                } else {
                    self.counters.nombuf.add(1);
                }
            });
            times.clear();
        }
        (bytes, filled)
    }
}

impl RxDriver for FileRx {
    fn start(&mut self) -> Result<(), PortError> {
        // A pipe cannot be read twice: it goes on where it was.
        if self.reader.packets() > 0 && !self.reader.input().is_stream() && self.path.as_os_str() != "-" {
            self.reader = CaptureReader::open(&self.path)
                .map_err(|e| FileError::new(&self.path, e).at(self.events.port()))?;
            self.ended = false;
        }
        Ok(())
    }

    fn stop(&mut self) {}

    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        let (start, n) = (burst.len(), max.min(burst.room()));
        if self.ended || n == 0 {
            return 0;
        }
        // Buffers first: a packet that was read and has no buffer would be lost.
        let took = self.buffers.take(&self.buffers.template, burst, n);
        if took < n {
            self.counters.nombuf.add((n - took) as u64);
        }
        let (mut bytes, mut filled) = (0, 0);
        if self.screen.is_some() {
            (bytes, filled) = self.fill_screened(burst, start, took);
        } else {
            while let Some(m) = burst.as_mut_slice().get_mut(start + filled) {
                let next = self.next(|buffers, _, data, time| {
                    let filled = buffers.fill(m, data, time);
                    bytes += if filled { data.len() as u64 } else { 0 };
                    filled
                });
                match next {
                    Next::Packet => filled += 1,
                    Next::Skipped => {}
                    Next::End => break,
                }
            }
        }
        shorten(burst, start + filled);
        self.counters.packets.add(filled as u64);
        self.counters.bytes.add(bytes);
        filled
    }

    fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        self.screen = program.map(|p| Screen::new(p, self.program.clone()));
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        self.ended
    }
}

/// The receive queue of a port that only sends.
#[derive(Debug)]
pub(super) struct NoRx;

impl RxDriver for NoRx {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn stop(&mut self) {}

    fn rx_burst(&mut self, _burst: &mut Burst, _max: usize) -> usize {
        0
    }

    fn set_program(&mut self, _program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        // It is never asked.
        Ok(())
    }

    /// An input that there is not has ended: a run over files ends with the last real one.
    fn is_exhausted(&self) -> bool {
        true
    }
}
