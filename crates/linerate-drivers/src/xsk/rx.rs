//! The receive queue: packets are copied out of the kernel's frames, which go straight back to the fill ring.
//!
//! Every frame is in the fill ring, in the receive ring, or under our hands within one call; the fill ring has a slot
//! for each. So an application that keeps its buffers, or a pool that is empty, never leaves the kernel without
//! frames, and nothing has to be refilled later.
//!
//! When a system call is made: if the fill ring's flag asks for one (zero-copy drivers, when they wait for frames), and,
//! with busy polling, at each poll that finds the receive ring empty. Never otherwise: in copy mode without busy
//! polling, receiving is a look at shared memory.

use super::{
    lane::Lane,
    mapped::{CONTINUED, Descriptor},
    socket::RxSide,
};
use linerate_mbuf::{Burst, MAX_SEGMENTS, Mbuf, Mempool, OlFlags, RxTemplate};
use linerate_mem::Clock;
use linerate_port::{PortError, RxContext, RxDriver, RxOffloads, RxProgram, SoftStage, stats::SharedRx};
use rustix::net::RecvFlags;
use std::sync::Arc;

/// Idle polls after which the kernel's counters are read, and again at each doubling.
const IDLE_READ: u32 = 64;

/// A receive queue.
pub(super) struct XskRx {
    side: Option<RxSide>,
    lane: Arc<Lane>,
    pool: Mempool,
    template: RxTemplate,
    room: u32,
    scatter: bool,
    /// The longest packet that the pool, or a chain, has buffers for.
    longest: usize,
    counters: SharedRx,
    stage: SoftStage,
    context: RxContext,
    clock: Clock,
    idle: u32,
    /// No packet has come yet that may tell the receive context.
    unsettled: bool,
    /// Bytes of packets in several pieces, or of those shown to a program.
    bytes: Vec<u8>,
}

impl RxSide {
    /// Gives the frames of `n` descriptors behind the first `used` back to the kernel.
    fn give_back(&mut self, used: u32, n: u32) {
        for i in used..used + n {
            let d: Descriptor = self.rx.peek(i);
            if let Some((frame, _)) = self.umem.geometry().frame_of(d.address) {
                self.fill.push(frame.base());
            }
        }
    }

    /// Drops what waits.
    pub(super) fn drain(&mut self) {
        let waiting = self.rx.available(self.rx.size());
        self.give_back(0, waiting);
        self.fill.publish();
        self.rx.release(waiting);
    }
}

/// What a packet of several pieces waits for, whole.
enum Wait {
    /// Its end.
    End,
    /// Buffers.
    Buffers,
}

/// What became of the packet at the head of the ring.
enum Next {
    /// Its bytes are in the scratch memory; so many descriptors.
    Whole(u32),
    /// Bad, or too long: so many descriptors to be passed over.
    Bad(u32),
    /// Its end has not come yet.
    Partial,
}

impl XskRx {
    pub(super) fn new(context: RxContext, lane: Arc<Lane>) -> Self {
        let pool = context.rx.pool.clone();
        XskRx {
            side: None,
            lane,
            template: RxTemplate::new(&pool, context.port.0),
            room: pool.data_room().into(),
            longest: usize::from(pool.data_room()) * pool.buffers().min(MAX_SEGMENTS.into()) as usize,
            scatter: context.config.rx_offloads.contains(RxOffloads::SCATTER),
            counters: context.counters.clone(),
            stage: SoftStage::new(context.program.clone()),
            clock: context.clock.clone(),
            pool,
            context,
            idle: 0,
            unsettled: false,
            bytes: Vec::new(),
        }
    }

    /// Appends `n` empty buffers, or as many as there are.
    #[inline(always)]
    fn take(&self, burst: &mut Burst, n: usize) -> usize {
        if self.pool.alloc_rx(&self.template, burst, n) { n } else { self.take_few(burst, n) }
    }

    #[cold]
    #[inline(never)]
    fn take_few(&self, burst: &mut Burst, wanted: usize) -> usize {
        let n = (0..wanted).take_while(|_| self.pool.alloc_rx(&self.template, burst, 1)).count();
        // They wait in the ring: put off, not lost, until that overflows.
        self.counters.nombuf.add((wanted - n) as u64);
        n
    }

    /// Nothing waits: calls the kernel if that can bring something.
    #[inline(never)]
    fn nudge(&mut self) {
        let Some(side) = &self.side else { return };
        let counts = &self.lane.rx_counts;
        if side.fill.needs_wakeup() {
            counts.wakeups.add(1);
        } else if side.socket.is_busy_polled() {
            counts.busy_polls.add(1);
        } else {
            return;
        }
        // It receives no bytes; an error (interface down) shows by nothing coming.
        let _ = rustix::net::recv(&side.socket, &mut [0u8; 0][..], RecvFlags::DONTWAIT);
    }

