//! The check at the end of a stream's way: sequence, checksums and every byte.

use super::{
    FrameMaker, TesterCounts,
    inject::{Inject, Injector},
    track::Tracker,
};
use linerate_drivers::ring::FarReceiver;
use linerate_mbuf::{Burst, Mbuf, Mempool};
use linerate_net::{ParseOptions, checksum::Verdict, csum_verify::verify};

/// Frames received at once.
const BURST: usize = 64;

/// What a frame is held against.
#[derive(Debug)]
enum Expect {
    /// The tester's own frames.
    Numbered(FrameMaker, Box<Tracker>),
    /// Frames that the forwarder makes (txonly): their headers, apart from length, checksum and source port.
    Made(Box<[u8; 42]>),
}

/// Receives what a port sends, and judges it.
#[derive(Debug)]
pub(in crate::testpmd) struct Check {
    from_port: FarReceiver,
    expect: Expect,
    injector: Option<Injector>,
    burst: Burst,
    /// A frame in one piece, when it came in several.
    whole: Vec<u8>,
    /// The frame that should have come.
    right: Vec<u8>,
    received: u64,
    corrupt: u64,
}

impl Check {
    /// For the tester's own frames as `maker` builds them after the mode's work.
    pub fn numbered(from_port: FarReceiver, maker: FrameMaker) -> Self {
        let right = vec![0; maker.len()];
        Self::new(from_port, Expect::Numbered(maker, Box::new(Tracker::new())), right)
    }

    /// For frames with these headers that the forwarder makes.
    pub fn made(from_port: FarReceiver, headers: [u8; 42]) -> Self {
        Self::new(from_port, Expect::Made(Box::new(headers)), Vec::new())
    }

    fn new(from_port: FarReceiver, expect: Expect, right: Vec<u8>) -> Self {
        let (injector, burst, whole) = (None, Burst::new(), Vec::new());
        Check { from_port, expect, injector, burst, whole, right, received: 0, corrupt: 0 }
    }

    /// Harms frames before they are judged.
    pub fn with_injector(mut self, plan: Inject, pool: &Mempool) -> Self {
        self.injector = Some(Injector::new(plan, pool));
        self
    }

    /// Receives and judges a burst; how many frames there were. `last` = nothing new is made any more.
    pub fn turn(&mut self, last: bool) -> usize {
        let came = self.from_port.receive(&mut self.burst, BURST);
        if let Some(injector) = &mut self.injector {
            injector.harm(&mut self.burst);
            if last && came == 0 {
                injector.release(&mut self.burst);
            }
        }
        if self.burst.is_empty() {
            return came;
        }
        let Check { burst, expect, whole, right, received, corrupt, .. } = self;
        for m in burst.as_slice() {
            *received += 1;
            let frame = in_one_piece(m, whole);
            if !expect.take(frame, right) {
                *corrupt += 1;
            }
        }
        burst.free_all();
        came
    }

    /// How many frames are not on their way any more: those below the highest that came, and at least as many as
    /// came, whole or not.
    pub fn back(&self) -> u64 {
        match &self.expect {
            Expect::Numbered(_, tracker) => tracker.next().max(tracker.distinct() + self.corrupt),
            Expect::Made(_) => 0,
        }
    }

    /// Different frames that came whole.
    pub fn distinct(&self) -> u64 {
        match &self.expect {
            Expect::Numbered(_, tracker) => tracker.distinct(),
            Expect::Made(_) => self.received - self.corrupt,
        }
    }

    /// Whether a frame is held back here.
    pub fn holds(&self) -> bool {
        self.injector.as_ref().is_some_and(Injector::holds)
    }

    /// What was counted here.
    pub fn counts(&self) -> TesterCounts {
        let (reordered, duplicated) = match &self.expect {
            Expect::Numbered(_, tracker) => (tracker.reordered(), tracker.duplicated()),
            Expect::Made(_) => (0, 0),
        };
        TesterCounts {
            received: self.received,
            corrupt: self.corrupt,
            reordered,
            duplicated,
            ..TesterCounts::default()
        }
    }
}

impl Expect {
    /// Judges a frame; false when it is not as it should be.
    fn take(&mut self, frame: &[u8], right: &mut [u8]) -> bool {
        let verdicts = verify(frame, ParseOptions::PLAIN);
        if verdicts.ip != Verdict::Good {
            return false;
        }
        match self {
            Expect::Numbered(maker, tracker) => {
                if verdicts.l4 != Verdict::Good || frame.len() != right.len() {
                    return false;
                }
                let Some(sequence) = maker.sequence_of(frame) else { return false };
                maker.write(right, sequence);
                let same = frame == &*right;
                if same {
                    tracker.take(sequence);
                }
                same
            }
            Expect::Made(headers) => {
                // Lengths (16-17 and 38-39), checksum (24-25) and source port (34-35) differ from frame to
                // frame; the first two are held against the frame, the third has been verified.
                let long = |at: usize, more: usize| {
                    frame.get(at..at + 2).map(|b| usize::from(u16::from_be_bytes([b[0], b[1]])) + more)
                };
                long(16, 14) == Some(frame.len())
                    && long(38, 34) == Some(frame.len())
                    && [0..16, 18..24, 26..34, 36..38, 40..42]
                        .into_iter()
                        .all(|range| frame.get(range.clone()) == headers.get(range))
            }
        }
    }
}

/// The bytes of a packet, gathered in `whole` when they lie in several segments.
fn in_one_piece<'a>(m: &'a Mbuf, whole: &'a mut Vec<u8>) -> &'a [u8] {
    if m.segment_count() == 1 {
        return m.data();
    }
    whole.clear();
    m.segments().for_each(|s| whole.extend_from_slice(s));
    whole
}
