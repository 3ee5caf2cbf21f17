//! The packet port's transmit queue: frames are copied into the ring, and one system call sends a burst.

use super::{
    counts::TxCounts,
    options::{Options, Shape},
    ring::{Ring, TxSlot},
    rx::TPACKET_V2,
};
use crate::netif::{
    NetIf, NetIfError,
    landing::{Outgoing, gather},
    sys,
    vnet::{VNET_HEADER, VnetHeader},
};
use linerate_mbuf::{Burst, Mbuf, Packet, SharedMbuf};
use linerate_port::{EventSink, PortError, TxContext, TxDriver, stats::SharedTx};
use std::{
    io,
    os::fd::OwnedFd,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

const PACKET_VERSION: i32 = 10;
const PACKET_LOSS: i32 = 14;
const PACKET_VNET_HDR: i32 = 15;
const PACKET_QDISC_BYPASS: i32 = 20;
/// Bytes of packets on their way that a socket may have.
const SOCKET_MEMORY: i32 = 4 << 20;
/// Up to this length the kernel copies a frame whole; a longer one would need memory in too large pieces.
const COPIED_WHOLE: usize = 16384;
/// Shortest frame: an Ethernet header.
const SHORTEST: usize = 14;
/// What a frame may be longer than the MTU: Ethernet header and one VLAN tag. The kernel drops longer ones.
pub(super) const BEYOND_MTU: u32 = 14 + 4;

pub(super) struct PacketTx {
    // Unmapped before the socket is closed.
    ring: Ring,
    socket: OwnedFd,
    /// The slot to be filled next.
    next: usize,
    /// The kernel has not taken everything yet.
    unsent: bool,
    /// The interface's MTU as last heard of.
    mtu: Arc<AtomicU32>,
    counters: SharedTx,
    counts: Arc<TxCounts>,
    events: EventSink,
    /// A frame with a tag to be put in.
    scratch: Vec<u8>,
}

impl PacketTx {
    /// Makes socket and ring.
    pub(super) fn new(
        of: &NetIf,
        options: &Options,
        shape: Shape,
        c: TxContext,
        (mtu, counts, events): (Arc<AtomicU32>, Arc<TxCounts>, EventSink),
    ) -> Result<Self, NetIfError> {
        let what = |what: &'static str| NetIfError::system(format!("transmit queue {}: {what}", c.queue));
        let socket =
            sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(what("packet socket (AF_PACKET)"))?;
        of.same_namespace(&socket)?;
        let set = |option, value| sys::set_int(&socket, libc::SOL_PACKET, option, value);
        set(PACKET_VERSION, TPACKET_V2).map_err(what("ring version 2"))?;
        set(PACKET_VNET_HDR, 1).map_err(what("offload header"))?;
        // A frame that the kernel cannot read is skipped; it must not stop those behind it.
        set(PACKET_LOSS, 1).map_err(what("skipping bad frames"))?;
        if options.qdisc_bypass {
            set(PACKET_QDISC_BYPASS, 1).map_err(what("qdisc_bypass"))?;
        }
        let ring = Ring::map(&socket, shape, false);
        let ring = ring.map_err(what("transmit ring"))?;
        if sys::set_int(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SOCKET_MEMORY).is_err() {
            // Without the right to more the system's limit stands.
            let _ = sys::set_int(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, SOCKET_MEMORY);
        }
        // For no kind of frame: this socket only sends.
        let bound = sys::bind(&socket, &sys::packet_address(of.index(), 0));
        bound.map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => NetIfError::Gone { index: of.index() },
            _ => what("bind")(e),
        })?;
        Ok(PacketTx {
            ring,
            socket,
            next: 0,
            unsent: false,
            mtu,
            counters: c.counters,
            counts,
            events,
            scratch: Vec::new(),
        })
    }

    fn offer<P: Outgoing + Packet>(&mut self, burst: &mut Burst<P>) -> usize {
        let room = self.ring.tx_room() - VNET_HEADER;
        let longest = room.min((self.mtu.load(Relaxed) + BEYOND_MTU) as usize);
        let (mut taken, mut bytes, mut bad) = (0, 0, 0);
        for p in burst.as_slice() {
            let tag = p.tag();
            let len = p.len() as usize + if tag.is_some() { 4 } else { 0 };
            if len > longest || len < SHORTEST {
                (taken, bad) = (taken + 1, bad + 1);
                continue;
            }
            // Looked at right before writing: nothing else tells whose a slot is (bug case 34).
            if self.ring.tx_slot(self.next) != TxSlot::Free {
                self.counts.ring_full.add(1);
                break;
            }
            let to = self.ring.tx_data(self.next);
            let header = VnetHeader::headers_only(if len <= COPIED_WHOLE { len as u16 } else { 0 });
            // SAFETY: the slot is ours and has room for header and frame, `len` <= `room` being checked above.
            unsafe {
                ptr::copy_nonoverlapping(header.as_ptr(), to, VNET_HEADER);
                let mut to = to.add(VNET_HEADER);
                if p.segment_count() == 1 && tag.is_none() {
                    ptr::copy_nonoverlapping(p.data().as_ptr(), to, len);
                } else {
                    self.scratch.clear();
                    gather(p, &mut self.scratch);
                    let n = self.scratch.len().min(len);
                    ptr::copy_nonoverlapping(self.scratch.as_ptr(), to, n);
                    to = to.add(n);
                    to.write_bytes(0, len - n);
                }
            }
            self.ring.submit(self.next, (VNET_HEADER + len) as u32);
            self.next = self.ring.after(self.next);
            self.unsent = true;
            taken += 1;
            bytes += len as u64;
        }
        if self.unsent {
            self.kick();
        }
        self.counters.packets.add((taken - bad) as u64);
        self.counters.bytes.add(bytes);
        if bad > 0 {
            self.counts.bad_length.add(bad as u64);
            self.counters.errors.add(bad as u64);
        }
        burst.free_front(taken);
        taken
    }

    /// Lets the kernel send what was submitted, and sees whether it took everything.
    #[inline]
    fn kick(&mut self) {
        self.counts.kicks.add(1);
        if let Err(e) = sys::send(&self.socket, &[], libc::MSG_DONTWAIT) {
            self.kick_failed(&e);
            // That the interface was down once is told by the first call afterwards, which then sends nothing.
            if e.raw_os_error() == Some(libc::ENETDOWN) {
                let _ = sys::send(&self.socket, &[], libc::MSG_DONTWAIT);
            }
        }
        // The kernel goes through the ring in order: what it did with the last tells of all.
        let last = if self.next == 0 { self.ring.slots() - 1 } else { self.next - 1 };
        self.unsent = self.ring.tx_slot(last) == TxSlot::Waiting;
    }

    #[cold]
    #[inline(never)]
    fn kick_failed(&self, e: &io::Error) {
        match e.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => self.counts.again.add(1),
            Some(libc::ENOBUFS | libc::ENOMEM) => self.counts.no_buffers.add(1),
            Some(libc::ENETDOWN) => self.counts.link_down.add(1),
            Some(libc::ENXIO | libc::ENODEV) => {
                self.counts.kick_errors.add(1);
                self.events.removed();
            }
            _ => self.counts.kick_errors.add(1),
        }
    }

    /// Takes back what the kernel has not taken. Its own place in the ring is then where ours is again.
    fn discard(&mut self) {
        let mut lost = 0;
        for _ in 0..self.ring.slots() {
            let last = if self.next == 0 { self.ring.slots() - 1 } else { self.next - 1 };
            if self.ring.tx_slot(last) != TxSlot::Waiting {
                break;
            }
            self.ring.retract(last);
            self.next = last;
            lost += 1;
        }
        self.unsent = false;
        self.counts.discarded_at_stop.add(lost);
    }
}

impl TxDriver for PacketTx {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn stop(&mut self) {
        if self.unsent {
            self.kick();
        }
        self.discard();
    }

    #[inline]
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.offer(burst)
    }

    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        self.offer(burst)
    }

    fn flush(&mut self) {
        if self.unsent {
            self.kick();
        }
    }

    fn has_end_of_poll(&self) -> bool {
        true
    }

    #[inline]
    fn end_of_poll(&mut self) {
        if self.unsent {
            self.kick();
        }
    }

    fn reclaim(&mut self) -> usize {
        self.flush();
        // What is on its way lies right before the next slot.
        let mut i = self.next;
        let before = |i: usize| if i == 0 { self.ring.slots() - 1 } else { i - 1 };
        let on_their_way = (0..self.ring.slots()).take_while(|_| {
            i = before(i);
            self.ring.tx_slot(i) != TxSlot::Free
        });
        on_their_way.count()
    }
}
