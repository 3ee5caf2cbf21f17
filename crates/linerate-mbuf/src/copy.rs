//! Deep copies.

use crate::{Header, Mbuf, Mempool, SharedMbuf, segments::Segments};

impl Mbuf {
    /// Copies up to `len` bytes from `off` on into fresh buffers of `pool`, with the metadata; `off` at the
    /// packet's end gives an empty packet.
    ///
    /// `None` if `off` is beyond the end or the pool has too few buffers (then nothing is taken).
    pub fn copy(&self, pool: &Mempool, off: u32, len: u32) -> Option<Mbuf> {
        copy(self.header(), self.segments(), pool, off, len)
    }
}

impl SharedMbuf {
    /// As [`Mbuf::copy`]: the copy is unique and writable.
    pub fn copy(&self, pool: &Mempool, off: u32, len: u32) -> Option<Mbuf> {
        copy(self.header(), self.segments(), pool, off, len)
    }
}

fn copy(from: &Header, segments: Segments<'_>, pool: &Mempool, off: u32, len: u32) -> Option<Mbuf> {
    let mut left = from.pkt_len.checked_sub(off)?.min(len) as usize;
    let mut skip = off as usize;
    let mut copy = pool.alloc()?;
    for mut seg in segments {
        let skipped = skip.min(seg.len());
        skip -= skipped;
        seg = &seg[skipped..];
        seg = &seg[..seg.len().min(left)];
        left -= seg.len();
        while !seg.is_empty() {
            if copy.tailroom() == 0 {
                let more = pool.alloc()?;
                copy.chain(more).ok()?;
            }
            let n = seg.len().min(copy.tailroom().into());
            copy.append(n)?.copy_from_slice(&seg[..n]);
            seg = &seg[n..];
        }
    }
    let h = copy.header_mut();
    h.port = from.port;
    h.ol_flags = from.ol_flags;
    h.packet_type = from.packet_type;
    h.vlan_tci = from.vlan_tci;
    h.vlan_tci_outer = from.vlan_tci_outer;
    h.rss_hash = from.rss_hash;
    h.mark = from.mark;
    h.tx_offload = from.tx_offload;
    h.timestamp = from.timestamp;
    h.dynamic = from.dynamic;
    h.dynamic_used |= from.dynamic_used;
    Some(copy)
}

impl Mempool {
    /// A packet with these bytes, in as many buffers as they need; `None`, with nothing taken, if so many are
    /// not free or a packet cannot have so many segments.
    pub fn alloc_filled(&self, bytes: &[u8]) -> Option<Mbuf> {
        let mut pieces = bytes.chunks(self.data_room().into());
        let mut packet = self.alloc()?;
        if let Some(first) = pieces.next() {
            packet.append(first.len())?.copy_from_slice(first);
        }
        for piece in pieces {
            let mut next = self.alloc()?;
            next.append(piece.len())?.copy_from_slice(piece);
            packet.chain(next).ok()?;
        }
        Some(packet)
    }
}
