//! A burst: the packets that move through one call to a port.

use crate::{Mbuf, SharedMbuf, free, header::Header};
use core::{
    fmt,
    marker::PhantomData,
    mem::{self, MaybeUninit},
    ptr::{self, NonNull},
};

/// Most packets in a burst.
pub const BURST_MAX: usize = 512;

mod sealed {
    use crate::header::Header;
    use core::ptr::NonNull;

    pub trait Sealed: Sized {
        fn into_raw(self) -> NonNull<Header>;
        /// # Safety
        ///
        /// `h` came from `into_raw` of the same type and is used once.
        unsafe fn from_raw(h: NonNull<Header>) -> Self;
        /// # Safety
        ///
        /// Each of the `n` at `hs` came from `into_raw` of the same type and is used once; `hs` may be written.
        unsafe fn free_bulk(hs: *mut *mut Header, n: usize);
    }
}
pub(crate) use sealed::Sealed;

/// A kind of packet that a [`Burst`] carries: [`Mbuf`] or [`SharedMbuf`].
pub trait Packet: Sealed {}

impl Packet for Mbuf {}
impl Packet for SharedMbuf {}

impl Sealed for Mbuf {
    #[inline(always)]
    fn into_raw(self) -> NonNull<Header> {
        self.into_header()
    }
    #[inline(always)]
    unsafe fn from_raw(h: NonNull<Header>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Mbuf::from_header(h) }
    }
    #[inline(always)]
    unsafe fn free_bulk(hs: *mut *mut Header, n: usize) {
        // SAFETY: each was an Mbuf, so it is owned alone.
        unsafe { free::free_unique_bulk(hs, n) }
    }
}

impl Sealed for SharedMbuf {
    #[inline(always)]
    fn into_raw(self) -> NonNull<Header> {
        self.into_header()
    }
    #[inline(always)]
    unsafe fn from_raw(h: NonNull<Header>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { SharedMbuf::from_header(h) }
    }
    #[inline(always)]
    unsafe fn free_bulk(hs: *mut *mut Header, n: usize) {
        // SAFETY: each was a SharedMbuf, so it stands for one reference.
        unsafe { free::free_shared_bulk(hs, n) }
    }
}

/// Up to [`BURST_MAX`] packets in order. Owns them: what is left when it is dropped is freed in bulk.
///
/// Receive appends to it, transmit takes from its front and leaves the unsent in it, so that no packet is ever
/// freed by hand or twice.
#[repr(C, align(64))]
pub struct Burst<P: Packet = Mbuf> {
    // First, so that vector moves of pointers cross no cache line.
    slots: [MaybeUninit<*mut Header>; BURST_MAX],
    len: usize,
    _packets: PhantomData<P>,
}

// SAFETY: it owns its packets, which are Send.
unsafe impl<P: Packet + Send> Send for Burst<P> {}

impl<P: Packet> Burst<P> {
    /// An empty burst.
    #[inline]
    pub fn new() -> Self {
        Burst { len: 0, slots: [const { MaybeUninit::uninit() }; BURST_MAX], _packets: PhantomData }
    }

