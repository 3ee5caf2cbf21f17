//! Freeing: the fast path of one plain segment, and everything else out of line.

use crate::{
    count::{self, ORDERS},
    ext::ExtShared,
    header::{Header, SEG_ATTACHED, SEG_CHAINED, SEG_EXTERNAL},
    raw::{SEG_FOREIGN, pool_of},
};
use core::{
    mem::ManuallyDrop,
    ptr::{self, NonNull},
};
use std::sync::atomic::Ordering::Relaxed;

/// Frees a packet that the caller owns alone (an `Mbuf`).
///
/// # Safety
///
/// `h` heads a packet owned by the caller, with a reference count of 1 on its first segment.
#[inline(always)]
pub(crate) unsafe fn free_unique(h: NonNull<Header>) {
    let h = h.as_ptr();
    // SAFETY: owned by the caller; with no segment flag it is in the in-pool state already.
    unsafe {
        if (*h).seg_flags == 0 {
            pool_of(h).put_one(h);
        } else {
            free_chain(h);
        }
    }
}

/// Frees packets that the caller owns alone, in bulk.
///
/// # Safety
///
/// As for [`free_unique`], for each of the `n` headers at `hs`.
#[inline(always)]
pub(crate) unsafe fn free_unique_bulk(hs: *const *mut Header, n: usize) {
    if n == 0 {
        return;
    }
    // SAFETY: all are owned by the caller and live.
    unsafe {
        let first = *hs;
        let pool = (*first).pool;
        // One pass over first lines: is everything plain and of one pool? No branch in the loop.
        let mut odd = 0usize;
        for i in 0..n {
            let h = *hs.add(i);
            odd |= ((*h).pool as usize ^ pool as usize) | (*h).seg_flags as usize;
        }
        if odd == 0 {
            pool_of(first).put(hs, n as u32);
        } else {
            free_mixed(core::slice::from_raw_parts(hs, n));
        }
    }
}

/// Packets of several pools, or of several segments: runs of plain ones still go back in bulk.
#[cold]
#[inline(never)]
unsafe fn free_mixed(hs: &[*mut Header]) {
    let mut left = hs;
    while let Some((&h, behind)) = left.split_first() {
        // SAFETY: owned by the caller and live.
        unsafe {
            if (*h).seg_flags != 0 {
                free_chain(h);
                left = behind;
                continue;
            }
            let more = behind.iter().take_while(|&&g| (*g).seg_flags == 0 && (*g).pool == (*h).pool).count();
            pool_of(h).put(left.as_ptr(), 1 + more as u32);
            left = &behind[more..];
        }
    }
}

/// Drops one reference to a packet's first segment; the last one frees the packet (a `SharedMbuf`).
///
/// # Safety
///
/// The caller holds one reference to `h`.
#[inline(always)]
pub(crate) unsafe fn free_shared(h: NonNull<Header>) {
    // SAFETY: the reference keeps it live; the last holder owns it alone.
    unsafe {
        if count::decrement(&(*h.as_ptr()).refcnt, ORDERS) {
            free_unique(h);
        }
    }
}

/// Drops one reference to each of `n` packets; those that it was the last for are freed in bulk.
///
/// # Safety
///
/// The caller holds one reference for each of the `n` headers at `hs`, which it may also write.
#[inline]
pub(crate) unsafe fn free_shared_bulk(hs: *mut *mut Header, n: usize) {
    let mut last = 0;
    for i in 0..n {
        // SAFETY: each reference keeps its header live; last <= i, so what is overwritten was looked at.
        unsafe {
            let h = *hs.add(i);
            if count::decrement(&(*h).refcnt, ORDERS) {
                *hs.add(last) = h;
                last += 1;
            }
        }
    }
    // SAFETY: the first `last` are owned alone now.
    unsafe { free_unique_bulk(hs, last) }
}

/// Frees a packet segment by segment: its first one is the caller's alone, the others drop one reference.
///
/// # Safety
///
/// As for [`free_unique`].
#[cold]
#[inline(never)]
pub(crate) unsafe fn free_chain(first: *mut Header) {
    // SAFETY: the caller's promise. A header is home before what its bytes belonged to is let go, since that
    // may run a callback of the user's, which may panic.
    unsafe {
        let _rest = unlink(first);
        let _foreign = take_foreign(first);
        pool_of(first).put_one(first);
    }
}

