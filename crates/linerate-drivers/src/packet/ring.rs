//! A packet socket's ring in memory that the kernel writes too.
//!
// UNSAFETY: the mapping is `bytes` long until drop, and every access is at a slot below `slots` and an offset
// that is checked against the slot's size. The kernel writes it as well, so it is never a slice: status words are
// atomic, the rest of a slot is read and written by raw pointer only by whoever the status says.

use super::options::Shape;
use crate::netif::sys;
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// `TP_STATUS_KERNEL`, `TP_STATUS_AVAILABLE`: the slot is the kernel's to fill, or ours to send with.
const FREE: u32 = 0;
/// `TP_STATUS_USER`.
const USER: u32 = 1;
/// `TP_STATUS_COPY`: the whole frame is in the socket's queue.
pub(super) const COPIED: u32 = 1 << 1;
/// `TP_STATUS_LOSING`: frames were dropped since the counters were read.
pub(super) const LOSING: u32 = 1 << 2;
/// `TP_STATUS_VLAN_VALID`.
pub(super) const VLAN: u32 = 1 << 4;
/// `TP_STATUS_VLAN_TPID_VALID`.
pub(super) const VLAN_TPID: u32 = 1 << 6;
/// `TP_STATUS_SEND_REQUEST`.
const SEND: u32 = 1;
/// `TP_STATUS_WRONG_FORMAT`.
const WRONG: u32 = 4;

/// Where a frame to send starts in its slot: behind `struct tpacket2_hdr`.
const TX_DATA: usize = 32;

/// `SOL_PACKET` options.
const PACKET_RX_RING: i32 = 5;
const PACKET_TX_RING: i32 = 13;

/// What the kernel says about a received frame, copied out of the slot once.
#[derive(Clone, Copy, Debug)]
pub(super) struct RxHeader {
    pub(super) status: u32,
    /// Length on the wire.
    pub(super) len: u32,
    /// Length in the slot.
    pub(super) snaplen: u32,
    /// Where the frame starts in the slot.
    mac: u16,
    seconds: u32,
    nanoseconds: u32,
    vlan_tci: u16,
    vlan_tpid: u16,
    /// `PACKET_HOST`, `PACKET_OUTGOING`, …
    pub(super) kind: u8,
}

impl RxHeader {
    /// When the kernel received it, in nanoseconds since 1970.
    pub(super) fn time_ns(&self) -> u64 {
        u64::from(self.seconds) * 1_000_000_000 + u64::from(self.nanoseconds)
    }

    /// The VLAN tag that the kernel took out, as it stood on the wire.
    pub(super) fn tag(&self) -> Option<[u8; 4]> {
        let tpid = if self.status & VLAN_TPID != 0 { self.vlan_tpid } else { 0x8100 };
        let ([a, b], [c, d]) = (tpid.to_be_bytes(), self.vlan_tci.to_be_bytes());
        (self.status & VLAN != 0).then_some([a, b, c, d])
    }

    /// The tag's control information.
    pub(super) fn vlan_tci(&self) -> u16 {
        self.vlan_tci
    }
}

/// Whether a transmit slot may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TxSlot {
    /// It is ours.
    Free,
    /// We filled it and the kernel has not taken it.
    Waiting,
    /// The kernel has it.
    Busy,
}

/// A mapped ring of version 2.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    shape: Shape,
}

