//! The transmit queue: packets are copied into frames, frames handed to the kernel, and the kernel called.
//!
//! When `sendto` is called: after descriptors were published, if the transmit ring's flag asks for it. In copy mode it
//! always does, since the kernel sends within that call; a zero-copy driver asks when it has gone to sleep. Descriptors
//! that a call leaves behind (the kernel's buffers full, the interface down) are tried again at every further call and
//! at each end of a poll. Outcomes are counted: `tx_q0_kicks`, `_eagain`, `_ebusy`, `_enobufs`, `_down`.

use super::{
    lane::Lane,
    mapped::{CONTINUED, Descriptor},
    socket::TxSide,
};
use linerate_mbuf::{Burst, Mbuf, Segments, SharedMbuf};
use linerate_mem::Clock;
use linerate_port::{PortError, TxContext, TxDriver, stats::SharedTx};
use rustix::{io::Errno, net::SendFlags};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Least length of a frame: an Ethernet header.
const SHORTEST: u32 = 14;
/// Most descriptors of a packet in copy mode (`MAX_SKB_FRAGS`).
pub(super) const MAX_PIECES: u32 = 17;
/// Calls in a row, as long as each makes progress.
const CALLS: u32 = 64;
/// Without a completion for so long, though frames are out: the queue has stalled.
const STALLED_NS: u64 = 100_000_000;
/// How long stopping waits for frames that are out.
const DRAIN: Duration = Duration::from_millis(100);

/// A transmit queue.
pub(super) struct XskTx {
    side: Option<TxSide>,
    lane: Arc<Lane>,
    counters: SharedTx,
    context: TxContext,
    clock: Clock,
    /// The last call found the interface down.
    down: bool,
    /// When something was completed or nothing was out, the last time that it mattered.
    moved_ns: u64,
}

/// What both kinds of packet can do.
trait Outgoing {
    fn length(&self) -> u32;
    fn pieces(&self) -> Segments<'_>;
}

impl Outgoing for Mbuf {
    #[inline(always)]
    fn length(&self) -> u32 {
        self.len()
    }
    #[inline(always)]
    fn pieces(&self) -> Segments<'_> {
        self.segments()
    }
}

impl Outgoing for SharedMbuf {
    #[inline(always)]
    fn length(&self) -> u32 {
        self.len()
    }
    #[inline(always)]
    fn pieces(&self) -> Segments<'_> {
        self.segments()
    }
}

impl XskTx {
    pub(super) fn new(context: TxContext, lane: Arc<Lane>) -> Self {
        let (counters, clock) = (context.counters.clone(), context.clock.clone());
        XskTx { side: None, lane, counters, context, clock, down: false, moved_ns: 0 }
    }

    /// Takes completed frames back; how many.
    #[inline]
    fn collect(&mut self) -> u32 {
        let Some(side) = &mut self.side else { return 0 };
        let n = side.completion.available(1);
        let mut good = 0;
        for i in 0..n {
            let address = side.completion.peek(i);
            let number = side.umem.geometry().frame_of(address).map(|(_, n)| n);
            let slot = number.and_then(|n| side.sent.get_mut(n.wrapping_sub(side.first_frame) as usize));
            match (number, slot) {
                (Some(number), Some(sent)) if *sent => {
                    *sent = false;
                    side.free.push(number);
                    good += 1;
                }
                _ => self.lane.tx_counts.bad.add(1),
            }
        }
        side.completion.release(n);
        if good > 0 {
            self.moved_ns = self.clock.now_ns();
            self.lane.tx_counts.progress_ns.set(self.moved_ns);
        }
        good
    }

    /// Copies packets into frames and publishes them; how many packets were taken, and their bytes.
    #[inline(always)]
    fn put<P: Outgoing>(&mut self, packets: &[P]) -> usize {
        let longest = self.lane.longest.load(Relaxed);
        let Some(side) = &mut self.side else { return 0 };
        let chunk = side.umem.geometry().chunk;
        let (mut taken, mut bad, mut bytes) = (0, 0, 0);
        for p in packets {
            let len = p.length();
            let needed = len.div_ceil(chunk);
            if !(SHORTEST..=longest).contains(&len) || (needed > 1 && !side.socket.pieces) {
                bad += 1;
            } else if needed as usize > side.free.len() || needed > side.tx.free(needed) {
                break;
            } else if needed == 1 {
                let Some(number) = side.free.pop() else { break };
                let frame = side.umem.geometry().frame(number);
                let mut at = 0;
                for s in p.pieces() {
                    side.umem.write(frame, at, s);
                    at += s.len() as u32;
                }
                Self::hand_over(side, number, Descriptor { address: frame.base(), len: at, options: 0 });
                bytes += u64::from(at);
            } else {
                bytes += u64::from(Self::put_chain(side, p, len, needed));
                self.lane.tx_counts.chains.add(1);
            }
            taken += 1;
        }
        side.tx.publish();
        if bad > 0 {
            self.counters.errors.add(bad);
        }
        self.counters.packets.add(taken as u64 - bad);
        self.counters.bytes.add(bytes);
        taken
    }

    /// The frame with this number is the kernel's once the ring is published.
    #[inline(always)]
    fn hand_over(side: &mut TxSide, number: u32, d: Descriptor) {
        if let Some(sent) = side.sent.get_mut((number - side.first_frame) as usize) {
            *sent = true;
        }
        side.tx.push(d);
    }

