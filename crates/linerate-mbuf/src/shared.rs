//! The shared, read-only packet buffer.

use crate::{
    Header, Mbuf, Mempool, RxTemplate, Segments,
    chain::link,
    count::{self, ORDERS},
    ext::ExtShared,
    free,
    header::{SEG_ATTACHED, SEG_CHAINED, SEG_EXTERNAL},
    raw::{SEG_FOREIGN, pool_of},
    segments::{self, following, last},
};
use core::{cell::Cell, fmt, marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};
use std::sync::atomic::Ordering;

/// A packet that several may hold and nobody may write. Cloning and dropping count; the last drop frees.
///
/// A clone is the *same* buffer. [`attach`](Self::attach) instead makes a new header, from a pool, that refers
/// to the same bytes: it has its own offsets, lengths and flags, and can get its own headers in front.
///
/// It can be sent to another thread but not used from two at once: that is what lets a count of 1 be raised
/// without an atomic read-modify-write.
///
/// ```compile_fail
/// fn write(m: &mut linerate_mbuf::SharedMbuf) {
///     m.data_mut()[0] = 1; // a shared buffer cannot be written
/// }
/// ```
#[repr(transparent)]
pub struct SharedMbuf(NonNull<Header>, PhantomData<Cell<()>>);

// SAFETY: the count is atomic and orders the last drop behind all reads (count.rs).
unsafe impl Send for SharedMbuf {}

impl SharedMbuf {
    /// # Safety
    ///
    /// The caller passes on one reference to the packet that `h` heads.
    #[inline(always)]
    pub(crate) unsafe fn from_header(h: NonNull<Header>) -> Self {
        SharedMbuf(h, PhantomData)
    }

    /// Gives up ownership without dropping the reference.
    #[inline(always)]
    pub(crate) fn into_header(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: our reference keeps it live, and nobody writes while it is shared.
        unsafe { self.0.as_ref() }
    }

