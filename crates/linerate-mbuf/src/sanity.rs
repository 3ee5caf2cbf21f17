//! Checking a live packet field by field, for tests and for the moment when something is already wrong.

use crate::{
    Header, MAX_SEGMENTS, Mbuf, SharedMbuf,
    header::{SEG_ATTACHED, SEG_CHAINED, SEG_EXTERNAL},
    raw::pool_of,
};
use core::ptr;
use std::sync::atomic::Ordering::Relaxed;
use thiserror::Error;

/// What is wrong with a packet; segments count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SanityError {
    /// A segment belongs to no pool.
    #[error("segment {segment} belongs to no pool")]
    NoPool {
        /// The segment.
        segment: u32,
    },
    /// A segment's header is not one of its pool's.
    #[error("segment {segment} is no buffer of its pool")]
    NotOfPool {
        /// The segment.
        segment: u32,
    },
    /// A segment has no memory.
    #[error("segment {segment} has no memory")]
    NoMemory {
        /// The segment.
        segment: u32,
    },
    /// A segment's memory is not the one that its flags say.
    #[error("segment {segment} has memory or an owner that does not go with its flags {flags:#x}")]
    Owner {
        /// The segment.
        segment: u32,
        /// Its segment flags.
        flags: u8,
    },
    /// A reference count of 0, or (in a unique packet) of more than 1.
    #[error("segment {segment} has {references} references")]
    References {
        /// The segment.
        segment: u32,
        /// The count.
        references: u16,
    },
    /// Data outside the buffer.
    #[error("segment {segment}: {data_len} bytes from {data_off} on in a buffer of {buf_len}")]
    Data {
        /// The segment.
        segment: u32,
        /// Offset of the data.
        data_off: u16,
        /// Length of the data.
        data_len: u16,
        /// Length of the buffer.
        buf_len: u16,
    },
    /// The flag for a following segment and the link to it contradict each other.
    #[error("segment {segment}: the link and the flag for it contradict each other")]
    Link {
        /// The segment.
        segment: u32,
    },
    /// The number of segments is not what the first one says.
    #[error("{said} segments said, {found} found")]
    Segments {
        /// What the first segment says.
        said: u16,
        /// How many there are (counting stops beyond the most there may be).
        found: u32,
    },
    /// The length is not the sum of the segments' lengths.
    #[error("{said} bytes said, {found} found")]
    Length {
        /// What the first segment says.
        said: u32,
        /// The sum over all segments.
        found: u64,
    },
}

impl Mbuf {
    /// Checks every field that others rely on, in every segment.
    ///
    /// # Errors
    ///
    /// The first thing found wrong.
    pub fn sanity_check(&self) -> Result<(), SanityError> {
        check(self.header(), true)
    }
}

impl SharedMbuf {
    /// As [`Mbuf::sanity_check`].
    ///
    /// # Errors
    ///
    /// The first thing found wrong.
    pub fn sanity_check(&self) -> Result<(), SanityError> {
        check(self.header(), false)
    }
}

fn check(head: &Header, unique: bool) -> Result<(), SanityError> {
    let (mut h, mut segment, mut bytes) = (ptr::from_ref(head), 0u32, 0u64);
    loop {
        // SAFETY: the caller's packet; links are followed only where flag and link agree.
        let s = unsafe { &*h };
        one(s, segment, unique)?;
        bytes += u64::from(s.data_len);
        segment += 1;
        if s.next.is_null() || segment > MAX_SEGMENTS.into() {
            break;
        }
        h = s.next;
    }
    if segment != head.nb_segs.into() {
        return Err(SanityError::Segments { said: head.nb_segs, found: segment });
    }
    if bytes != head.pkt_len.into() {
        return Err(SanityError::Length { said: head.pkt_len, found: bytes });
    }
    Ok(())
}

