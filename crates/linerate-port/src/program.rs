//! The slot in the receive path for a program that decides before a packet buffer is made.
//!
//! A driver shows the frames of one poll to the program at once, as they lie in receive memory, and makes
//! buffers only for those that pass. Verdicts follow the kernel's XDP.

use crate::stats::Counter;
use core::{fmt, marker::PhantomData, slice};
use std::sync::Arc;

/// What a program says about a frame. Numbers as in the kernel's `xdp_action`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// The program failed: dropped and counted as an exception.
    #[default]
    Aborted = 0,
    /// Dropped.
    Drop = 1,
    /// On to the application.
    Pass = 2,
    /// Back out of the port it came in by.
    Tx = 3,
    /// Out of another port.
    Redirect = 4,
}

/// One frame in receive memory, which the program may read, write, and move within its room.
pub struct Frame<'a> {
    base: *mut u8,
    room: u32,
    start: u32,
    len: u32,
    _memory: PhantomData<&'a mut [u8]>,
}

/// Least length to which a program may cut a frame: an Ethernet header.
pub const MIN_FRAME: u32 = 14;

impl<'a> Frame<'a> {
    /// A frame of `len` bytes at `start` in `memory`: what is before and behind it is head- and tailroom.
    ///
    /// # Panics
    ///
    /// If it does not lie within the memory.
    #[inline]
    pub fn new(memory: &'a mut [u8], start: usize, len: usize) -> Self {
        assert!(start <= memory.len() && len <= memory.len() - start && memory.len() <= u32::MAX as usize);
        let (base, room) = (memory.as_mut_ptr(), memory.len() as u32);
        Frame { base, room, start: start as u32, len: len as u32, _memory: PhantomData }
    }

    /// The frame's bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: start + len <= room, kept by every method; the memory is borrowed for 'a.
        unsafe { slice::from_raw_parts(self.base.add(self.start as usize), self.len as usize) }
    }

    /// The frame's bytes, to be changed.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `data`, and borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.base.add(self.start as usize), self.len as usize) }
    }

    /// Where the frame starts in its memory.
    #[inline]
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// Moves the start by `delta` bytes (negative = longer); false, and no change, outside the headroom or if
    /// less than an Ethernet header would be left.
    #[inline]
    #[must_use]
    pub fn adjust_head(&mut self, delta: i32) -> bool {
        let (start, len) = (i64::from(self.start) + i64::from(delta), i64::from(self.len) - i64::from(delta));
        if start < 0 || len < MIN_FRAME.into() {
            return false;
        }
        self.start = start as u32;
        self.len = len as u32;
        true
    }

    /// Moves the end by `delta` bytes (positive = longer); false, and no change, outside the tailroom or if
    /// less than an Ethernet header would be left.
    #[inline]
    #[must_use]
    pub fn adjust_tail(&mut self, delta: i32) -> bool {
        let len = i64::from(self.len) + i64::from(delta);
        if len < MIN_FRAME.into() || i64::from(self.start) + len > self.room.into() {
            return false;
        }
        self.len = len as u32;
        true
    }
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("start", &self.start).field("len", &self.len).finish_non_exhaustive()
    }
}

