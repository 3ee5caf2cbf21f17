//! What drivers need of a buffer and users must not have: addresses, re-arming, handing over.

use crate::{
    Mbuf, OlFlags, PacketType,
    header::{Header, SEG_ATTACHED, SEG_EXTERNAL},
    pool::PoolInner,
};
use core::ptr::NonNull;

/// What receive writes into every fresh buffer of a queue: the second and third sixteen bytes of its header,
/// made once and stored twice a packet.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct RxTemplate {
    /// Bytes 16-31: data offset, reference count, segments, port; flags.
    rearm: [u64; 2],
    /// Bytes 32-47: packet type, packet length; data length, VLAN tag, hash.
    fields: [u64; 2],
}

impl RxTemplate {
    #[inline(always)]
    pub(crate) fn blank(rearm: &[u64; 2]) -> Self {
        RxTemplate { rearm: *rearm, fields: [0; 2] }
    }

    /// A template for packets of this pool received on `port`.
    pub fn new(pool: &crate::Mempool, port: u16) -> Self {
        let mut rearm = pool.inner().rearm;
        rearm[0] = (rearm[0] & !(0xffff << 48)) | u64::from(port) << 48;
        RxTemplate { rearm, fields: [0; 2] }
    }

    /// The same with flags.
    #[inline]
    #[must_use]
    pub fn with_flags(mut self, flags: OlFlags) -> Self {
        self.rearm[1] = flags.bits();
        self
    }

    /// The same with a packet type and a length: every packet gets it.
    #[inline]
    #[must_use]
    pub fn with_packet(mut self, ptype: PacketType, len: u16) -> Self {
        self.fields[0] = u64::from(ptype.0) | u64::from(len) << 32;
        self.fields[1] = (self.fields[1] & !0xffff) | u64::from(len);
        self
    }

    /// Bytes of a buffer that headroom and length take: what a pool must have for it.
    #[inline(always)]
    pub(crate) fn end(&self) -> u32 {
        u32::from(self.rearm[0] as u16) + u32::from(self.fields[1] as u16)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn misfit(&self, pool: &crate::Mempool) -> ! {
        panic!(
            "a receive template of {} bytes for pool {}, whose buffers have {}",
            self.end(),
            pool.name(),
            pool.inner().buf_len
        );
    }

    /// Writes it into a header.
    ///
    /// # Safety
    ///
    /// `h` points to a header that the caller owns alone.
    #[inline(always)]
    pub(crate) unsafe fn apply(&self, h: *mut Header) {
        // SAFETY: bytes 16-47 of the header are plain integers (checked beside `Header`), 16-byte aligned, and
        // nobody else looks at them.
        unsafe {
            let at = h.cast::<[u64; 2]>();
            at.add(1).write(self.rearm);
            at.add(2).write(self.fields);
        }
    }
}

const _: () =
    assert!(cfg!(target_endian = "little"), "the template packs fields as a little-endian machine lays them");

/// A buffer as a device sees it: an address to be posted or sent, owned but without the type that frees it.
///
/// Losing one loses a buffer; it exists so that a driver's descriptor ring can hold what a device holds.
#[derive(Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct RawMbuf(NonNull<Header>);

// SAFETY: it owns its buffer alone, as an Mbuf does.
unsafe impl Send for RawMbuf {}

impl RawMbuf {
    /// Takes a buffer out of Rust's hands.
    #[inline(always)]
    pub fn from_mbuf(m: Mbuf) -> Self {
        RawMbuf(m.into_header())
    }

    /// Gives it back.
    ///
    /// # Safety
    ///
    /// No device still reads or writes the buffer.
    #[inline(always)]
    pub unsafe fn into_mbuf(self) -> Mbuf {
        // SAFETY: it came from an Mbuf and nothing was shared since.
        unsafe { Mbuf::from_header(self.0) }
    }

    /// Address of the first data byte.
    #[inline(always)]
    pub fn data_ptr(&self) -> *mut u8 {
        // SAFETY: owned and live; data_off lies within the buffer.
        unsafe {
            let h = self.0.as_ptr();
            (*h).buf_addr.add((*h).data_off as usize)
        }
    }

    /// Sets the lengths of a one-segment packet.
    ///
    /// # Panics
    ///
    /// If it does not fit behind the headroom.
    #[inline(always)]
    pub fn set_len(&mut self, len: u16) {
        // SAFETY: owned and live.
        unsafe {
            let h = self.0.as_ptr();
            let room = u32::from((*h).buf_len) - u32::from((*h).data_off);
            if u32::from(len) > room {
                too_long(len, room);
            }
            (*h).data_len = len;
            (*h).pkt_len = len.into();
        }
    }
}

#[cold]
#[inline(never)]
fn too_long(len: u16, room: u32) -> ! {
    panic!("a packet of {len} bytes in a buffer with room for {room}");
}

/// The flags that say the bytes are somebody else's.
pub(crate) const SEG_FOREIGN: u8 = SEG_ATTACHED | SEG_EXTERNAL;

/// The pool of a header.
///
/// # Safety
///
/// `h` is live.
#[inline(always)]
pub(crate) unsafe fn pool_of<'a>(h: *const Header) -> &'a PoolInner {
    // SAFETY: a header's pool outlives it.
    unsafe { &*(*h).pool }
}
