//! Walking the segments of a packet, and reading across them.

use crate::header::{Header, SEG_CHAINED};
use core::{marker::PhantomData, slice};

/// The data of a packet's segments in order.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    next: *const Header,
    _packet: PhantomData<&'a [u8]>,
}

impl<'a> Segments<'a> {
    /// # Safety
    ///
    /// `first` heads a packet that lives and is not changed for `'a`.
    #[inline]
    pub(crate) unsafe fn new(first: *const Header) -> Self {
        Segments { next: first, _packet: PhantomData }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let h = self.next;
        if h.is_null() {
            return None;
        }
        // SAFETY: `new`'s promise.
        unsafe {
            self.next = following(h);
            Some(data(h))
        }
    }
}

/// The header behind `h` in its packet, or null. Reads the second line only if the first says there is one.
///
/// # Safety
///
/// `h` is live.
#[inline(always)]
pub(crate) unsafe fn following(h: *const Header) -> *mut Header {
    // SAFETY: the caller's promise.
    unsafe { if (*h).seg_flags & SEG_CHAINED == 0 { core::ptr::null_mut() } else { (*h).next } }
}

/// The last header of the packet.
///
/// # Safety
///
/// `h` heads a live packet.
#[inline]
pub(crate) unsafe fn last(mut h: *mut Header) -> *mut Header {
    // SAFETY: the caller's promise holds along the chain.
    unsafe {
        loop {
            let next = following(h);
            if next.is_null() {
                return h;
            }
            h = next;
        }
    }
}

/// Address of a segment's first data byte.
///
/// # Safety
///
/// `h` is live.
#[inline(always)]
pub(crate) unsafe fn data_ptr(h: *const Header) -> *mut u8 {
    // SAFETY: data_off lies within the buffer.
    unsafe { (*h).buf_addr.add((*h).data_off as usize) }
}

/// A segment's data.
///
/// # Safety
///
/// `h` is live and its data is not changed for `'a`.
#[inline(always)]
pub(crate) unsafe fn data<'a>(h: *const Header) -> &'a [u8] {
    // SAFETY: data_off + data_len <= buf_len always; pool and external memory is initialised.
    unsafe { slice::from_raw_parts(data_ptr(h), (*h).data_len as usize) }
}

/// Bytes behind a segment's data.
///
/// Computed in 32 bits: for 16-bit arithmetic the compiler loads 32 bits where alignment lets it, and such a load
/// waits for a 16-bit store to the field that is still under way.
///
/// # Safety
///
/// `h` is live.
#[inline(always)]
pub(crate) unsafe fn tailroom(h: *const Header) -> u16 {
    // SAFETY: the caller's promise.
    unsafe { (u32::from((*h).buf_len) - u32::from((*h).data_off) - u32::from((*h).data_len)) as u16 }
}

/// `len` bytes from `off` on: borrowed if they lie in one segment, else gathered in `bounce`; `None` if the
/// packet ends before (also when `off + len` passes 2^32: bug case 10) or `bounce` is too small.
///
/// # Safety
///
/// `h` heads a packet that lives and is not changed for `'a`.
#[allow(clippy::needless_lifetimes)] // named, because the promise above is about it
pub(crate) unsafe fn read<'a>(
    h: *const Header,
    off: u32,
    len: u32,
    bounce: &'a mut [u8],
) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    let (pkt_len, segments) = unsafe { ((*h).pkt_len, Segments::new(h)) };
    let end = u64::from(off) + u64::from(len);
    if end > pkt_len.into() {
        return None;
    }
    let (mut off, len) = (off as usize, len as usize);
    let mut got = 0;
    for seg in segments {
        if off > seg.len() || (off == seg.len() && len > 0) {
            off -= seg.len();
            continue;
        }
        let here = &seg[off..];
        if got == 0 && here.len() >= len {
            return Some(&here[..len]);
        }
        let n = here.len().min(len - got);
        bounce.get_mut(got..got + n)?.copy_from_slice(&here[..n]);
        got += n;
        off = 0;
        if got == len {
            return Some(&bounce[..len]);
        }
    }
    // A packet whose segments are shorter than its length says: refused.
    None
}