    /// The bytes of the first segment.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // SAFETY: live and read-only while we hold a reference.
        unsafe { segments::data(self.0.as_ptr()) }
    }

    /// The bytes of every segment in order.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        // SAFETY: live and read-only while we hold a reference.
        unsafe { Segments::new(self.0.as_ptr()) }
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

    /// How many hold this very header: clones, and headers [attached](Self::attach) to it.
    pub fn reference_count(&self) -> u16 {
        self.header().refcnt.load(Ordering::Relaxed)
    }

    /// As [`Mbuf::read`].
    pub fn read<'a>(&'a self, off: u32, len: u32, bounce: &'a mut [u8]) -> Option<&'a [u8]> {
        // SAFETY: live and read-only while we hold a reference.
        unsafe { segments::read(self.0.as_ptr(), off, len, bounce) }
    }

    /// Makes a packet of new headers from `pool` that refer to the same bytes, segment by segment, with the
    /// same metadata; `None` if the pool has too few. (DPDK's clone.)
    ///
    /// The bytes stay until the last header that refers to them is gone; the pools may differ in everything.
    ///
    /// # Panics
    ///
    /// Beyond 32767 references to one buffer; nothing is taken then.
    #[inline]
    pub fn attach(&self, pool: &Mempool) -> Option<SharedMbuf> {
        let h = NonNull::new(pool.inner().get_one())?;
        let first = self.0.as_ptr();
        // SAFETY: `h` is fresh from its pool and ours alone (as an Mbuf it goes back if counting panics); our
        // reference to the packet is the one that a count of 1 on its first header stands for.
        unsafe {
            attach_segment::<true>(first, Mbuf::from_header(h));
            (*h.as_ptr()).pkt_len = (*first).pkt_len;
            if (*first).seg_flags & SEG_CHAINED != 0 {
                return attach_rest(first, h, pool);
            }
            Some(SharedMbuf::from_header(h))
        }
    }

    /// Turns a buffer that the caller has into one that refers to this packet's first segment, with the same
    /// metadata; its own bytes, further segments and external memory are given up. (DPDK's attach.)
    ///
    /// # Panics
    ///
    /// Beyond 32767 references to one buffer.
    #[inline]
    pub fn attach_to(&self, mut m: Mbuf) -> SharedMbuf {
        if m.header().seg_flags != 0 {
            make_plain(&mut m);
        }
        // SAFETY: `m` is ours alone and plain; the count is ours, as in `attach`.
        unsafe { SharedMbuf::from_header(attach_segment::<true>(self.0.as_ptr(), m)) }
    }

    /// Gives an attached header its own memory back, as an empty packet; what it referred to loses one
    /// reference. (DPDK's detach.)
    ///
    /// # Errors
    ///
    /// Others hold this header, it refers to nobody's bytes, or it has several segments: it comes back.
    #[inline]
    pub fn detach(self) -> Result<Mbuf, SharedMbuf> {
        let h = self.header();
        if h.seg_flags != SEG_ATTACHED || !count::is_last(&h.refcnt) {
            return Err(self);
        }
        // SAFETY: the only reference; the header is whole before what it referred to is let go.
        unsafe {
            let h = self.into_header();
            let _bytes = free::take_foreign(h.as_ptr());
            RxTemplate::blank(&pool_of(h.as_ptr()).rearm).apply(h.as_ptr());
            Ok(Mbuf::from_header(h))
        }
    }

    /// Puts a packet's segments in front of this one: its own headers before shared bytes.
    ///
    /// This handle must be the only one on its first header (an attached one, say).
    ///
    /// # Errors
    ///
    /// Others hold the header, or the packet would get too long: both come back as they were.
    pub fn prepend_packet(self, head: Mbuf) -> Result<SharedMbuf, (SharedMbuf, Mbuf)> {
        let segs = u32::from(head.segment_count()) + u32::from(self.segment_count());
        let len = head.len().checked_add(self.len());
        let (true, Some(len)) =
            (count::is_last(&self.header().refcnt) && segs <= crate::chain::MAX_SEGMENTS.into(), len)
        else {
            return Err((self, head));
        };
        let head = head.into_header();
        // SAFETY: both packets are ours alone: the mbuf by type, ours by the count.
        unsafe {
            link(last(head.as_ptr()), self.into_header());
            (*head.as_ptr()).nb_segs = segs as u16;
            (*head.as_ptr()).pkt_len = len;
            Ok(SharedMbuf::from_header(head))
        }
    }

    /// Makes the packet unique and writable again if this is the only reference to every part of it.
    ///
    /// # Errors
    ///
    /// Others still hold the packet or its bytes, or its bytes are another packet's: it comes back.
    #[inline(always)]
    pub fn try_unique(self) -> Result<Mbuf, SharedMbuf> {
        let h = self.header();
        // Both in the first line, and nothing else to look at for a plain packet.
        if h.seg_flags == 0 && count::is_last(&h.refcnt) {
            // SAFETY: its only segment is ours alone, and its bytes are its own.
            return Ok(unsafe { Mbuf::from_header(self.into_header()) });
        }
        self.try_unique_slow()
    }

    /// For packets of several segments, or with bytes that are not the header's own, or shared ones.
    #[cold]
    #[inline(never)]
    fn try_unique_slow(self) -> Result<Mbuf, SharedMbuf> {
        let mut h = self.0.as_ptr();
        while !h.is_null() {
            // SAFETY: live while we hold a reference; an external count is live while the header is.
            unsafe {
                let flags = (*h).seg_flags;
                let external_alone = flags & SEG_EXTERNAL == 0
                    || ExtShared::users(NonNull::new_unchecked((*h).owner.cast())) == 1;
                if !count::is_last(&(*h).refcnt) || flags & SEG_ATTACHED != 0 || !external_alone {
                    return Err(self);
                }
                h = following(h);
            }
        }
        // SAFETY: every segment is ours alone.
        Ok(unsafe { Mbuf::from_header(self.into_header()) })
    }
}

/// Gives up all that a buffer has beside its own memory.
#[cold]
#[inline(never)]
fn make_plain(m: &mut Mbuf) {
    m.detach_external();
    m.reset();
}