    /// Packets in it.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Packets that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        BURST_MAX - self.len
    }

    /// Appends a packet.
    ///
    /// # Errors
    ///
    /// A full burst gives it back.
    #[inline(always)]
    pub fn push(&mut self, packet: P) -> Result<(), P> {
        let Some(slot) = self.slots.get_mut(self.len) else { return Err(packet) };
        slot.write(packet.into_raw().as_ptr());
        self.len += 1;
        Ok(())
    }

    /// Takes the last packet.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<P> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: slots below the old length are filled; this one now is not counted any more.
        Some(unsafe { P::from_raw(NonNull::new_unchecked(self.slots.get_unchecked(self.len).assume_init())) })
    }

    /// The packets in order.
    #[inline(always)]
    pub fn as_slice(&self) -> &[P] {
        // SAFETY: the first `len` slots are filled; a packet is a transparent non-null pointer to its header.
        unsafe { core::slice::from_raw_parts(self.slots.as_ptr().cast(), self.len) }
    }

    /// The packets in order, to be changed in place.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [P] {
        // SAFETY: as for `as_slice`; swapping packets among slots keeps each owned once.
        unsafe { core::slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast(), self.len) }
    }

    /// Frees all packets in bulk.
    #[inline(always)]
    pub fn free_all(&mut self) {
        let n = mem::take(&mut self.len);
        // SAFETY: the first `n` slots are filled, and not counted any more.
        unsafe { P::free_bulk(self.slots.as_mut_ptr().cast(), n) }
    }

    /// Frees the first `n` packets in bulk and moves the others to the front.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[inline(always)]
    pub fn free_front(&mut self, n: usize) {
        assert!(n <= self.len, "more packets to be freed than there are");
        let rest = self.len - n;
        // Counted as gone while they are freed: a callback that panics must not free them twice.
        self.len = 0;
        // SAFETY: the first `n` slots are filled; the `rest` behind them are filled too and move down.
        unsafe {
            P::free_bulk(self.slots.as_mut_ptr().cast(), n);
            if rest != 0 {
                let base = self.slots.as_mut_ptr();
                ptr::copy(base.add(n), base, rest);
            }
        }
        self.len = rest;
    }

    /// Takes all packets out in order.
    pub fn drain(&mut self) -> Drain<'_, P> {
        let end = mem::take(&mut self.len);
        Drain { slots: &self.slots, at: 0, end, _packets: PhantomData }
    }

    /// Moves as many of `other`'s packets as fit behind our own.
    pub fn append(&mut self, other: &mut Burst<P>) {
        let n = other.len.min(self.room());
        // SAFETY: both regions are in bounds; the moved ones are dropped from `other`'s count.
        unsafe {
            ptr::copy_nonoverlapping(other.slots.as_ptr(), self.slots.as_mut_ptr().add(self.len), n);
            self.len += n;
            other.remove_front(n);
        }
    }

    /// Keeps the packets for which `keep` holds and frees the others, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut P) -> bool) {
        let mut r = Retain { end: mem::take(&mut self.len), at: 0, kept: 0, burst: self };
        while r.at < r.end {
            // SAFETY: slots at..end are filled and each is taken once; kept <= at.
            unsafe {
                let mut p = P::from_raw(NonNull::new_unchecked(r.burst.slots[r.at].assume_init()));
                r.at += 1;
                if keep(&mut p) {
                    r.burst.slots[r.kept].write(p.into_raw().as_ptr());
                    r.kept += 1;
                }
            }
        }
    }

    // ---- for drivers

    /// Where a driver writes the headers of packets that it appends; call [`grow`](Self::grow) afterwards.
    #[inline(always)]
    pub(crate) fn spare(&mut self) -> *mut *mut Header {
        // SAFETY: len <= BURST_MAX: in bounds or one past.
        unsafe { self.slots.as_mut_ptr().add(self.len).cast() }
    }

    /// Counts `n` slots that were filled through [`spare`](Self::spare).
    ///
    /// # Safety
    ///
    /// They are filled with packets of kind `P` that the caller owns, and fit.
    #[inline(always)]
    pub(crate) unsafe fn grow(&mut self, n: usize) {
        debug_assert!(n <= self.room());
        self.len += n;
    }

    /// Appends up to `max` packets that `fill` moves to the given slots, and returns how many it did.
    ///
    /// For drivers that hold packets as raw pointers: `fill(slots, n)` gets room for `n = min(max, room)`.
    ///
    /// If `fill` panics, what it had written is lost.
    ///
    /// # Safety
    ///
    /// `fill` writes that many packets (as [`NonNull<Header>`]) of kind `P`, each owned by nobody else, to the
    /// front of the slots, and returns their number.
    #[inline(always)]
    pub unsafe fn fill_raw(
        &mut self,
        max: usize,
        fill: impl FnOnce(*mut NonNull<Header>, usize) -> usize,
    ) -> usize {
        let room = max.min(self.room());
        let n = fill(self.spare().cast(), room);
        debug_assert!(n <= room);
        self.len += n.min(room);
        n
    }

    /// Takes up to all packets from the front as raw pointers: `take(slots, len)` says how many it took over.
    ///
    /// # Safety
    ///
    /// `take` becomes the owner of the packets that it counts, and only of those.
    #[inline(always)]
    pub unsafe fn take_raw(&mut self, take: impl FnOnce(*const NonNull<Header>, usize) -> usize) -> usize {
        let n = take(self.slots.as_ptr().cast(), self.len).min(self.len);
        // SAFETY: they are the callee's now.
        unsafe { self.remove_front(n) };
        n
    }

    /// Forgets the first `n` and moves the others down.
    ///
    /// # Safety
    ///
    /// `n <= len`, and somebody else owns the first `n`.
    #[inline(always)]
    unsafe fn remove_front(&mut self, n: usize) {
        self.len -= n;
        if self.len != 0 && n != 0 {
            let base = self.slots.as_mut_ptr();
            // SAFETY: both regions lie within the filled slots.
            unsafe { ptr::copy(base.add(n), base, self.len) };
        }
    }
}

/// A burst in the middle of `retain`; dropping it closes the gap, also when `keep` panicked.
struct Retain<'a, P: Packet> {
    burst: &'a mut Burst<P>,
    at: usize,
    end: usize,
    kept: usize,
}

impl<P: Packet> Drop for Retain<'_, P> {
    fn drop(&mut self) {
        let base = self.burst.slots.as_mut_ptr();
        let rest = self.end - self.at;
        // SAFETY: slots at..end are filled and were not looked at; they move down behind the kept ones.
        unsafe { ptr::copy(base.add(self.at), base.add(self.kept), rest) };
        self.burst.len = self.kept + rest;
    }
}

impl<P: Packet> Default for Burst<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Packet> Drop for Burst<P> {
    fn drop(&mut self) {
        self.free_all();
    }
}

impl<P: Packet> fmt::Debug for Burst<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Burst").field("len", &self.len).finish()
    }
}

/// The packets of a burst, in order; what is not taken is freed.
#[derive(Debug)]
pub struct Drain<'a, P: Packet> {
    slots: &'a [MaybeUninit<*mut Header>; BURST_MAX],
    at: usize,
    end: usize,
    _packets: PhantomData<P>,
}

impl<P: Packet> Iterator for Drain<'_, P> {
    type Item = P;

    #[inline(always)]
    fn next(&mut self) -> Option<P> {
        if self.at == self.end {
            return None;
        }
        // SAFETY: slots at..end are filled and each is taken once.
        let h = unsafe { NonNull::new_unchecked(self.slots.get_unchecked(self.at).assume_init()) };
        self.at += 1;
        // SAFETY: it came from a packet of kind P.
        Some(unsafe { P::from_raw(h) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.at, Some(self.end - self.at))
    }
}

impl<P: Packet> ExactSizeIterator for Drain<'_, P> {}

impl<P: Packet> Drop for Drain<'_, P> {
    fn drop(&mut self) {
        for p in self.by_ref() {
            drop(p);
        }
    }
}
