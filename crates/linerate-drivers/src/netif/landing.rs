//! From bytes of the kernel to packet buffers, and from packets to bytes for the kernel.

use super::segment::Cutter;
use linerate_mbuf::{Burst, Mbuf, Mempool, OlFlags, RxTemplate, Segments, SharedMbuf};
use linerate_port::{RxContext, RxOffloads};
use std::ptr;

/// Where the buffers of a receive queue come from.
#[derive(Debug)]
pub(crate) struct Landing {
    pub(crate) pool: Mempool,
    template: RxTemplate,
    pub(crate) port: u16,
    /// Bytes of one buffer.
    pub(crate) room: usize,
    scatter: bool,
}

impl Landing {
    pub(crate) fn new(context: &RxContext) -> Self {
        let (pool, port) = (context.rx.pool.clone(), context.port.0);
        Landing {
            template: RxTemplate::new(&pool, port),
            room: pool.data_room().into(),
            scatter: context.config.rx_offloads.contains(RxOffloads::SCATTER),
            pool,
            port,
        }
    }

    /// The longest frame that can be received.
    pub(crate) fn longest(&self) -> usize {
        if self.scatter { usize::MAX } else { self.room }
    }

    /// Appends `n` empty buffers to a burst that has room for them, or as many as there are; how many.
    #[inline(always)]
    pub(crate) fn take(&self, burst: &mut Burst, n: usize) -> usize {
        if self.pool.alloc_rx(&self.template, burst, n) { n } else { self.take_few(burst, n) }
    }

    #[cold]
    #[inline(never)]
    fn take_few(&self, burst: &mut Burst, n: usize) -> usize {
        (0..n).take_while(|_| self.pool.alloc_rx(&self.template, burst, 1)).count()
    }

    /// An empty buffer.
    #[inline(always)]
    pub(crate) fn alloc(&self) -> Option<Mbuf> {
        let mut m = self.pool.alloc()?;
        m.set_port(self.port);
        Some(m)
    }

    /// Copies a frame that fits one buffer into an empty one.
    ///
    /// # Safety
    ///
    /// `len` bytes at `from` may be read and are not written meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn land_raw(&self, m: &mut Mbuf, from: *const u8, len: usize) -> bool {
        let Some(to) = m.append(len) else { return false };
        // SAFETY: `to` is `len` bytes long and ours alone; the source is the caller's word.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), len) };
        true
    }

    /// Copies a frame into a new packet at the end of the burst, of several segments if need be and allowed;
    /// false, and no change, for want of room or buffers.
    pub(crate) fn land(&self, burst: &mut Burst, frame: &[u8]) -> bool {
        if frame.len() > self.longest() || !self.pool.alloc_rx(&self.template, burst, 1) {
            return false;
        }
        let done = burst.as_mut_slice().last_mut().is_some_and(|m| self.fill(m, frame));
        if !done {
            drop(burst.pop());
        }
        done
    }

    /// Writes pieces of a long frame into packets at the end of the burst, at most `max`, as long as they fit a
    /// buffer each and there are buffers; how many, and their bytes.
    pub(crate) fn land_pieces(&self, burst: &mut Burst, cutter: &mut Cutter, max: usize) -> (usize, u64) {
        let (mut n, mut bytes) = (0, 0);
        while n < max && (1..=self.room).contains(&cutter.next_len()) {
            if !self.pool.alloc_rx(&self.template, burst, 1) {
                break;
            }
            let len = cutter.next_len();
            if let Some(to) = burst.as_mut_slice().last_mut().and_then(|m| m.append(len)) {
                cutter.write_next(to);
            }
            n += 1;
            bytes += len as u64;
        }
        (n, bytes)
    }

    fn fill(&self, m: &mut Mbuf, frame: &[u8]) -> bool {
        let mut pieces = frame.chunks(self.room.max(1));
        if let Some(piece) = pieces.next() {
            let Some(to) = m.append(piece.len()) else { return false };
            to.copy_from_slice(piece);
        }
        for piece in pieces {
            let joined = self.pool.alloc().and_then(|mut next| {
                next.append(piece.len())?.copy_from_slice(piece);
                m.chain(next).ok()
            });
            if joined.is_none() {
                return false;
            }
        }
        m.set_port(self.port);
        true
    }
}

/// A packet of either kind on its way to the kernel.
pub(crate) trait Outgoing {
    fn len(&self) -> u32;
    fn data(&self) -> &[u8];
    fn segment_count(&self) -> u16;
    fn segments(&self) -> Segments<'_>;
    fn ol_flags(&self) -> OlFlags;
    fn vlan_tci(&self) -> u16;

    /// The VLAN tag that is to be inserted behind the addresses, as it stands on the wire.
    #[inline]
    fn tag(&self) -> Option<[u8; 4]> {
        let [a, b] = self.vlan_tci().to_be_bytes();
        self.ol_flags().contains(OlFlags::TX_VLAN).then_some([0x81, 0, a, b])
    }
}

macro_rules! outgoing {
    ($($ty:ty),*) => {$(
        impl Outgoing for $ty {
            #[inline(always)]
            fn len(&self) -> u32 {
                <$ty>::len(self)
            }
            #[inline(always)]
            fn data(&self) -> &[u8] {
                <$ty>::data(self)
            }
            #[inline(always)]
            fn segment_count(&self) -> u16 {
                <$ty>::segment_count(self)
            }
            fn segments(&self) -> Segments<'_> {
                <$ty>::segments(self)
            }
            #[inline(always)]
            fn ol_flags(&self) -> OlFlags {
                <$ty>::ol_flags(self)
            }
            fn vlan_tci(&self) -> u16 {
                <$ty>::vlan_tci(self)
            }
        }
    )*};
}
outgoing!(Mbuf, SharedMbuf);

/// Appends the bytes of a packet, with its VLAN tag put in.
pub(crate) fn gather(p: &impl Outgoing, out: &mut Vec<u8>) {
    let start = out.len();
    for s in p.segments() {
        out.extend_from_slice(s);
    }
    if let Some(tag) = p.tag() {
        insert_tag(out, start, tag);
    }
}

/// Puts a VLAN tag behind the addresses of the frame that starts at `start`; nothing if it has none.
pub(crate) fn insert_tag(frame: &mut Vec<u8>, start: usize, tag: [u8; 4]) {
    let at = start + 12;
    if at <= frame.len() {
        frame.splice(at..at, tag);
    }
}