/// Makes `to` refer to `from`'s bytes, as a packet of one segment, with `from`'s metadata.
///
/// # Safety
///
/// `from` is live, and the caller's reference to its packet keeps it so. `to` is plain. With `FIRST`, that
/// reference is one on `from` itself, and the handle it belongs to is not used by another thread.
#[inline(always)]
unsafe fn attach_segment<const FIRST: bool>(from: *mut Header, to: Mbuf) -> NonNull<Header> {
    // SAFETY: `to` is ours alone; `from` is live. The owner of the bytes is counted before we refer to it, and
    // `to` frees itself if that panics.
    unsafe {
        let flags = (*from).seg_flags & SEG_FOREIGN;
        let owner = if flags == 0 {
            if FIRST {
                count::increment(&(*from).refcnt, ORDERS);
            } else {
                // Held by its packet, which several threads may hold: their looks at the count can coincide.
                count::increment_shared(&(*from).refcnt);
            }
            from.cast()
        } else {
            retain_owner(from, flags);
            (*from).owner
        };
        let h = to.into_header();
        let to = h.as_ptr();
        (*to).owner = owner;
        (*to).seg_flags = if flags == 0 { SEG_ATTACHED } else { flags };
        (*to).buf_addr = (*from).buf_addr;
        (*to).buf_len = (*from).buf_len;
        (*to).data_off = (*from).data_off;
        (*to).port = (*from).port;
        (*to).ol_flags = (*from).ol_flags;
        (*to).packet_type = (*from).packet_type;
        (*to).pkt_len = (*from).data_len.into();
        (*to).data_len = (*from).data_len;
        (*to).vlan_tci = (*from).vlan_tci;
        (*to).rss_hash = (*from).rss_hash;
        (*to).tx_offload = (*from).tx_offload;
        (*to).mark = (*from).mark;
        if (*from).ol_flags.intersects(SECOND_LINE) || (*from).dynamic_used | (*to).dynamic_used != 0 {
            second_line(from, to);
        }
        h
    }
}

/// Copies the metadata of the second line.
///
/// # Safety
///
/// `from` is live, `to` the caller's alone.
#[cold]
#[inline(never)]
unsafe fn second_line(from: *const Header, to: *mut Header) {
    // SAFETY: the caller's promise.
    unsafe {
        (*to).timestamp = (*from).timestamp;
        (*to).vlan_tci_outer = (*from).vlan_tci_outer;
        (*to).dynamic = (*from).dynamic;
        (*to).dynamic_used |= (*from).dynamic_used;
    }
}

/// Flags that say something of the second line is in use.
const SECOND_LINE: crate::OlFlags =
    crate::OlFlags::RX_TIMESTAMP.union(crate::OlFlags::RX_QINQ).union(crate::OlFlags::TX_QINQ);

/// Counts one more user of what `from` itself only refers to. Several threads may do so at once through
/// clones of `from`, so this is a read-modify-write always.
///
/// # Safety
///
/// `from` is live and its flags are `flags`, not 0.
#[cold]
unsafe fn retain_owner(from: *mut Header, flags: u8) {
    // SAFETY: the owner lives while `from` does.
    unsafe {
        if flags & SEG_ATTACHED != 0 {
            count::increment_shared(&(*(*from).owner.cast::<Header>()).refcnt);
        } else {
            ExtShared::retain(NonNull::new_unchecked((*from).owner.cast()));
        }
    }
}

/// Attaches to the segments behind `first`; on failure frees what was made.
///
/// # Safety
///
/// `first` is live; `head` is a new header of the caller's.
#[cold]
unsafe fn attach_rest(first: *mut Header, head: NonNull<Header>, pool: &Mempool) -> Option<SharedMbuf> {
    // SAFETY: the caller's promise holds along the chain.
    unsafe {
        // Dropping this on failure frees the part that is there.
        let made = SharedMbuf::from_header(head);
        let (mut from, mut to) = (following(first), head.as_ptr());
        while !from.is_null() {
            let next = Mbuf::from_header(NonNull::new(pool.inner().get_one())?);
            let next = attach_segment::<false>(from, next);
            link(to, next);
            to = next.as_ptr();
            from = following(from);
        }
        (*head.as_ptr()).nb_segs = (*first).nb_segs;
        Some(made)
    }
}

impl Clone for SharedMbuf {
    /// One more reference to the same packet.
    ///
    /// # Panics
    ///
    /// Beyond 32767 references to one buffer.
    #[inline(always)]
    fn clone(&self) -> Self {
        count::increment(&self.header().refcnt, ORDERS);
        SharedMbuf(self.0, PhantomData)
    }
}

impl From<Mbuf> for SharedMbuf {
    fn from(m: Mbuf) -> Self {
        m.share()
    }
}

impl Drop for SharedMbuf {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: our reference, not used again.
        unsafe { free::free_shared(self.0) }
    }
}

impl fmt::Debug for SharedMbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMbuf")
            .field("len", &self.len())
            .field("segments", &self.segment_count())
            .field("references", &self.reference_count())
            .finish_non_exhaustive()
    }
}
