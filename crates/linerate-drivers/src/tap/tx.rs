//! The tap port's transmit queue: a frame is written from the packet buffer itself.

use crate::netif::{
    counts::counts,
    landing::{Outgoing, gather},
    sys,
    vnet::VNET_HEADER,
};
use linerate_mbuf::{Burst, Mbuf, Packet, SharedMbuf};
use linerate_port::{ETHER_OVERHEAD, EventSink, PortError, TxContext, TxDriver, stats::SharedTx};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// Shortest frame: an Ethernet header.
const SHORTEST: usize = 14;

counts! {
    /// Of a transmit queue.
    TxCounts, "tx" {
        /// Sends that stopped because the kernel had no room or memory (EAGAIN, ENOBUFS).
        again,
        /// Sends that stopped because the interface is down.
        link_down,
        /// Frames that the kernel refused, dropped.
        write_errors,
        /// Frames too long or too short, dropped.
        bad_length,
    }
}

pub(super) struct TapTx {
    fd: Arc<OwnedFd>,
    counters: SharedTx,
    counts: Arc<TxCounts>,
    events: EventSink,
    vnet: bool,
    /// The interface's MTU as last heard of.
    mtu: Arc<AtomicU32>,
    /// A frame of several pieces, made one.
    scratch: Vec<u8>,
}

/// What became of a frame that the kernel did not take.
enum Refused {
    /// It stays, with those behind it.
    Later,
    /// It is lost.
    Lost,
}

impl TapTx {
    pub(super) fn new(
        fd: Arc<OwnedFd>,
        vnet: bool,
        c: TxContext,
        (mtu, counts, events): (Arc<AtomicU32>, Arc<TxCounts>, EventSink),
    ) -> Self {
        TapTx { fd, counters: c.counters, counts, events, vnet, mtu, scratch: Vec::new() }
    }

    fn offer<P: Outgoing + Packet>(&mut self, burst: &mut Burst<P>) -> usize {
        let longest = (self.mtu.load(Relaxed) + ETHER_OVERHEAD) as usize;
        let (mut taken, mut bytes, mut bad) = (0usize, 0, 0usize);
        for p in burst.as_slice() {
            let len = p.len() as usize;
            if len > longest || len < SHORTEST {
                self.counts.bad_length.add(1);
                (taken, bad) = (taken + 1, bad + 1);
                continue;
            }
            let plain = p.segment_count() == 1 && !self.vnet && p.tag().is_none();
            let written = if plain { sys::write(&*self.fd, p.data()) } else { self.write_gathered(p) };
            match written.map_err(|e| self.write_failed(&e)) {
                Ok(_) => bytes += len as u64,
                Err(Refused::Lost) => bad += 1,
                Err(Refused::Later) => break,
            }
            taken += 1;
        }
        self.counters.packets.add((taken - bad) as u64);
        self.counters.bytes.add(bytes);
        if bad > 0 {
            self.counters.errors.add(bad as u64);
        }
        burst.free_front(taken);
        taken
    }

    #[inline(never)]
    fn write_gathered(&mut self, p: &impl Outgoing) -> io::Result<usize> {
        self.scratch.clear();
        gather(p, &mut self.scratch);
        if self.vnet {
            // Nothing is left for the kernel to do.
            sys::write_parts(&*self.fd, &[0; VNET_HEADER], &self.scratch)
        } else {
            sys::write(&*self.fd, &self.scratch)
        }
    }

    #[cold]
    #[inline(never)]
    fn write_failed(&self, e: &io::Error) -> Refused {
        match e.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => self.counts.again.add(1),
            Some(libc::EIO) => self.counts.link_down.add(1),
            Some(libc::EBADFD) => self.events.removed(),
            _ => {
                self.counts.write_errors.add(1);
                return Refused::Lost;
            }
        }
        Refused::Later
    }
}

impl TxDriver for TapTx {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn stop(&mut self) {}

    #[inline]
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.offer(burst)
    }

    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        self.offer(burst)
    }
}