    /// Still nothing: from time to time, what the kernel dropped is counted.
    #[inline]
    fn idle(&mut self) {
        self.idle = self.idle.saturating_add(1);
        if self.idle >= IDLE_READ && self.idle.is_power_of_two() {
            self.count_missed();
        }
    }

    #[cold]
    #[inline(never)]
    fn count_missed(&mut self) {
        let Some(side) = &mut self.side else { return };
        if let Some(s) = side.socket.statistics() {
            let now = s.rx_dropped + s.rx_ring_full.unwrap_or(0);
            self.counters.missed.add(now.saturating_sub(side.missed_seen));
            side.missed_seen = now.max(side.missed_seen);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle(&mut self) {
        self.unsettled = false;
        if let Some(side) = &self.side {
            side.socket.settle();
        }
    }

    /// Packets came: as a rule, the last thing that a poll does.
    #[inline]
    fn progress(&mut self, packets: u64, bytes: u64) {
        self.idle = 0;
        self.counters.packets.add(packets);
        self.counters.bytes.add(bytes);
        self.lane.rx_counts.progress_ns.set(self.clock.now_ns());
        if self.unsettled {
            self.settle();
        }
    }

    /// The packet `used` descriptors behind the ring's head, which is one of several pieces or is to be shown to a
    /// program: collected in the scratch memory, at its end.
    #[cold]
    #[inline(never)]
    fn collect(side: &mut RxSide, used: u32, bytes: &mut Vec<u8>, counts: &super::lane::RxCounts) -> Next {
        let (start, size) = (bytes.len(), side.rx.size());
        let mut available = side.rx.available(used + 1);
        let mut good = true;
        let mut n = 0;
        loop {
            if used + n >= available {
                available = side.rx.available(used + n + 1);
            }
            if used + n >= available {
                bytes.truncate(start);
                if used == 0 && n == size {
                    // The ring is full of pieces without an end: there will be none.
                    counts.bad.add(1);
                    return Next::Bad(n);
                }
                return Next::Partial;
            }
            let d: Descriptor = side.rx.peek(used + n);
            n += 1;
            match side.umem.geometry().locate(d) {
                Some(piece) => {
                    let at = bytes.len();
                    bytes.resize(at + piece.len as usize, 0);
                    side.umem.read(piece, &mut bytes[at..]);
                }
                None => good = false,
            }
            if d.options & CONTINUED == 0 {
                break;
            }
        }
        if n > 1 {
            counts.chains.add(1);
        }
        if good {
            Next::Whole(n)
        } else {
            counts.bad.add(1);
            bytes.truncate(start);
            Next::Bad(n)
        }
    }

    /// Copies a packet of several pieces into the empty buffer `m` and more behind it; false, and it is empty again,
    /// if those are not to be had.
    #[cold]
    #[inline(never)]
    fn fill_chain(&self, m: &mut Mbuf, data: &[u8]) -> bool {
        let mut pieces = data.chunks(self.room.max(1) as usize);
        if let Some(piece) = pieces.next()
            && let Some(to) = m.append(piece.len())
        {
            to.copy_from_slice(piece);
        }
        for piece in pieces {
            let joined = self.pool.alloc().and_then(|mut next| {
                next.append(piece.len())?.copy_from_slice(piece);
                m.chain(next).ok()
            });
            if joined.is_none() {
                m.reset();
                m.set_port(self.context.port.0);
                m.set_ol_flags(OlFlags::empty());
                return false;
            }
        }
        true
    }

    /// Whether a packet of this length can be delivered at all: one that wants more buffers than there are would
    /// wait for ever, and everything behind it.
    #[inline(always)]
    fn fits(&self, len: usize) -> bool {
        len <= self.room as usize || (self.scatter && len <= self.longest)
    }

    /// With a program: the frames are copied out, given back, and shown to it.
    #[cold]
    #[inline(never)]
    fn rx_staged(&mut self, burst: &mut Burst, want: usize) -> usize {
        let Some(mut side) = self.side.take() else { return 0 };
        self.bytes.clear();
        let (mut used, mut ends) = (0, Vec::with_capacity(want));
        while ends.len() < want {
            match Self::collect(&mut side, used, &mut self.bytes, &self.lane.rx_counts) {
                Next::Whole(n) => {
                    side.give_back(used, n);
                    ends.push(self.bytes.len());
                    used += n;
                }
                Next::Bad(n) => {
                    side.give_back(used, n);
                    self.counters.errors.add(1);
                    used += n;
                }
                Next::Partial => break,
            }
        }
        side.rx.release(used);
        side.fill.publish();
        self.side = Some(side);
        let (bytes, mut stage) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.stage));
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let frames = starts.zip(&ends).map(|(from, to)| bytes.get(from..*to).unwrap_or_default());
        let (mut packets, mut sum, mut short, mut long) = (0, 0, 0, 0);
        stage.run(frames, |_, data| {
            if !self.fits(data.len()) {
                long += 1;
                return;
            }
            match self.pool.alloc_filled(data) {
                Some(mut m) => {
                    m.set_port(self.context.port.0);
                    if burst.push(m).is_ok() {
                        packets += 1;
                        sum += data.len() as u64;
                    }
                }
                None => short += 1,
            }
        });
        (self.bytes, self.stage) = (bytes, stage);
        self.counters.nombuf.add(short);
        self.counters.errors.add(long);
        if used > 0 {
            self.progress(packets, sum);
        }
        packets as usize
    }