    /// A packet that is longer than a frame: filled one behind the other. The caller knows that there are enough.
    #[cold]
    #[inline(never)]
    fn put_chain<P: Outgoing>(side: &mut TxSide, p: &P, len: u32, needed: u32) -> u32 {
        let chunk = side.umem.geometry().chunk;
        let (mut segments, mut rest): (_, &[u8]) = (p.pieces(), &[]);
        let mut left = len;
        for i in 0..needed {
            let Some(number) = side.free.pop() else { break };
            let frame = side.umem.geometry().frame(number);
            let mut at = 0;
            while at < chunk.min(left) {
                if rest.is_empty() {
                    let Some(next) = segments.next() else { break };
                    rest = next;
                    continue;
                }
                let (now, behind) = rest.split_at(rest.len().min((chunk - at) as usize));
                side.umem.write(frame, at, now);
                at += now.len() as u32;
                rest = behind;
            }
            left -= at;
            let options = if i + 1 < needed { CONTINUED } else { 0 };
            Self::hand_over(side, number, Descriptor { address: frame.base(), len: at, options });
        }
        len - left
    }

    /// Has the kernel send what waits in the ring.
    #[inline]
    fn kick(&mut self) {
        let Some(side) = &mut self.side else { return };
        let counts = &self.lane.tx_counts;
        let mut waiting = side.tx.waiting();
        for _ in 0..CALLS {
            let asked = side.tx.needs_wakeup() || !side.socket.wakeup;
            if waiting == 0 || !asked && !side.socket.is_busy_polled() {
                break;
            }
            counts.kicks.add(1);
            let outcome = rustix::net::send(&side.socket, &[], SendFlags::DONTWAIT);
            self.down = false;
            match outcome {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => counts.again.add(1),
                Err(Errno::BUSY) => counts.busy.add(1),
                Err(Errno::NOBUFS) => counts.no_memory.add(1),
                Err(_) => {
                    counts.down.add(1);
                    self.down = true;
                    break;
                }
            }
            let left = side.tx.waiting();
            // A zero-copy driver has been woken and works by itself.
            if side.socket.zero_copy || left == waiting {
                break;
            }
            waiting = left;
        }
    }

    /// Frames that the kernel has.
    #[inline(always)]
    fn out(&self) -> usize {
        self.side.as_ref().map_or(0, |s| s.sent.len().saturating_sub(s.free.len()))
    }

    /// Between bursts: completed frames come back, what is left behind is tried again, and a queue that does not move
    /// is helped.
    fn attend(&mut self) {
        let moved = self.collect();
        if self.out() == 0 {
            return;
        }
        self.kick();
        let now = self.clock.now_ns();
        if moved > 0 || self.down || self.moved_ns == 0 {
            self.moved_ns = now;
        } else if now.saturating_sub(self.moved_ns) > STALLED_NS {
            self.stalled(now);
        }
    }

    /// A busy-polled queue that makes no progress goes back to interrupts; any is woken once more.
    #[cold]
    #[inline(never)]
    fn stalled(&mut self, now: u64) {
        self.moved_ns = now;
        self.lane.tx_counts.stalls.add(1);
        let Some(side) = &self.side else { return };
        side.socket.leave_busy_poll();
        let _ = rustix::net::send(&side.socket, &[], SendFlags::DONTWAIT);
    }

    /// Sends what was put, after the clock was told that frames are out from now on.
    #[inline(always)]
    fn went(&mut self, taken: usize, none_was_out: bool) {
        if taken > 0 && none_was_out {
            self.moved_ns = self.clock.now_ns();
        }
        self.kick();
    }
}

impl TxDriver for XskTx {
    fn start(&mut self) -> Result<(), PortError> {
        if self.side.is_none() {
            self.side = self.lane.take_tx();
        }
        if self.side.is_none() {
            return Err(PortError::Removed { port: self.context.port });
        }
        self.moved_ns = 0;
        Ok(())
    }

    /// Waits a little for what is on its way. What the kernel has not even taken by then (the interface is down) is
    /// dropped with the socket at the next start of the port.
    fn stop(&mut self) {
        let deadline = Instant::now() + DRAIN;
        loop {
            self.collect();
            if self.out() == 0 {
                break;
            }
            self.kick();
            if self.down || Instant::now() >= deadline {
                break;
            }
            thread::sleep(Duration::from_micros(50));
        }
        let Some(mut side) = self.side.take() else { return };
        if side.tx.waiting() > 0 {
            self.lane.stale.store(true, Relaxed);
        }
        self.lane.put_tx(side);
    }

    #[inline]
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.collect();
        let idle = self.out() == 0;
        let taken = self.put(burst.as_slice());
        burst.free_front(taken);
        self.went(taken, idle);
        taken
    }

    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        self.collect();
        let idle = self.out() == 0;
        let taken = self.put(burst.as_slice());
        burst.free_front(taken);
        self.went(taken, idle);
        taken
    }

    fn flush(&mut self) {
        self.kick();
    }

    fn has_end_of_poll(&self) -> bool {
        true
    }

    #[inline]
    fn end_of_poll(&mut self) {
        if self.out() != 0 {
            self.attend();
        }
    }

    fn reclaim(&mut self) -> usize {
        self.attend();
        self.out()
    }
}

impl Drop for XskTx {
    fn drop(&mut self) {
        if self.side.is_some() {
            self.stop();
        }
    }
}
