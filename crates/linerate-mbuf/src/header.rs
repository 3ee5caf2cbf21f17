//! The buffer's header: which field lies on which cache line, and what a buffer looks like inside a pool.
//!
//! Follows the layout of DPDK's `rte_mbuf` where that serves (the eight bytes that receive re-arms, the
//! sixteen that a completion fills), with what a free must know moved into the first line: the pool, and one
//! byte of segment flags that says "nothing special here".

use crate::{OlFlags, PacketType, TxOffload, pool::PoolInner};
use core::{mem::offset_of, ptr};
use std::sync::atomic::AtomicU16;

/// Size of a buffer's header in bytes: two cache lines.
pub const HEADER_BYTES: usize = 128;

/// The port number of a buffer that no port has received.
pub const PORT_NONE: u16 = u16::MAX;

/// The buffer's bytes belong to another buffer's header, which counts us.
pub(crate) const SEG_ATTACHED: u8 = 1;
/// The buffer's bytes belong to an external buffer, which counts us.
pub(crate) const SEG_EXTERNAL: u8 = 2;
/// `next` is set: more segments follow.
pub(crate) const SEG_CHAINED: u8 = 4;

/// The header in front of every buffer: two cache lines, the first of which is a packet's whole life.
///
/// Users see it through [`Mbuf`](crate::Mbuf) and [`SharedMbuf`](crate::SharedMbuf), drivers through
/// [`RawMbuf`](crate::RawMbuf).
///
/// While a buffer is in its pool: reference count 1, one segment, no next, no segment flag, its own memory
/// behind `buf_addr`. Every free restores what it changed of this, so allocation need not write it.
#[repr(C, align(64))]
pub struct Header {
    /// Start of the buffer's memory (headroom first).
    pub(crate) buf_addr: *mut u8,
    /// The pool to which this header returns.
    pub(crate) pool: *const PoolInner,
    // 16: the eight bytes that receive re-arms in one store, and the flags beside them.
    pub(crate) data_off: u16,
    pub(crate) refcnt: AtomicU16,
    pub(crate) nb_segs: u16,
    pub(crate) port: u16,
    pub(crate) ol_flags: OlFlags,
    // 32: the sixteen bytes that a completion fills in one store.
    pub(crate) packet_type: PacketType,
    pub(crate) pkt_len: u32,
    pub(crate) data_len: u16,
    pub(crate) vlan_tci: u16,
    pub(crate) rss_hash: u32,
    // 48
    pub(crate) tx_offload: TxOffload,
    pub(crate) buf_len: u16,
    pub(crate) seg_flags: u8,
    /// Not 0 once a dynamic field of this buffer was written, which stays so: what is never used is never copied.
    pub(crate) dynamic_used: u8,
    /// Flow mark, valid with [`OlFlags::RX_MARK`].
    pub(crate) mark: u32,
    // ---- second line: never touched for a plain one-segment packet
    pub(crate) next: *mut Header,
    /// With `SEG_ATTACHED` the header whose memory this is, with `SEG_EXTERNAL` the external buffer's count.
    pub(crate) owner: *mut (),
    pub(crate) timestamp: u64,
    pub(crate) vlan_tci_outer: u16,
    pub(crate) _spare2: [u16; 3],
    /// Dynamic fields; see [`DynRegistry`](crate::DynRegistry).
    pub(crate) dynamic: [u8; 32],
}

const _: () = {
    assert!(size_of::<Header>() == HEADER_BYTES);
    assert!(offset_of!(Header, data_off) == 16);
    assert!(offset_of!(Header, ol_flags) == 24);
    assert!(offset_of!(Header, packet_type) == 32);
    assert!(offset_of!(Header, tx_offload) == 48);
    assert!(
        offset_of!(Header, mark) + 4 == 64,
        "all that a plain packet's life touches is in the first line"
    );
    assert!(offset_of!(Header, next) == 64);
    assert!(offset_of!(Header, dynamic) == 96);
};

impl Header {
    /// A header as it lies in its pool: the state that every free restores.
    pub(crate) fn in_pool(buf_addr: *mut u8, buf_len: u16, pool: *const PoolInner) -> Self {
        Header {
            buf_addr,
            pool,
            data_off: 0,
            refcnt: AtomicU16::new(1),
            nb_segs: 1,
            port: PORT_NONE,
            ol_flags: OlFlags::empty(),
            packet_type: PacketType::UNKNOWN,
            pkt_len: 0,
            data_len: 0,
            vlan_tci: 0,
            rss_hash: 0,
            tx_offload: TxOffload::NONE,
            buf_len,
            seg_flags: 0,
            dynamic_used: 0,
            mark: 0,
            next: ptr::null_mut(),
            owner: ptr::null_mut(),
            timestamp: 0,
            vlan_tci_outer: 0,
            _spare2: [0; 3],
            dynamic: [0; 32],
        }
    }
}

impl core::fmt::Debug for Header {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Header")
            .field("data_off", &self.data_off)
            .field("data_len", &self.data_len)
            .field("pkt_len", &self.pkt_len)
            .field("nb_segs", &self.nb_segs)
            .field("refcnt", &self.refcnt)
            .field("port", &self.port)
            .field("ol_flags", &self.ol_flags)
            .field("packet_type", &self.packet_type)
            .field("seg_flags", &self.seg_flags)
            .finish_non_exhaustive()
    }
}