/// A program in the receive path. Called once a poll, with all frames of it.
pub trait RxProgram: Send {
    /// Decides about every frame: `verdicts[i]` is that of `frames[i]`; both have the same length.
    fn run(&mut self, frames: &mut [Frame<'_>], verdicts: &mut [Verdict]);
}

impl<F: FnMut(&mut Frame<'_>) -> Verdict + Send> RxProgram for F {
    fn run(&mut self, frames: &mut [Frame<'_>], verdicts: &mut [Verdict]) {
        for (f, v) in frames.iter_mut().zip(verdicts) {
            *v = self(f);
        }
    }
}

/// What became of the frames that a program saw.
#[derive(Debug, Default)]
pub struct ProgramCounters {
    /// Went on to the application.
    pub pass: Counter,
    /// Dropped by the program.
    pub drop: Counter,
    /// Sent back out.
    pub tx: Counter,
    /// Sent out of another port.
    pub redirect: Counter,
    /// Failed programs, and verdicts that this port cannot carry out: dropped.
    pub aborted: Counter,
}

impl ProgramCounters {
    /// Counts one verdict of a port that has no transmit path for programs, and says whether the frame passes.
    #[inline]
    pub fn count_pass_or_drop(&self, v: Verdict) -> bool {
        match v {
            Verdict::Pass => self.pass.add(1),
            Verdict::Drop => self.drop.add(1),
            Verdict::Aborted | Verdict::Tx | Verdict::Redirect => self.aborted.add(1),
        }
        v == Verdict::Pass
    }
}

/// Bytes in front of a frame that a program may grow into.
pub const PROGRAM_HEADROOM: usize = 256;
/// Bytes behind a frame that a program may grow into.
pub const PROGRAM_TAILROOM: usize = 64;
/// Most frames shown to a program at once.
const STAGE_FRAMES: usize = 64;

/// The program slot of a driver whose device has no receive memory of its own: frames are laid out in an arena
/// with head- and tailroom, shown to the program together, and those that pass are handed on.
#[derive(Default)]
pub struct SoftStage {
    program: Option<Box<dyn RxProgram>>,
    counters: Arc<ProgramCounters>,
    arena: Vec<u8>,
}

impl SoftStage {
    /// A stage without a program.
    pub fn new(counters: Arc<ProgramCounters>) -> Self {
        SoftStage { program: None, counters, arena: Vec::new() }
    }

    /// Puts a program in, or takes it out.
    pub fn set(&mut self, program: Option<Box<dyn RxProgram>>) {
        self.program = program;
    }

    /// Whether there is a program; without one a driver goes its direct way.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.program.is_some()
    }

    /// Shows the program the frames and calls `pass` with the number and bytes of each that passes, in order;
    /// the others are counted. Without a program all pass.
    pub fn run<'a>(
        &mut self,
        frames: impl IntoIterator<Item = &'a [u8]>,
        mut pass: impl FnMut(usize, &[u8]),
    ) {
        let mut all = frames.into_iter().enumerate().peekable();
        let Some(program) = self.program.as_deref_mut() else {
            return all.for_each(|(i, f)| pass(i, f));
        };
        while all.peek().is_some() {
            let batch: Vec<_> = all.by_ref().take(STAGE_FRAMES).collect();
            let room = |f: &[u8]| PROGRAM_HEADROOM + f.len() + PROGRAM_TAILROOM;
            self.arena.clear();
            self.arena.resize(batch.iter().map(|(_, f)| room(f)).sum(), 0);
            let mut rest = self.arena.as_mut_slice();
            let mut shown = Vec::with_capacity(batch.len());
            for (_, f) in &batch {
                let (mine, after) = rest.split_at_mut(room(f));
                mine[PROGRAM_HEADROOM..][..f.len()].copy_from_slice(f);
                shown.push(Frame::new(mine, PROGRAM_HEADROOM, f.len()));
                rest = after;
            }
            let mut verdicts = vec![Verdict::Aborted; batch.len()];
            program.run(&mut shown, &mut verdicts);
            for (((i, _), frame), verdict) in batch.iter().zip(&shown).zip(verdicts) {
                if self.counters.count_pass_or_drop(verdict) {
                    pass(*i, frame.data());
                }
            }
        }
    }
}

impl fmt::Debug for SoftStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoftStage").field("program", &self.is_set()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_stays_within_its_room() {
        let mut memory = [0u8; 100];
        let mut f = Frame::new(&mut memory, 20, 40);
        assert!(!f.adjust_head(-21));
        assert!(f.adjust_head(-20));
        assert_eq!((f.start(), f.data().len()), (0, 60));
        assert!(!f.adjust_head(47));
        assert!(f.adjust_head(46));
        assert_eq!(f.data().len(), 14);
        assert!(!f.adjust_tail(-1));
        assert!(!f.adjust_tail(41));
        assert!(f.adjust_tail(40));
        assert!(!f.adjust_tail(i32::MIN) && !f.adjust_head(i32::MIN) && !f.adjust_head(i32::MAX));
        f.data_mut().fill(1);
        assert_eq!(memory.iter().filter(|&&b| b == 1).count(), 54);
    }

    #[test]
    fn a_stage_shows_every_frame_once_and_counts_each_verdict() {
        let counters = Arc::new(ProgramCounters::default());
        let mut stage = SoftStage::new(counters.clone());
        let frames: Vec<Vec<u8>> = (0..150u8).map(|i| vec![i; 20 + usize::from(i)]).collect();
        let mut got = Vec::new();
        stage.run(frames.iter().map(Vec::as_slice), |i, f| got.push((i, f.to_vec())));
        assert_eq!(got.len(), 150);
        // By first byte: dropped, cut at the front, redirected (which has no place to go here), passed.
        stage.set(Some(Box::new(|f: &mut Frame<'_>| match f.data()[0] % 4 {
            0 => Verdict::Drop,
            1 => {
                assert!(f.adjust_head(4) && !f.adjust_head(-261) && f.adjust_tail(64) && !f.adjust_tail(1));
                Verdict::Pass
            }
            2 => Verdict::Redirect,
            _ => Verdict::Pass,
        })));
        got.clear();
        stage.run(frames.iter().map(Vec::as_slice), |i, f| got.push((i, f.to_vec())));
        assert_eq!(
            got.iter().map(|(i, _)| i % 4).collect::<Vec<_>>(),
            [1, 3].repeat(37).into_iter().chain([1]).collect::<Vec<_>>()
        );
        assert_eq!(got[0].1.len(), 21 - 4 + 64);
        assert_eq!(got[1].1, frames[3]);
        let c = [&counters.pass, &counters.drop, &counters.aborted].map(Counter::get);
        assert_eq!(c, [75, 38, 37]);
    }
}
