//! The unique, writable packet buffer.

use crate::{
    ExtSlice, Header, OlFlags, PacketType, RxTemplate, Segments, SharedMbuf, TxOffload, free,
    header::{HEADER_BYTES, SEG_EXTERNAL},
    raw::pool_of,
    segments::{self, data_ptr, last},
};
use core::{fmt, mem::ManuallyDrop, ptr::NonNull, slice};

/// A packet that nobody else has: all its segments may be read and written. Dropping it frees it.
///
/// It is not `Clone`; [`share`](Self::share) gives it up for a counted, read-only [`SharedMbuf`].
#[repr(transparent)]
pub struct Mbuf(NonNull<Header>);

// SAFETY: it owns its segments alone; its pool takes them back from any thread.
unsafe impl Send for Mbuf {}
// SAFETY: through `&Mbuf` nothing is written.
unsafe impl Sync for Mbuf {}

impl Mbuf {
    /// # Safety
    ///
    /// `h` heads a packet that the caller owns alone, all segments writable.
    #[inline(always)]
    pub(crate) unsafe fn from_header(h: NonNull<Header>) -> Self {
        Mbuf(h)
    }

    /// Gives up ownership without freeing.
    #[inline(always)]
    pub(crate) fn into_header(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: owned and live.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn header_mut(&mut self) -> &mut Header {
        // SAFETY: owned alone and live.
        unsafe { self.0.as_mut() }
    }

    /// The bytes of the first segment.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // SAFETY: owned; borrowed for as long as `self`.
        unsafe { segments::data(self.0.as_ptr()) }
    }