    /// The packet at `used`, of several pieces, into the buffer `m`: descriptors used, and its length if it was
    /// delivered.
    #[cold]
    #[inline(never)]
    fn rx_chain(&mut self, side: &mut RxSide, used: u32, m: &mut Mbuf) -> Result<(u32, Option<u32>), Wait> {
        self.bytes.clear();
        let (n, whole) = match Self::collect(side, used, &mut self.bytes, &self.lane.rx_counts) {
            Next::Whole(n) => (n, true),
            Next::Bad(n) => (n, false),
            Next::Partial => return Err(Wait::End),
        };
        let len = self.bytes.len();
        let mut delivered = None;
        if whole && self.fits(len) {
            let bytes = std::mem::take(&mut self.bytes);
            let filled = self.fill_chain(m, &bytes);
            self.bytes = bytes;
            if !filled {
                return Err(Wait::Buffers);
            }
            delivered = Some(len as u32);
        } else {
            self.counters.errors.add(1);
        }
        side.give_back(used, n);
        Ok((n, delivered))
    }
}

impl RxDriver for XskRx {
    fn start(&mut self) -> Result<(), PortError> {
        if self.side.is_none() {
            self.side = self.lane.take_rx();
        }
        let Some(side) = &self.side else { return Err(PortError::Removed { port: self.context.port }) };
        side.socket.settle();
        self.unsettled = true;
        self.idle = 0;
        Ok(())
    }

    /// What waits is dropped. As long as the port is started what comes waits, as far as there is room, and is not
    /// given to the kernel's stack.
    fn stop(&mut self) {
        self.count_missed();
        let Some(mut side) = self.side.take() else { return };
        side.socket.restore();
        side.drain();
        self.lane.put_rx(side);
    }

    #[inline]
    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        let want = max.min(burst.room());
        let Some(side) = &mut self.side else { return 0 };
        if want == 0 {
            return 0;
        }
        let mut available = side.rx.available(1);
        if available == 0 {
            self.nudge();
            let Some(side) = &mut self.side else { return 0 };
            available = side.rx.available(1);
            if available == 0 {
                self.idle();
                return 0;
            }
        }
        if self.stage.is_set() {
            return self.rx_staged(burst, want);
        }
        // Out of `self` for this call, so that what fills buffers can be called meanwhile.
        let Some(mut side) = self.side.take() else { return 0 };
        let start = burst.len();
        let mut buffers = self.take(burst, want.min(available as usize));
        let (mut packets, mut used, mut bytes) = (0, 0, 0u64);
        while packets < buffers && used < side.rx.available(used + 1) {
            let Some(m) = burst.as_mut_slice().get_mut(start + packets) else { break };
            let d: Descriptor = side.rx.peek(used);
            let piece = side.umem.geometry().locate(d);
            if d.options & CONTINUED == 0
                && d.len <= self.room
                && let Some(piece) = piece
                && let Some(to) = m.append(d.len as usize)
            {
                side.umem.read(piece, to);
                side.fill.push(piece.frame.base());
                used += 1;
                packets += 1;
                bytes += u64::from(d.len);
                continue;
            }
            match self.rx_chain(&mut side, used, m) {
                Ok((n, delivered)) => {
                    used += n;
                    if let Some(len) = delivered {
                        packets += 1;
                        bytes += u64::from(len);
                    }
                }
                Err(Wait::Buffers) if buffers > packets + 1 => {
                    // Those taken for packets behind it may be what it lacks.
                    buffers = packets + 1;
                    while burst.len() > start + buffers {
                        drop(burst.pop());
                    }
                }
                Err(Wait::Buffers) => {
                    self.counters.nombuf.add(1);
                    break;
                }
                Err(Wait::End) => break,
            }
        }
        // The frames first: a ring slot that is free again must find one.
        side.fill.publish();
        side.rx.release(used);
        self.side = Some(side);
        while burst.len() > start + packets {
            drop(burst.pop());
        }
        if used > 0 {
            self.progress(packets as u64, bytes);
        }
        packets
    }

    fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        self.stage.set(program);
        Ok(())
    }

    fn pending(&self) -> Option<usize> {
        Some(self.side.as_ref().map_or(0, |s| s.rx.waiting() as usize))
    }
}

impl Drop for XskRx {
    fn drop(&mut self) {
        if self.side.is_some() {
            self.stop();
        }
    }
}
