//! Packets of several segments: joining, cutting, making them one.

use crate::{
    Header, Mbuf, SegmentError, free,
    header::SEG_CHAINED,
    segments::{self, data_ptr, following, last},
};
use core::ptr::{self, NonNull};

/// Most segments in a packet.
pub const MAX_SEGMENTS: u16 = 1024;

impl Mbuf {
    /// Appends all segments of `tail` to this packet.
    ///
    /// # Errors
    ///
    /// Too many segments or bytes: both packets come back as they were.
    // The error carries the refused packet back: dropping it here would lose a packet without saying so.
    pub fn chain(&mut self, tail: Mbuf) -> Result<(), (SegmentError, Mbuf)> {
        let wanted = u32::from(self.segment_count()) + u32::from(tail.segment_count());
        if wanted > MAX_SEGMENTS.into() {
            return Err((SegmentError::TooManySegments { wanted, max: MAX_SEGMENTS.into() }, tail));
        }
        let Some(pkt_len) = self.len().checked_add(tail.len()) else {
            return Err((SegmentError::TooLong, tail));
        };
        // SAFETY: both packets are ours alone.
        unsafe {
            link(last(self.header_mut()), tail.into_header());
        }
        let h = self.header_mut();
        h.nb_segs = wanted as u16;
        h.pkt_len = pkt_len;
        Ok(())
    }

    /// Cuts the packet before segment `at` and returns the segments from there on as a packet of their own.
    ///
    /// # Errors
    ///
    /// `at` is 0 or not below the number of segments; the packet is as it was.
    pub fn split_off(&mut self, at: u16) -> Result<Mbuf, SegmentError> {
        let segments = self.segment_count();
        if at == 0 || at >= segments {
            return Err(SegmentError::NoSuchSegment { at: at.into(), segments: segments.into() });
        }
        // SAFETY: the packet is ours alone; its chain has `segments` headers.
        let (rest, front_len) = unsafe {
            let mut h: *mut Header = self.header_mut();
            let mut front = u32::from((*h).data_len);
            for _ in 1..at {
                h = following(h);
                front += u32::from((*h).data_len);
            }
            // `unlink` makes `h` a last segment and resets its count, which only matters in the head.
            (free::unlink(h).into_head(), front)
        };
        let total = self.len();
        let h = self.header_mut();
        h.nb_segs = at;
        h.pkt_len = front_len;
        // SAFETY: unlinked just now, so it heads a packet of its own; there was a segment `at`.
        unsafe {
            let r = NonNull::new(rest).expect("the chain has as many headers as its head says");
            (*rest).nb_segs = segments - at;
            (*rest).pkt_len = total - front_len;
            Ok(Mbuf::from_header(r))
        }
    }

    /// Moves all bytes into the first segment and frees the others.
    ///
    /// # Errors
    ///
    /// The first segment has too little tailroom; the packet is as it was.
    pub fn linearize(&mut self) -> Result<(), SegmentError> {
        if self.segment_count() == 1 {
            return Ok(());
        }
        let need = self.len() - u32::from(self.header().data_len);
        // SAFETY: ours alone; tailroom was checked, and the segments lie apart.
        unsafe {
            let h: *mut Header = self.header_mut();
            let have = u32::from(segments::tailroom(h));
            if need > have {
                return Err(SegmentError::NoTailroom { have, need });
            }
            let rest = free::unlink(h);
            let mut s = rest.head();
            while !s.is_null() {
                let d = segments::data(s);
                let end = data_ptr(h).add((*h).data_len as usize);
                ptr::copy_nonoverlapping(d.as_ptr(), end, d.len());
                (*h).data_len += d.len() as u16;
                s = following(s);
            }
            drop(rest);
        }
        Ok(())
    }
}

/// Hangs a packet behind a last segment.
///
/// # Safety
///
/// `tail_of` is a last segment and `head` heads a packet, both owned by the caller.
pub(crate) unsafe fn link(tail_of: *mut Header, head: NonNull<Header>) {
    // SAFETY: the caller's promise. Inside a chain a header counts one segment.
    unsafe {
        (*tail_of).next = head.as_ptr();
        (*tail_of).seg_flags |= SEG_CHAINED;
        (*head.as_ptr()).nb_segs = 1;
    }
}
