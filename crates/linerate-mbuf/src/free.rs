//! Freeing: the fast path of one plain segment, and everything else out of line.

use crate::{
    count,
    ext::ExtShared,
    header::{Header, SEG_ATTACHED, SEG_CHAINED, SEG_EXTERNAL},
    raw::pool_of,
};
use core::ptr::{self, NonNull};
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
/// As for [`free_unique`], for each of them.
#[inline(always)]
pub(crate) unsafe fn free_unique_bulk(hs: &[*mut Header]) {
    let Some(&first) = hs.first() else { return };
    // SAFETY: all are owned by the caller and live.
    unsafe {
        let pool = (*first).pool;
        // One pass over first lines: is everything plain and of one pool? No branch in the loop.
        let mut odd = 0usize;
        for &h in hs {
            odd |= ((*h).pool as usize ^ pool as usize) | (*h).seg_flags as usize;
        }
        if odd == 0 {
            pool_of(first).put(hs.as_ptr(), hs.len() as u32);
        } else {
            free_mixed(hs);
        }
    }
}

/// Packets of several pools, or of several segments: runs of plain ones still go back in bulk.
#[cold]
#[inline(never)]
unsafe fn free_mixed(hs: &[*mut Header]) {
    let mut i = 0;
    while i < hs.len() {
        let h = hs[i];
        // SAFETY: owned by the caller and live.
        unsafe {
            if (*h).seg_flags != 0 {
                free_chain(h);
                i += 1;
                continue;
            }
            let run = hs[i..].iter().take_while(|&&g| (*g).seg_flags == 0 && (*g).pool == (*h).pool).count();
            pool_of(h).put(hs.as_ptr().add(i), run as u32);
            i += run;
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
        if count::decrement(&(*h.as_ptr()).refcnt, count::ORDERS) {
            free_unique(h);
        }
    }
}

/// Frees a packet segment by segment: its first one is the caller's alone, the others drop one reference.
///
/// # Safety
///
/// As for [`free_unique`].
#[cold]
#[inline(never)]
pub(crate) unsafe fn free_chain(first: *mut Header) {
    // SAFETY: the caller's promise.
    unsafe {
        let rest = unlink(first);
        restore(first);
        pool_of(first).put_one(first);
        free_rest(rest);
    }
}

/// Drops a chain's references to the segments from `h` (which may be null) on.
///
/// # Safety
///
/// `h` was just unlinked from a chain that the caller owns.
pub(crate) unsafe fn free_rest(mut h: *mut Header) {
    while !h.is_null() {
        // SAFETY: the chain held one reference to each; the link is taken off before it is dropped, since
        // afterwards the segment may be somebody else's.
        unsafe {
            let next = unlink(h);
            if count::decrement(&(*h).refcnt, count::ORDERS) {
                restore(h);
                pool_of(h).put_one(h);
            }
            h = next;
        }
    }
}

/// Cuts a segment from what follows it, and returns that; the second line is read only if the flag says so.
///
/// # Safety
///
/// The caller owns the chain in which `h` is.
#[inline]
pub(crate) unsafe fn unlink(h: *mut Header) -> *mut Header {
    // SAFETY: the caller's promise.
    unsafe {
        if (*h).seg_flags & SEG_CHAINED == 0 {
            return ptr::null_mut();
        }
        let next = (*h).next;
        (*h).next = ptr::null_mut();
        (*h).nb_segs = 1;
        (*h).seg_flags &= !SEG_CHAINED;
        next
    }
}

/// Gives back memory that is not the header's own, and restores the in-pool state.
///
/// # Safety
///
/// `h` is owned by the caller alone, and unlinked.
#[inline]
pub(crate) unsafe fn restore(h: *mut Header) {
    // SAFETY: the caller's promise; an owner counts us until we drop our reference here.
    unsafe {
        let flags = (*h).seg_flags;
        if flags == 0 {
            return;
        }
        let owner = (*h).owner;
        let pool = pool_of(h);
        let i = pool.index_of(h).expect("a header lies in its own pool");
        (*h).owner = ptr::null_mut();
        (*h).buf_addr = pool.own_memory(i);
        (*h).buf_len = pool.buf_len;
        (*h).seg_flags = 0;
        debug_assert_eq!((*h).refcnt.load(Relaxed), 1);
        if flags & SEG_ATTACHED != 0 {
            let parent = owner.cast::<Header>();
            if count::decrement(&(*parent).refcnt, count::ORDERS) {
                // The parent was kept for us only; whatever is still linked behind it goes with it.
                free_chain(parent);
            }
        } else if flags & SEG_EXTERNAL != 0 {
            ExtShared::release(NonNull::new_unchecked(owner.cast()));
        }
    }
}