fn one(s: &Header, segment: u32, unique: bool) -> Result<(), SanityError> {
    if s.pool.is_null() {
        return Err(SanityError::NoPool { segment });
    }
    // SAFETY: live, and its pool is set.
    let pool = unsafe { pool_of(s) };
    let Some(index) = pool.index_of(s) else { return Err(SanityError::NotOfPool { segment }) };
    if s.buf_addr.is_null() {
        return Err(SanityError::NoMemory { segment });
    }
    let flags = s.seg_flags & !SEG_CHAINED;
    let fits = match flags {
        0 => s.owner.is_null() && s.buf_addr == pool.own_memory(index) && s.buf_len == pool.buf_len,
        SEG_ATTACHED => !unique && !s.owner.is_null(),
        SEG_EXTERNAL => !s.owner.is_null(),
        _ => false,
    };
    if !fits {
        return Err(SanityError::Owner { segment, flags: s.seg_flags });
    }
    let references = s.refcnt.load(Relaxed);
    if references == 0 || (unique && references != 1) {
        return Err(SanityError::References { segment, references });
    }
    let (data_off, data_len, buf_len) = (s.data_off, s.data_len, s.buf_len);
    if u32::from(data_off) + u32::from(data_len) > buf_len.into() {
        return Err(SanityError::Data { segment, data_off, data_len, buf_len });
    }
    if (s.seg_flags & SEG_CHAINED == 0) != s.next.is_null() {
        return Err(SanityError::Link { segment });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mempool;

    type Breaker = fn(&mut Header);

    /// Breaks one field of a two-segment packet, wants exactly that to be found, and mends it.
    #[test]
    fn every_corrupted_field_is_found() {
        let pool = Mempool::builder("sane", 8).data_room(100).headroom(28).build().unwrap();
        let mut m = pool.alloc().unwrap();
        m.append(60).unwrap().fill(1);
        let mut tail = pool.alloc().unwrap();
        tail.append(40).unwrap().fill(2);
        m.chain(tail).unwrap();
        assert_eq!(m.sanity_check(), Ok(()));
        let cases: [(Breaker, SanityError); 12] = [
            (|h| h.pool = ptr::null(), SanityError::NoPool { segment: 0 }),
            (|h| h.buf_addr = ptr::null_mut(), SanityError::NoMemory { segment: 0 }),
            (|h| h.buf_addr = h.buf_addr.wrapping_add(1), SanityError::Owner { segment: 0, flags: 4 }),
            (|h| h.buf_len -= 1, SanityError::Owner { segment: 0, flags: 4 }),
            (|h| h.seg_flags |= SEG_ATTACHED, SanityError::Owner { segment: 0, flags: 5 }),
            (|h| h.seg_flags |= SEG_ATTACHED | SEG_EXTERNAL, SanityError::Owner { segment: 0, flags: 7 }),
            (|h| h.refcnt.store(0, Relaxed), SanityError::References { segment: 0, references: 0 }),
            (|h| h.refcnt.store(2, Relaxed), SanityError::References { segment: 0, references: 2 }),
            (|h| h.data_off = 69, SanityError::Data { segment: 0, data_off: 69, data_len: 60, buf_len: 128 }),
            (|h| h.seg_flags = 0, SanityError::Link { segment: 0 }),
            (|h| h.nb_segs = 3, SanityError::Segments { said: 3, found: 2 }),
            (|h| h.pkt_len = 99, SanityError::Length { said: 99, found: 100 }),
        ];
        for (breaker, wanted) in cases {
            let h = m.header_mut();
            let before = (h.pool, h.buf_addr, h.buf_len, h.seg_flags, h.data_off, h.nb_segs, h.pkt_len);
            breaker(h);
            assert_eq!(m.sanity_check(), Err(wanted));
            let h = m.header_mut();
            (h.pool, h.buf_addr, h.buf_len, h.seg_flags, h.data_off, h.nb_segs, h.pkt_len) = before;
            h.refcnt.store(1, Relaxed);
        }
        // The same in a segment behind the first.
        // SAFETY: the packet has a second segment, ours alone.
        let second = unsafe { &mut *m.header().next };
        second.data_len = 101;
        let (data_off, data_len, buf_len) = (28, 101, 128);
        assert_eq!(m.sanity_check(), Err(SanityError::Data { segment: 1, data_off, data_len, buf_len }));
        second.data_len = 40;
        assert_eq!(m.sanity_check(), Ok(()));
        drop(m);
        assert_eq!(pool.audit().unwrap().checked, 8);
    }

    #[test]
    fn a_chain_that_bites_its_tail_is_found() {
        let pool = Mempool::builder("loop", 4).build().unwrap();
        let (mut m, tail) = (pool.alloc().unwrap(), pool.alloc().unwrap());
        m.chain(tail).unwrap();
        // SAFETY: the second segment is ours alone.
        unsafe {
            (*m.header().next).next = m.header_mut();
            (*m.header().next).seg_flags |= SEG_CHAINED;
            assert!(matches!(m.sanity_check(), Err(SanityError::Segments { said: 2, .. })));
            (*m.header().next).next = ptr::null_mut();
            (*m.header().next).seg_flags &= !SEG_CHAINED;
        }
        assert_eq!(m.sanity_check(), Ok(()));
    }

    /// The audit looks at the fields of what is free.
    #[test]
    fn the_audit_finds_every_corrupted_field_of_a_free_buffer() {
        let pool = Mempool::builder("dirty", 4).build().unwrap();
        let cases: [(Breaker, Breaker, &str); 7] = [
            (|h| h.refcnt.store(2, Relaxed), |h| h.refcnt.store(1, Relaxed), "reference count"),
            (|h| h.nb_segs = 2, |h| h.nb_segs = 1, "segment count"),
            (|h| h.seg_flags = SEG_EXTERNAL, |h| h.seg_flags = 0, "segment flags"),
            (|h| h.next = ptr::from_mut(h), |h| h.next = ptr::null_mut(), "next"),
            (|h| h.owner = ptr::from_mut(h).cast(), |h| h.owner = ptr::null_mut(), "owner"),
            (|h| h.buf_len += 1, |h| h.buf_len -= 1, "memory"),
            (|h| h.pool = h.pool.wrapping_add(1), |h| h.pool = h.pool.wrapping_sub(1), "pool"),
        ];
        for (breaker, mend, wanted) in cases {
            let mut one = ptr::null_mut();
            // SAFETY: room for one; it is given back as it came but for the field that is the test.
            unsafe {
                assert!(pool.get_raw(&mut one, 1));
                breaker(&mut *one);
                pool.put_raw(&one, 1);
                let found = pool.audit().unwrap_err().to_string();
                assert!(found.contains(wanted), "{found}");
                mend(&mut *one);
            }
            assert!(pool.audit().is_ok());
        }
    }

    #[test]
    fn the_audit_finds_a_buffer_that_is_free_twice_or_foreign() {
        let pool = Mempool::builder("twice", 4).cache(4).build().unwrap();
        let other = Mempool::builder("other", 4).build().unwrap();
        let mut one = [ptr::null_mut(); 2];
        // SAFETY: a broken user on purpose; nothing is allocated from the pool before it is mended.
        unsafe {
            assert!(pool.get_raw(one.as_mut_ptr(), 2));
            pool.put_raw([one[0], one[0]].as_ptr(), 2);
            let e = pool.audit().unwrap_err().to_string();
            assert!(e.contains("free twice"), "{e}");
            let mut again = [ptr::null_mut(); 2];
            assert!(pool.get_raw(again.as_mut_ptr(), 2));
            assert!(other.get_raw(&mut again[0], 1));
            pool.put_raw(&again[0], 1);
            let e = pool.audit().unwrap_err().to_string();
            assert!(e.contains("not one of its buffers"), "{e}");
            assert!(pool.get_raw(&mut again[1], 1));
            other.put_raw(&again[1], 1);
            pool.put_raw(one.as_ptr(), 2);
        }
        assert_eq!(pool.audit().unwrap().checked, 4);
        assert_eq!(other.audit().unwrap().checked, 4);
    }
}
