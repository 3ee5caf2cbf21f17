//! The tap port's receive queue: a frame is read into the packet buffer itself.

use crate::netif::{
    counts::counts,
    landing::Landing,
    segment::{Cutter, complete_checksum},
    sys,
    vnet::{Cut, VnetHeader},
};
use linerate_mbuf::{Burst, Mbuf};
use linerate_port::{
    ETHER_OVERHEAD, EventSink, PortError, RxContext, RxDriver, RxProgram, SoftStage, stats::SharedRx,
};
use std::{
    io, mem,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// The longest frame that the kernel hands out, with a VLAN tag or two.
const LONGEST: usize = (1 << 16) + 256;

counts! {
    /// Of a receive queue.
    RxCounts, "rx" {
        /// Reads that found nothing.
        empty_reads,
        /// Reads that failed.
        read_errors,
        /// Frames longer than a buffer, dropped.
        too_long,
        /// Frames whose checksum was completed here.
        checksums_completed,
        /// Long frames that were cut into ordinary ones.
        long_frames_cut,
        /// Frames that could not be finished; dropped.
        unfit,
    }
}

pub(super) struct TapRx {
    fd: Arc<OwnedFd>,
    landing: Landing,
    counters: SharedRx,
    counts: Arc<RxCounts>,
    events: EventSink,
    stage: SoftStage,
    vnet: bool,
    /// The interface's MTU as last heard of.
    mtu: Arc<AtomicU32>,
    /// A buffer for the next frame.
    spare: Option<Mbuf>,
    cutter: Cutter,
    /// A finished frame that waits for a buffer.
    frame: Vec<u8>,
    frame_waits: bool,
    /// What the kernel gave.
    raw: Vec<u8>,
}

/// What a read gave.
enum Read {
    Frame,
    Nothing,
    /// Nothing to be delivered, and worth another read.
    Dropped,
}

impl TapRx {
    pub(super) fn new(
        fd: Arc<OwnedFd>,
        vnet: bool,
        c: RxContext,
        (mtu, counts, events): (Arc<AtomicU32>, Arc<RxCounts>, EventSink),
    ) -> Self {
        TapRx {
            fd,
            landing: Landing::new(&c),
            counters: c.counters,
            counts,
            events,
            stage: SoftStage::new(c.program),
            vnet,
            mtu,
            spare: None,
            cutter: Cutter::default(),
            frame: Vec::new(),
            frame_waits: false,
            raw: Vec::new(),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_failed(&self, e: &io::Error) {
        match e.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => self.counts.empty_reads.add(1),
            Some(libc::EBADFD) => {
                self.counts.read_errors.add(1);
                self.events.removed();
            }
            _ => self.counts.read_errors.add(1),
        }
    }

    /// Reads one frame into a buffer that is longer than any frame can be.
    #[inline]
    fn take_direct(&mut self, burst: &mut Burst) -> Read {
        let Some(mut m) = self.spare.take().or_else(|| self.landing.alloc()) else {
            self.counters.nombuf.add(1);
            return Read::Nothing;
        };
        let room = self.landing.room;
        let Some(to) = m.append(room) else { return Read::Nothing };
        let n = match sys::read(&*self.fd, to) {
            Ok(n) => n,
            Err(e) => {
                self.read_failed(&e);
                self.keep(m);
                return Read::Nothing;
            }
        };
        // A frame that fills the whole buffer was cut off: the MTU was raised behind our back.
        if n == room {
            self.keep(m);
            self.counts.too_long.add(1);
            self.counters.errors.add(1);
            return Read::Dropped;
        }
        let cut = m.trim(room - n);
        debug_assert!(cut);
        self.counters.packets.add(1);
        self.counters.bytes.add(n as u64);
        if let Err(m) = burst.push(m) {
            self.keep(m);
        }
        Read::Frame
    }

    /// Keeps a buffer for the next frame.
    fn keep(&mut self, mut m: Mbuf) {
        m.reset();
        m.set_port(self.landing.port);
        self.spare = Some(m);
    }

    /// The next finished frame into `self.frame`, whatever it takes; false if there is none.
    fn pull(&mut self) -> bool {
        if mem::take(&mut self.frame_waits) {
            return true;
        }
        loop {
            if self.cutter.next_len() > 0 {
                self.cutter.next(&mut self.frame);
            } else {
                let header = match self.read_raw() {
                    Ok(header) => header,
                    Err(e) => {
                        self.read_failed(&e);
                        return false;
                    }
                };
                if !self.finish(&header) {
                    continue;
                }
            }
            if self.frame.len() > self.landing.longest() {
                self.counts.too_long.add(1);
                self.counters.errors.add(1);
                continue;
            }
            return true;
        }
    }

    /// Reads what the kernel gives into `self.raw`, and what it says about it.
    fn read_raw(&mut self) -> io::Result<VnetHeader> {
        if !self.vnet {
            sys::read_after_header::<0>(&*self.fd, &mut self.raw, LONGEST)?;
            return Ok(VnetHeader::default());
        }
        let header = sys::read_after_header(&*self.fd, &mut self.raw, LONGEST)?;
        Ok(header.map_or_else(VnetHeader::default, |h| VnetHeader::read(&h)))
    }

    /// Finishes the frame in `self.raw`; true if it is ready, false if it is in the cutter or lost.
    fn finish(&mut self, header: &VnetHeader) -> bool {
        match header.cut() {
            Cut::None => {
                mem::swap(&mut self.raw, &mut self.frame);
                if !header.needs_checksum() {
                    return true;
                }
                if complete_checksum(&mut self.frame, header) {
                    self.counts.checksums_completed.add(1);
                    return true;
                }
            }
            Cut::Tcp | Cut::Udp if self.cutter.load(&mut self.raw, header) => {
                self.counts.long_frames_cut.add(1);
                return false;
            }
            Cut::Tcp | Cut::Udp | Cut::Unknown => {}
        }
        self.counts.unfit.add(1);
        self.counters.errors.add(1);
        false
    }

    /// Receives by way of a buffer of our own: frames may be long, unfinished, or shown to a program first.
    #[inline(never)]
    fn take_through(&mut self, burst: &mut Burst, max: usize) -> usize {
        let mut n = 0;
        while n < max {
            if !self.frame_waits {
                let (pieces, bytes) = self.landing.land_pieces(burst, &mut self.cutter, max - n);
                self.counters.packets.add(pieces as u64);
                self.counters.bytes.add(bytes);
                n += pieces;
            }
            if n == max || !self.pull() {
                break;
            }
            if !self.landing.land(burst, &self.frame) {
                self.counters.nombuf.add(1);
                self.frame_waits = true;
                break;
            }
            n += 1;
            self.counters.packets.add(1);
            self.counters.bytes.add(self.frame.len() as u64);
        }
        n
    }

    /// Shows the frames to the program first.
    #[cold]
    #[inline(never)]
    fn take_screened(&mut self, burst: &mut Burst, max: usize) -> usize {
        let mut frames = Vec::new();
        while frames.len() < max && self.pull() {
            frames.push(self.frame.clone());
        }
        let (landing, counters) = (&self.landing, &self.counters);
        let before = burst.len();
        self.stage.run(frames.iter().map(Vec::as_slice), |_, frame| {
            if frame.len() > landing.longest() {
                counters.errors.add(1);
            } else if landing.land(burst, frame) {
                counters.packets.add(1);
                counters.bytes.add(frame.len() as u64);
            } else {
                counters.nombuf.add(1);
            }
        });
        burst.len() - before
    }
}

impl RxDriver for TapRx {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn stop(&mut self) {
        self.spare = None;
        self.cutter.clear();
        self.frame_waits = false;
    }

    #[inline]
    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        let max = max.min(burst.room());
        if self.stage.is_set() {
            return self.take_screened(burst, max);
        }
        let longest = (self.mtu.load(Relaxed) + ETHER_OVERHEAD) as usize;
        if self.vnet || self.frame_waits || longest >= self.landing.room {
            return self.take_through(burst, max);
        }
        let mut n = 0;
        while n < max {
            match self.take_direct(burst) {
                Read::Frame => n += 1,
                Read::Dropped => {}
                Read::Nothing => break,
            }
        }
        n
    }

    fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        self.stage.set(program);
        Ok(())
    }
}