// SAFETY: the memory may be used from any thread; the queue that has the ring is used by one at a time.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes the receive ring (`rx`) or the transmit ring of a socket of version 2 and maps it.
    pub(super) fn map(socket: impl AsFd, shape: Shape, rx: bool) -> io::Result<Ring> {
        let request =
            [shape.block as u32, (shape.bytes() / shape.block) as u32, shape.slot as u32, shape.slots as u32];
        let option = if rx { PACKET_RX_RING } else { PACKET_TX_RING };
        sys::set_words(&socket, libc::SOL_PACKET, option, &request)?;
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), shape.bytes(), prot, flags, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Ring { base, shape })
    }

    /// Number of slots.
    #[inline(always)]
    pub(super) fn slots(&self) -> usize {
        self.shape.slots
    }

    /// The slot after this one.
    #[inline(always)]
    pub(super) fn after(&self, i: usize) -> usize {
        if i + 1 >= self.shape.slots { 0 } else { i + 1 }
    }

    /// Start of a slot.
    #[inline(always)]
    fn slot(&self, i: usize) -> *mut u8 {
        assert!(i < self.shape.slots, "no such slot");
        // SAFETY: within the mapping, as asserted.
        unsafe { self.base.as_ptr().add(i * self.shape.slot) }
    }

    #[inline(always)]
    fn status(&self, i: usize) -> &AtomicU32 {
        // SAFETY: a slot starts with its status word, aligned since slots are; the kernel accesses it as a whole.
        unsafe { AtomicU32::from_ptr(self.slot(i).cast()) }
    }

    /// Whether a frame lies in this slot; then it is ours until [`give_back`](Self::give_back).
    #[inline(always)]
    pub(super) fn is_filled(&self, i: usize) -> bool {
        // A1: pairs with K1, the kernel's write barrier between frame and status.
        self.status(i).load(Acquire) & USER != 0
    }

    /// Reads what the kernel says about the frame in a filled slot.
    #[inline(always)]
    pub(super) fn header(&self, i: usize) -> RxHeader {
        let slot = self.slot(i);
        let status = self.status(i).load(Relaxed); // `is_filled` has acquired it
        // SAFETY: struct tpacket2_hdr and sockaddr_ll (52 bytes) lie in every slot, which is ours; fields are
        // aligned to their size.
        unsafe {
            RxHeader {
                status,
                len: slot.add(4).cast::<u32>().read(),
                snaplen: slot.add(8).cast::<u32>().read(),
                mac: slot.add(12).cast::<u16>().read(),
                seconds: slot.add(16).cast::<u32>().read(),
                nanoseconds: slot.add(20).cast::<u32>().read(),
                vlan_tci: slot.add(24).cast::<u16>().read(),
                vlan_tpid: slot.add(26).cast::<u16>().read(),
                kind: slot.add(42).read(),
            }
        }
    }

    /// The bytes in a filled slot that end with its frame and begin `before` bytes ahead of it; `None` if the
    /// header lies.
    #[inline(always)]
    pub(super) fn frame(&self, i: usize, h: &RxHeader, before: usize) -> Option<*const u8> {
        let start = usize::from(h.mac);
        let inside = start >= 52 + before && start + h.snaplen as usize <= self.shape.slot;
        // SAFETY: start <= the slot's size, as checked.
        inside.then(|| unsafe { self.slot(i).add(start - before).cast_const() })
    }

    /// Gives a receive slot back to the kernel.
    #[inline(always)]
    pub(super) fn give_back(&self, i: usize) {
        // R2: our reads of the frame come before; pairs with K2.
        self.status(i).store(FREE, Release);
    }

    /// Whose a transmit slot is. One that the kernel refused is taken back.
    #[inline(always)]
    pub(super) fn tx_slot(&self, i: usize) -> TxSlot {
        // A4: pairs with K4, the kernel's last read of the frame.
        match self.status(i).load(Acquire) {
            FREE | WRONG => TxSlot::Free,
            SEND => TxSlot::Waiting,
            _ => TxSlot::Busy,
        }
    }

    /// Bytes that a transmit slot has for offload header and frame.
    pub(super) fn tx_room(&self) -> usize {
        self.shape.slot - TX_DATA
    }

    /// Where offload header and frame go in a free transmit slot: [`tx_room`](Self::tx_room) bytes.
    #[inline(always)]
    pub(super) fn tx_data(&self, i: usize) -> *mut u8 {
        // SAFETY: a slot has at least 256 bytes.
        unsafe { self.slot(i).add(TX_DATA) }
    }

    /// Hands a transmit slot with so many bytes to the kernel, which sees it at the next system call.
    #[inline(always)]
    pub(super) fn submit(&self, i: usize, bytes: u32) {
        // SAFETY: the length field of a slot that is ours.
        unsafe { self.slot(i).add(4).cast::<u32>().write(bytes) };
        // R3: the frame and its length come before; pairs with K3.
        self.status(i).store(SEND, Release);
    }

    /// Takes a transmit slot back that the kernel has not taken, while nobody kicks.
    pub(super) fn retract(&self, i: usize) {
        self.status(i).store(FREE, Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this length, and not used any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.shape.bytes()) };
    }
}
