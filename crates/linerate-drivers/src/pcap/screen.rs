//! The program in the receive path: it sees frames before they have a packet buffer.

use linerate_port::{Frame, ProgramCounters, RxProgram, Verdict};
use std::{array, sync::Arc};

/// Frames shown at once.
pub(super) const SCREENED: usize = 32;
/// Bytes before and behind a frame that a program may use.
const MARGIN: usize = 256;

/// A program, and the memory in which it sees frames: a copy, since a replay shows the original again.
pub(super) struct Screen {
    program: Box<dyn RxProgram>,
    counters: Arc<ProgramCounters>,
    memory: Vec<u8>,
    /// Lengths of the frames that wait in `memory`, each behind a margin.
    lengths: Vec<usize>,
}

impl Screen {
    pub(super) fn new(program: Box<dyn RxProgram>, counters: Arc<ProgramCounters>) -> Self {
        Screen { program, counters, memory: Vec::new(), lengths: Vec::with_capacity(SCREENED) }
    }

    /// Whether no further frame fits before the next [`run`](Self::run).
    pub(super) fn is_full(&self) -> bool {
        self.lengths.len() == SCREENED
    }

    /// Adds a frame to those that are shown next.
    pub(super) fn add(&mut self, data: &[u8]) {
        self.memory.resize(self.memory.len() + MARGIN, 0);
        self.memory.extend_from_slice(data);
        self.memory.resize(self.memory.len() + MARGIN, 0);
        self.lengths.push(data.len());
    }

    /// Shows the frames to the program, gives each that passes to `pass` in order with its number among those
    /// that were added, and forgets them.
    pub(super) fn run(&mut self, mut pass: impl FnMut(usize, &[u8])) {
        let count = self.lengths.len().min(SCREENED);
        let mut rest = &mut self.memory[..];
        let mut lengths = self.lengths.iter();
        let mut frames: [Frame<'_>; SCREENED] = array::from_fn(|_| {
            let Some(&len) = lengths.next() else { return Frame::new(&mut [], 0, 0) };
            let (memory, behind) = std::mem::take(&mut rest).split_at_mut(len + 2 * MARGIN);
            rest = behind;
            Frame::new(memory, MARGIN, len)
        });
        let mut verdicts = [Verdict::Aborted; SCREENED];
        let (frames, verdicts) = (&mut frames[..count], &mut verdicts[..count]);
        self.program.run(frames, verdicts);
        for (n, (frame, verdict)) in frames.iter().zip(verdicts.iter()).enumerate() {
            if self.counters.count_pass_or_drop(*verdict) {
                pass(n, frame.data());
            }
        }
        self.memory.clear();
        self.lengths.clear();
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("waiting", &self.lengths.len()).finish_non_exhaustive()
    }
}
