//! The ring port's queues: one bulk copy of pointers a burst, each way.

use super::line::{Line, receive, send};
use linerate_mbuf::{BURST_MAX, Burst, Mbuf, Mempool, SharedMbuf};
use linerate_port::{
    PortError, PortId, RxContext, RxDriver, RxProgram, SoftStage, TxContext, TxDriver,
    stats::{Counter, SharedRx, SharedTx},
};
use linerate_ring::{Consumer, Producer};
use std::sync::Arc;

/// A receive queue; with `BYTES` it looks at every packet's length.
pub(super) struct RingRx<const BYTES: bool> {
    /// There while started.
    ring: Option<Consumer<Mbuf>>,
    counters: SharedRx,
    stage: SoftStage,
    line: Arc<Line>,
    port: PortId,
    queue: u16,
    pool: Mempool,
    /// The frames shown to a program, one behind the other.
    shown: Vec<u8>,
}

impl<const BYTES: bool> RingRx<BYTES> {
    pub(super) fn new(c: RxContext, line: Arc<Line>) -> Self {
        let (queue, pool) = (c.queue.0, c.rx.pool);
        line.set_pool(queue, Some(pool.clone()));
        let stage = SoftStage::new(c.program);
        RingRx { ring: None, counters: c.counters, stage, line, port: c.port, queue, pool, shown: Vec::new() }
    }

    /// Shows the packets from `start` on to the program and keeps those that pass; how many.
    #[cold]
    #[inline(never)]
    fn screen(&mut self, burst: &mut Burst, start: usize) -> usize {
        let packets = burst.as_mut_slice().get_mut(start..).unwrap_or_default();
        self.shown.clear();
        for s in packets.iter().flat_map(Mbuf::segments) {
            self.shown.extend_from_slice(s);
        }
        let lengths: Vec<usize> = packets.iter().map(|m| m.len() as usize).collect();
        let mut rest = self.shown.as_slice();
        let frames = lengths.iter().map(|&n| {
            let (frame, behind) = rest.split_at(n);
            rest = behind;
            frame
        });
        let (mut keep, mut short) = ([false; BURST_MAX], 0);
        let pool = &self.pool;
        self.stage.run(frames, |i, data| match packets.get_mut(i).is_some_and(|m| store(m, data, pool)) {
            true => keep[i] = true,
            false => short += 1,
        });
        self.counters.nombuf.add(short);
        let mut verdicts = std::iter::repeat_n(true, start).chain(keep);
        burst.retain(|_| verdicts.next().unwrap_or(false));
        burst.len() - start
    }
}

/// Makes `data` the bytes of the packet: in place if they fit, else in a copy; false if there is no buffer.
fn store(m: &mut Mbuf, data: &[u8], pool: &Mempool) -> bool {
    let (have, want) = (m.len() as usize, data.len());
    let fits = want == have
        || (want < have && m.trim(have - want))
        || (want > have && (m.append(want - have).is_some() || m.prepend(want - have).is_some()));
    if !fits {
        let copy = m.copy(pool, 0, want.min(have) as u32);
        let Some(mut copy) = copy else { return false };
        if want > have && copy.append(want - have).is_none() {
            return false;
        }
        *m = copy;
    }
    let mut rest = data;
    m.for_each_segment_mut(|s| {
        let (now, behind) = rest.split_at(s.len().min(rest.len()));
        s[..now.len()].copy_from_slice(now);
        rest = behind;
    });
    true
}

impl<const BYTES: bool> RxDriver for RingRx<BYTES> {
    fn start(&mut self) -> Result<(), PortError> {
        if self.ring.is_none() {
            self.ring = Some(self.line.take_receiver(self.queue).map_err(|e| e.at(self.port))?);
        }
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(ring) = self.ring.take() {
            self.line.put_receiver(self.queue, ring);
        }
    }

    #[inline]
    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        if BYTES || max != 1 || self.stage.is_set() || burst.room() == 0 {
            return self.receive(burst, max);
        }
        let Some(m) = self.ring.as_mut().and_then(|ring| ring.dequeue()) else { return 0 };
        // There is room. Without the copy of many in the same function this saves and restores no register.
        let _ = burst.push(m);
        self.counters.packets.add(1);
        1
    }

    fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        self.stage.set(program);
        Ok(())
    }

    fn pending(&self) -> Option<usize> {
        Some(self.ring.as_ref().map_or(0, Consumer::len))
    }
}