/// The segments that were cut off a packet: one reference to each, dropped with this.
///
/// The link is taken off a segment before its reference is dropped, since afterwards it may be somebody else's.
pub(crate) struct Rest(*mut Header);

impl Rest {
    /// Their first header, or null.
    pub(crate) fn head(&self) -> *mut Header {
        self.0
    }

    /// Their first header (or null), given up to the caller.
    pub(crate) fn into_head(self) -> *mut Header {
        ManuallyDrop::new(self).0
    }
}

impl Drop for Rest {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: `unlink` made us from a chain of its caller's.
            unsafe { free_rest(self.0) }
        }
    }
}

#[inline(never)]
unsafe fn free_rest(mut h: *mut Header) {
    while !h.is_null() {
        // SAFETY: the chain held one reference to each. `behind` frees the others if a callback panics.
        unsafe {
            let behind = unlink(h);
            if count::decrement(&(*h).refcnt, ORDERS) {
                let _foreign = take_foreign(h);
                pool_of(h).put_one(h);
            }
            h = behind.into_head();
        }
    }
}

/// Cuts a segment from what follows it, and returns that; the second line is read only if the flag says so.
///
/// # Safety
///
/// The caller owns the chain in which `h` is.
#[inline(always)]
pub(crate) unsafe fn unlink(h: *mut Header) -> Rest {
    // SAFETY: the caller's promise.
    unsafe {
        if (*h).seg_flags & SEG_CHAINED == 0 {
            return Rest(ptr::null_mut());
        }
        let next = (*h).next;
        (*h).next = ptr::null_mut();
        (*h).nb_segs = 1;
        (*h).seg_flags &= !SEG_CHAINED;
        Rest(next)
    }
}

/// One reference to whatever a header's bytes belonged to, dropped with this.
pub(crate) struct Foreign {
    flags: u8,
    owner: *mut (),
}

impl Drop for Foreign {
    #[inline(always)]
    fn drop(&mut self) {
        if self.flags != 0 {
            // SAFETY: `take_foreign` took the reference over from the header.
            unsafe { release(self.flags, self.owner) }
        }
    }
}

/// # Safety
///
/// `owner` is what `flags` say, and the caller gives up one reference to it.
#[inline]
unsafe fn release(flags: u8, owner: *mut ()) {
    // SAFETY: the caller's promise.
    unsafe {
        if flags & SEG_ATTACHED != 0 {
            let parent = owner.cast::<Header>();
            if count::decrement(&(*parent).refcnt, ORDERS) {
                // It was kept for us only; whatever is still linked behind it goes with it.
                free_unique(NonNull::new_unchecked(parent));
            }
        } else {
            ExtShared::release(NonNull::new_unchecked(owner.cast()));
        }
    }
}

/// Gives a header its own memory back; with it unlinked, that is the in-pool state. What its bytes belonged to
/// is let go when the result is dropped.
///
/// Offset and lengths stay, and may not fit the header's own memory: the caller sets them before anybody looks.
///
/// # Safety
///
/// `h` is owned by the caller alone.
#[inline(always)]
pub(crate) unsafe fn take_foreign(h: *mut Header) -> Foreign {
    // SAFETY: the caller's promise; an owner counts us until the result is dropped.
    unsafe {
        let flags = (*h).seg_flags & SEG_FOREIGN;
        if flags == 0 {
            return Foreign { flags, owner: ptr::null_mut() };
        }
        let owner = (*h).owner;
        let pool = pool_of(h);
        (*h).owner = ptr::null_mut();
        (*h).buf_addr = pool.memory_of(h);
        (*h).buf_len = pool.buf_len;
        (*h).seg_flags &= !(SEG_ATTACHED | SEG_EXTERNAL);
        debug_assert_eq!((*h).refcnt.load(Relaxed), 1);
        Foreign { flags, owner }
    }
}