    /// The bytes of the first segment, to be changed.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: owned alone; data_off + data_len <= buf_len.
        unsafe { slice::from_raw_parts_mut(data_ptr(self.0.as_ptr()), self.header().data_len as usize) }
    }

    /// The bytes of every segment in order.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        // SAFETY: owned; borrowed for as long as `self`.
        unsafe { Segments::new(self.0.as_ptr()) }
    }

    /// Calls `f` with the bytes of every segment in order, to be changed.
    pub fn for_each_segment_mut(&mut self, mut f: impl FnMut(&mut [u8])) {
        let mut h = self.0.as_ptr();
        while !h.is_null() {
            // SAFETY: all segments are ours alone; the slices do not overlap and end with the call.
            unsafe {
                f(slice::from_raw_parts_mut(data_ptr(h), (*h).data_len as usize));
                h = segments::following(h);
            }
        }
    }

    /// Length of the whole packet in bytes.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.header().pkt_len
    }

    /// Whether the packet has no byte.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Segments of the packet, 1 or more.
    #[inline(always)]
    pub fn segment_count(&self) -> u16 {
        self.header().nb_segs
    }

    /// Free bytes in front of the first segment's data.
    #[inline(always)]
    pub fn headroom(&self) -> u16 {
        self.header().data_off
    }

    /// Free bytes behind the last segment's data.
    #[inline]
    pub fn tailroom(&self) -> u16 {
        // SAFETY: owned and live.
        unsafe { segments::tailroom(last(self.0.as_ptr())) }
    }

    /// Extends the packet by `n` bytes at the end of its last segment and returns them (with whatever they
    /// held); `None`, and no change, if the tailroom is smaller.
    #[inline]
    pub fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        // SAFETY: owned alone; the new bytes lie within the last segment's buffer.
        unsafe {
            let tail = last(self.0.as_ptr());
            let pkt_len = (n <= segments::tailroom(tail) as usize)
                .then(|| self.header().pkt_len.checked_add(n as u32))??;
            let start = data_ptr(tail).add((*tail).data_len as usize);
            (*tail).data_len += n as u16;
            self.header_mut().pkt_len = pkt_len;
            Some(slice::from_raw_parts_mut(start, n))
        }
    }

    /// Extends the packet by `n` bytes at its front and returns them; `None`, and no change, if the headroom
    /// is smaller.
    #[inline]
    pub fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        let h = self.header_mut();
        // In 32 bits, which keeps the loads of the 16-bit fields 16 bits wide: see `segments::tailroom`.
        let (headroom, data_len) = (u32::from(h.data_off), u32::from(h.data_len));
        let n32 = u32::try_from(n).ok().filter(|&n| n <= headroom)?;
        let pkt_len = h.pkt_len.checked_add(n32)?;
        h.data_off = (headroom - n32) as u16;
        h.data_len = (data_len + n32) as u16; // headroom + data <= 65535, so the sum is too
        h.pkt_len = pkt_len;
        // SAFETY: the bytes lie in the former headroom.
        Some(unsafe { slice::from_raw_parts_mut(data_ptr(h), n) })
    }

    /// Takes `n` bytes off the front of the first segment; false, and no change, if it has fewer.
    #[inline]
    #[must_use]
    pub fn adj(&mut self, n: usize) -> bool {
        let h = self.header_mut();
        if n > h.data_len as usize {
            return false;
        }
        h.data_off += n as u16;
        h.data_len -= n as u16;
        h.pkt_len -= n as u32;
        true
    }

    /// Takes `n` bytes off the end of the last segment; false, and no change, if it has fewer.
    #[inline]
    #[must_use]
    pub fn trim(&mut self, n: usize) -> bool {
        // SAFETY: owned alone and live.
        unsafe {
            let tail = last(self.0.as_ptr());
            if n > (*tail).data_len as usize {
                return false;
            }
            (*tail).data_len -= n as u16;
        }
        self.header_mut().pkt_len -= n as u32;
        true
    }

    /// Makes the packet empty again, with the pool's headroom and one segment; further segments are freed.
    ///
    /// External memory stays attached, and has no headroom.
    #[inline]
    pub fn reset(&mut self) {
        let h = self.0.as_ptr();
        // SAFETY: owned alone; the rest of the chain is ours to free, and goes once the header is whole.
        unsafe {
            let _rest = free::unlink(h);
            RxTemplate::blank(&pool_of(h).rearm).apply(h);
            if (*h).seg_flags & SEG_EXTERNAL != 0 {
                (*h).data_off = 0;
            }
        }
    }

    /// `len` bytes from `off` on: borrowed where they lie in one segment, else gathered in `bounce`.
    ///
    /// `None` if the packet ends before `off + len` (computed without wrapping) or `bounce` is too small.
    pub fn read<'a>(&'a self, off: u32, len: u32, bounce: &'a mut [u8]) -> Option<&'a [u8]> {
        // SAFETY: owned; borrowed for as long as `self`.
        unsafe { segments::read(self.0.as_ptr(), off, len, bounce) }
    }

    /// Gives up the right to write: the packet becomes counted and read-only. Costs nothing.
    #[inline(always)]
    pub fn share(self) -> SharedMbuf {
        // SAFETY: the one reference that the count of 1 stands for is the new handle's.
        unsafe { SharedMbuf::from_header(self.into_header()) }
    }

    /// Lets the packet's first segment carry external memory instead of its own; the packet becomes empty with
    /// no headroom, and [`append`](Self::append) uncovers the slice's bytes.
    ///
    /// An external slice that it carried before is given back.
    pub fn attach_external(&mut self, slice: ExtSlice) {
        let slice = ManuallyDrop::new(slice);
        let h = self.0.as_ptr();
        // SAFETY: owned alone; the slice's reference passes to the header, whose free gives it back. The header
        // is whole before what it had is let go.
        unsafe {
            let _rest = free::unlink(h);
            let _before = free::take_foreign(h);
            (*h).buf_addr = slice.start.as_ptr();
            (*h).buf_len = slice.len;
            (*h).owner = slice.shared.as_ptr().cast();
            (*h).seg_flags = SEG_EXTERNAL;
            (*h).data_off = 0;
            (*h).data_len = 0;
            (*h).pkt_len = 0;
        }
    }

    /// Gives external memory back and returns to the buffer's own, empty; no effect without external memory.
    pub fn detach_external(&mut self) {
        if self.has_external() {
            // SAFETY: owned alone; the header is whole before the external memory is let go.
            let _before = unsafe { free::take_foreign(self.0.as_ptr()) };
            self.reset();
        }
    }

    /// Whether the first segment carries external memory.
    #[inline]
    pub fn has_external(&self) -> bool {
        self.header().seg_flags & SEG_EXTERNAL != 0
    }

    /// Whether the buffer's own memory is that of a pool whose data lies in memory given from outside.
    pub fn is_pinned_external(&self) -> bool {
        self.pool_inner().data.is_some()
    }

    fn pool_inner(&self) -> &crate::pool::PoolInner {
        // SAFETY: live.
        unsafe { pool_of(self.0.as_ptr()) }
    }

    /// Name of the pool it returns to.
    pub fn pool_name(&self) -> &str {
        &self.pool_inner().name
    }

    /// The buffer's user area; what is written there stays with the buffer, also through the pool.
    pub fn user_area(&mut self) -> &mut [u8] {
        let len = self.pool_inner().private.into();
        // SAFETY: the user area lies right behind the header, within its stride, and is ours alone.
        unsafe { slice::from_raw_parts_mut(self.0.as_ptr().cast::<u8>().add(HEADER_BYTES), len) }
    }

    pub(crate) fn dynamic_mut(&mut self) -> &mut [u8; 32] {
        let h = self.header_mut();
        h.dynamic_used = 1;
        &mut h.dynamic
    }
}