impl<const BYTES: bool> RingRx<BYTES> {
    #[inline(never)]
    fn receive(&mut self, burst: &mut Burst, max: usize) -> usize {
        let Some(ring) = &mut self.ring else { return 0 };
        let start = burst.len();
        let mut n = receive::<Self>(ring, burst, max);
        if n == 0 {
            return 0;
        }
        if self.stage.is_set() {
            n = self.screen(burst, start);
        }
        if BYTES {
            let new = burst.as_slice().get(start..).unwrap_or_default();
            self.counters.bytes.add(new.iter().map(|m| u64::from(m.len())).sum());
        }
        self.counters.packets.add(n as u64);
        n
    }
}

impl<const BYTES: bool> Drop for RingRx<BYTES> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A transmit queue; with `BYTES` it looks at every packet's length.
pub(super) struct RingTx<const BYTES: bool> {
    /// There while started.
    ring: Option<Producer<Mbuf>>,
    counters: SharedTx,
    line: Arc<Line>,
    port: PortId,
    queue: u16,
    copy_failures: Arc<Counter>,
}

impl<const BYTES: bool> RingTx<BYTES> {
    pub(super) fn new(c: TxContext, line: Arc<Line>, copy_failures: Arc<Counter>) -> Self {
        RingTx { ring: None, counters: c.counters, line, port: c.port, queue: c.queue.0, copy_failures }
    }
}

impl<const BYTES: bool> TxDriver for RingTx<BYTES> {
    fn start(&mut self) -> Result<(), PortError> {
        if self.ring.is_none() {
            self.ring = Some(self.line.take_sender(self.queue).map_err(|e| e.at(self.port))?);
        }
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(ring) = self.ring.take() {
            self.line.put_sender(self.queue, ring);
        }
    }

    #[inline]
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        if BYTES || burst.len() != 1 {
            return self.send(burst);
        }
        // As in receive: one alone goes without what many need.
        let Some(ring) = &mut self.ring else { return 0 };
        let Some(m) = burst.pop() else { return 0 };
        if let Err(m) = ring.enqueue(m) {
            let _ = burst.push(m);
            return 0;
        }
        self.counters.packets.add(1);
        1
    }

    /// The receiver will own what it gets: a packet that nobody else holds is passed on, of others it gets a
    /// copy from its own pool. One that cannot be copied stays in the burst, with those behind it.
    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        let room = self.ring.as_ref().map_or(0, Producer::free).min(burst.len());
        if room == 0 {
            return 0;
        }
        let mut given = std::mem::take(burst);
        let mut given = given.drain();
        let mut made = Burst::new();
        let mut pool = None;
        while made.len() < room {
            let Some(packet) = given.next() else { break };
            let unique = packet.try_unique().or_else(|shared| {
                let pool = pool.get_or_insert_with(|| self.line.pool(self.queue));
                let copy = pool.as_ref().and_then(|p| shared.copy(p, 0, u32::MAX));
                copy.ok_or(shared)
            });
            match unique {
                Ok(m) => made.push(m).expect("no more than a burst was given"),
                Err(shared) => {
                    self.copy_failures.add(1);
                    burst.push(shared).expect("it came out of a burst");
                    break;
                }
            }
        }
        for packet in given {
            burst.push(packet).expect("it came out of a burst");
        }
        self.tx_burst(&mut made)
    }
}

impl<const BYTES: bool> RingTx<BYTES> {
    #[inline(never)]
    fn send(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let Some(ring) = &mut self.ring else { return 0 };
        let mut want = burst.len();
        if BYTES {
            // Only we fill the ring, so what is free stays free: these are the ones that will be taken.
            want = want.min(ring.free());
            let taken = burst.as_slice().get(..want).unwrap_or_default();
            self.counters.bytes.add(taken.iter().map(|m| u64::from(m.len())).sum());
        }
        let n = send::<Self>(ring, burst, want);
        self.counters.packets.add(n as u64);
        n
    }
}

impl<const BYTES: bool> Drop for RingTx<BYTES> {
    fn drop(&mut self) {
        self.stop();
    }
}