/// Access to what a packet says about itself, the same for both kinds of packet.
macro_rules! metadata {
    ($ty:ty) => {
        impl $ty {
            /// The port that received it, or [`PORT_NONE`](crate::PORT_NONE).
            #[inline(always)]
            pub fn port(&self) -> u16 {
                self.header().port
            }
            /// Receive results and transmit requests.
            #[inline(always)]
            pub fn ol_flags(&self) -> OlFlags {
                self.header().ol_flags
            }
            /// Packet type; [`PacketType::UNKNOWN`] if nobody looked.
            #[inline(always)]
            pub fn packet_type(&self) -> PacketType {
                self.header().packet_type
            }
            /// VLAN tag control information, valid with a VLAN flag.
            #[inline(always)]
            pub fn vlan_tci(&self) -> u16 {
                self.header().vlan_tci
            }
            /// Outer VLAN tag, valid with a QinQ flag.
            #[inline(always)]
            pub fn vlan_tci_outer(&self) -> u16 {
                self.header().vlan_tci_outer
            }
            /// Receive hash, if the device computed one.
            #[inline(always)]
            pub fn rss_hash(&self) -> Option<u32> {
                self.header().ol_flags.contains(OlFlags::RX_RSS_HASH).then_some(self.header().rss_hash)
            }
            /// Mark of the flow rule that matched, if one did.
            #[inline(always)]
            pub fn mark(&self) -> Option<u32> {
                self.header().ol_flags.contains(OlFlags::RX_MARK).then_some(self.header().mark)
            }
            /// Time of reception in nanoseconds, if the port stamps.
            #[inline(always)]
            pub fn timestamp(&self) -> Option<u64> {
                self.header().ol_flags.contains(OlFlags::RX_TIMESTAMP).then_some(self.header().timestamp)
            }
            /// Header lengths that the transmit requests refer to.
            #[inline(always)]
            pub fn tx_offload(&self) -> TxOffload {
                self.header().tx_offload
            }
        }
    };
}
metadata!(Mbuf);
metadata!(SharedMbuf);

impl Mbuf {
    /// Says which port received it.
    #[inline(always)]
    pub fn set_port(&mut self, port: u16) {
        self.header_mut().port = port;
    }
    /// Sets all flags.
    #[inline(always)]
    pub fn set_ol_flags(&mut self, flags: OlFlags) {
        self.header_mut().ol_flags = flags;
    }
    /// Sets the packet type.
    #[inline(always)]
    pub fn set_packet_type(&mut self, t: PacketType) {
        self.header_mut().packet_type = t;
    }
    /// Sets the VLAN tag.
    #[inline(always)]
    pub fn set_vlan_tci(&mut self, tci: u16) {
        self.header_mut().vlan_tci = tci;
    }
    /// Sets the outer VLAN tag.
    #[inline(always)]
    pub fn set_vlan_tci_outer(&mut self, tci: u16) {
        self.header_mut().vlan_tci_outer = tci;
    }
    /// Sets the receive hash and its flag.
    #[inline(always)]
    pub fn set_rss_hash(&mut self, hash: u32) {
        let h = self.header_mut();
        h.rss_hash = hash;
        h.ol_flags |= OlFlags::RX_RSS_HASH;
    }
    /// Sets the flow mark and its flag.
    #[inline(always)]
    pub fn set_mark(&mut self, mark: u32) {
        let h = self.header_mut();
        h.mark = mark;
        h.ol_flags |= OlFlags::RX_MARK;
    }
    /// Sets the time of reception in nanoseconds and its flag.
    #[inline(always)]
    pub fn set_timestamp(&mut self, ns: u64) {
        let h = self.header_mut();
        h.timestamp = ns;
        h.ol_flags |= OlFlags::RX_TIMESTAMP;
    }
    /// Sets the header lengths for transmit requests.
    #[inline(always)]
    pub fn set_tx_offload(&mut self, t: TxOffload) {
        self.header_mut().tx_offload = t;
    }
}

impl Drop for Mbuf {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: owned alone, and not used again.
        unsafe { free::free_unique(self.0) }
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf")
            .field("len", &self.len())
            .field("segments", &self.segment_count())
            .field("port", &self.port())
            .field("ol_flags", &self.ol_flags())
            .field("pool", &self.pool_name())
            .finish_non_exhaustive()
    }
}
