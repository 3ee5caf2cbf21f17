//! Packet memory (the kernel's word is UMEM), and where in it frames lie.
//!
//! It is memory of the port's own, not the pool's: a packet is copied once, in or out. At 64 bytes that is a few
//! cycles against some thousand that the kernel spends on it, and it buys that no frame is ever out of our hands: an
//! application that keeps its packets cannot starve the fill ring, and nothing the kernel can write is ever seen
//! as a slice.
//!
//! ```text
//!  receive frame: │◄──────────────── chunk ────────────────►│
//!                 │ 256 bytes of the kernel's │ packet ...  │    a program in the kernel may move the packet's start
//!                 base()                      data            within the frame; it is given back by its base
//!  transmit frame:│ packet ...                              │
//! ```
//!
//! Follows `Documentation/networking/af_xdp.rst` and `net/xdp/xdp_umem.c` for the legal sizes.
// UNSAFETY: the pages are owned here. Copies go by raw pointer, after bounds that hold in every build; which frame is
// whose at which time is kept by the rings: a frame is touched only between taking its address out of a ring and
// putting it into the next.

use super::{XskError, mapped::Descriptor};
use linerate_mem::{PageKind, PagePreference, PageRequest, Pages};
use std::ptr;

/// Bytes in front of a received packet that the kernel keeps for itself (`XDP_PACKET_HEADROOM`).
pub(super) const KERNEL_HEADROOM: u32 = 256;
/// Least size of a chunk (`XDP_UMEM_MIN_CHUNK_SIZE`).
const MIN_CHUNK: u32 = 2048;
/// Where the offset within a frame stands in an address of unaligned mode (`XSK_UNALIGNED_BUF_OFFSET_SHIFT`).
const OFFSET_SHIFT: u32 = 48;

/// How packet memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Bytes of a frame.
    pub(super) chunk: u32,
    /// Frames.
    pub(super) frames: u32,
    /// Frames need not be powers of two, and addresses carry the packet's offset apart.
    pub(super) unaligned: bool,
}

/// A frame, by the address of its first byte in the packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame(u64);

impl Frame {
    /// As the fill ring and the completion ring have it.
    #[inline(always)]
    pub(super) fn base(self) -> u64 {
        self.0
    }
}

/// A piece of a packet in a frame, within bounds: made only by [`Geometry::locate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The frame, to be given back.
    pub(super) frame: Frame,
    /// First byte of the packet, in the packet memory.
    at: u64,
    /// Bytes.
    pub(super) len: u32,
}

impl Geometry {
    /// A wanted chunk, or the smallest that holds `longest` bytes of packet in one frame, or failing that the
    /// largest.
    ///
    /// # Errors
    ///
    /// The size is not legal; the message has those that are.
    pub(super) fn chunk_for(wanted: Option<u32>, longest: u32, unaligned: bool) -> Result<u32, XskError> {
        let page = rustix::param::page_size().min(1 << 16) as u32;
        let Some(chunk) = wanted else {
            let fits = |c: u32| c >= longest.saturating_add(KERNEL_HEADROOM);
            return Ok(if fits(MIN_CHUNK) { MIN_CHUNK } else { page.max(MIN_CHUNK) });
        };
        let legal = (MIN_CHUNK..=page).contains(&chunk) && (unaligned || chunk.is_power_of_two());
        // Frames start on cache lines, also where they need not.
        if legal && chunk.is_multiple_of(64) {
            return Ok(chunk);
        }
        let legal = if unaligned {
            format!("multiples of 64 from {MIN_CHUNK} to {page}")
        } else {
            let powers = (11..=16).map(|b| 1u32 << b).filter(|p| *p <= page);
            powers.map(|p| p.to_string()).collect::<Vec<_>>().join(", ")
        };
        Err(XskError::FrameSize { wanted: chunk, legal })
    }

    /// Bytes of a packet that a frame can receive.
    pub(super) fn rx_room(&self) -> u32 {
        self.chunk - KERNEL_HEADROOM
    }

    /// Bytes of packet memory.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.chunk) * u64::from(self.frames)
    }

    /// The frame with this number.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub(super) fn frame(&self, number: u32) -> Frame {
        assert!(number < self.frames);
        Frame(u64::from(number) * u64::from(self.chunk))
    }

    /// The frame that an address lies in, and its number; `None` if it lies in none.
    #[inline(always)]
    pub(super) fn frame_of(&self, address: u64) -> Option<(Frame, u32)> {
        let at = if self.unaligned { address & ((1 << OFFSET_SHIFT) - 1) } else { address };
        if at >= self.bytes() {
            return None;
        }
        let number = if self.chunk.is_power_of_two() {
            at >> self.chunk.trailing_zeros()
        } else {
            at / u64::from(self.chunk)
        };
        Some((Frame(number * u64::from(self.chunk)), number as u32))
    }

    /// Where a received descriptor's bytes lie; `None` if they leave their frame, whatever the descriptor says.
    #[inline(always)]
    pub(super) fn locate(&self, d: Descriptor) -> Option<Piece> {
        let (frame, _) = self.frame_of(d.address)?;
        let at = if self.unaligned {
            (d.address & ((1 << OFFSET_SHIFT) - 1)).checked_add(d.address >> OFFSET_SHIFT)?
        } else {
            d.address
        };
        let end = at.checked_add(d.len.into())?;
        (end <= frame.0 + u64::from(self.chunk)).then_some(Piece { frame, at, len: d.len })
    }
}

/// Packet memory.
#[derive(Debug)]
pub(super) struct Umem {
    pages: Pages,
    geometry: Geometry,
}

impl Umem {
    /// Takes the memory.
    ///
    /// # Errors
    ///
    /// There is not enough, or unaligned mode has no huge pages.
    pub(super) fn new(geometry: Geometry) -> Result<Self, XskError> {
        let want = PageRequest::new(usize::try_from(geometry.bytes()).unwrap_or(usize::MAX));
        // Unaligned frames cross page borders, which the kernel allows only where the next page is behind this one.
        let want = if geometry.unaligned { want.prefer(PagePreference::Huge2M) } else { want };
        let pages = match want.allocate() {
            Ok(pages) => pages,
            Err(e) if geometry.unaligned => {
                return Err(XskError::Unaligned { why: e.to_string(), mend: e.hint() });
            }
            Err(e) => return Err(XskError::Memory(e)),
        };
        Ok(Umem { pages, geometry })
    }

    /// How it is divided.
    #[inline(always)]
    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Address of its first byte.
    pub(super) fn address(&self) -> u64 {
        self.pages.base().as_ptr().expose_provenance() as u64
    }

    /// What it is made of, for people.
    pub(super) fn describe(&self) -> String {
        let pages = match self.pages.kind() {
            PageKind::Huge1G => "1 GiB pages",
            PageKind::Huge2M => "2 MiB pages",
            PageKind::Transparent => "joined pages",
            PageKind::Ordinary => "small pages",
        };
        format!("{} frames of {} bytes in {pages}", self.geometry.frames, self.geometry.chunk)
    }

    /// Copies a received piece to `to`, which has exactly its length.
    ///
    /// # Panics
    ///
    /// If it has not.
    #[inline(always)]
    pub(super) fn read(&self, piece: Piece, to: &mut [u8]) {
        assert!(to.len() == piece.len as usize && piece.at + u64::from(piece.len) <= self.geometry.bytes());
        // SAFETY: within the pages (checked above; they are at least that long); `to` is memory of ours and none of
        // these pages, which nobody has a slice of.
        unsafe {
            let from = self.pages.base().as_ptr().add(piece.at as usize);
            ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
        }
    }

    /// Copies bytes into a frame, from `offset` on.
    ///
    /// # Panics
    ///
    /// If they leave the frame.
    #[inline(always)]
    pub(super) fn write(&self, frame: Frame, offset: u32, from: &[u8]) {
        let end = u64::from(offset) + from.len() as u64;
        assert!(end <= self.geometry.chunk.into() && frame.0 + end <= self.geometry.bytes());
        // SAFETY: within the pages (checked above); `from` is memory of ours and none of these pages.
        unsafe {
            let to = self.pages.base().as_ptr().add((frame.0 + u64::from(offset)) as usize);
            ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn geometry(unaligned: bool) -> impl Strategy<Value = Geometry> {
        let chunk = if unaligned {
            (32u32..=64).prop_map(|lines| lines * 64).boxed()
        } else {
            prop_oneof![Just(2048u32), Just(4096)].boxed()
        };
        (chunk, 1..70u32).prop_map(move |(chunk, frames)| Geometry { chunk, frames, unaligned })
    }

    proptest! {
        // Which 256 bytes are whose; frames that creep by the offset of what is given back; a packet whose start a
        // program moved. Over all sizes and moves: what is located is inside its frame, and its frame is its base.
        #[test]
        fn a_packet_is_in_its_frame_wherever_a_program_moved_it(
            (g, number, offset, len) in any::<bool>().prop_flat_map(geometry).prop_flat_map(|g| {
                (Just(g), 0..g.frames, 0..g.chunk, 0..g.chunk + 70)
            }),
        ) {
            let base = g.frame(number).base();
            let address = if g.unaligned { base | u64::from(offset) << 48 } else { base + u64::from(offset) };
            let found = g.locate(Descriptor { address, len, options: 0 });
            if offset + len <= g.chunk {
                let p = found.unwrap();
                prop_assert_eq!((p.frame, p.at, p.len), (g.frame(number), base + u64::from(offset), len));
            } else {
                prop_assert_eq!(found, None);
            }
            prop_assert_eq!(g.frame_of(address), Some((g.frame(number), number)));
        }

        #[test]
        fn no_descriptor_leaves_the_memory(
            g in any::<bool>().prop_flat_map(geometry),
            address in prop_oneof![any::<u64>(), 0..1u64 << 20, any::<u16>().prop_map(|n| u64::MAX - u64::from(n))],
            len in prop_oneof![any::<u32>(), 0..5000u32],
        ) {
            if let Some(p) = g.locate(Descriptor { address, len, options: 0 }) {
                prop_assert!(p.at >= p.frame.base());
                prop_assert!(p.at + u64::from(p.len) <= p.frame.base() + u64::from(g.chunk));
                prop_assert!(p.frame.base() + u64::from(g.chunk) <= g.bytes());
            }
        }
    }

    #[test]
    fn sizes_are_derived_or_legal() {
        let page = rustix::param::page_size() as u32;
        assert_eq!(Geometry::chunk_for(None, 1522, false).unwrap(), 2048);
        assert_eq!(Geometry::chunk_for(None, 1792, false).unwrap(), 2048);
        assert_eq!(Geometry::chunk_for(None, 1793, false).unwrap(), page);
        assert_eq!(Geometry::chunk_for(None, 9022, false).unwrap(), page);
        assert_eq!(Geometry::chunk_for(Some(4096), 60, false).unwrap(), 4096);
        assert_eq!(Geometry::chunk_for(Some(3008), 60, true).unwrap(), 3008);
        for (bad, unaligned) in
            [(2304, false), (3000, true), (1024, false), (9728, true), (0, false), (1 << 20, true)]
        {
            let e = Geometry::chunk_for(Some(bad), 60, unaligned).unwrap_err();
            assert!(
                e.to_string().contains(&bad.to_string()) && e.hint().contains("2048"),
                "{e}: {}",
                e.hint()
            );
        }
    }

    #[test]
    fn bytes_go_in_and_out() {
        let umem = Umem::new(Geometry { chunk: 2048, frames: 4, unaligned: false }).unwrap();
        let frame = umem.geometry().frame(3);
        umem.write(frame, 0, b"head");
        umem.write(frame, 2044, b"tail");
        let mut out = [0; 4];
        for (at, want) in [(0, b"head"), (2044, b"tail")] {
            let d = Descriptor { address: frame.base() + at, len: 4, options: 0 };
            umem.read(umem.geometry().locate(d).unwrap(), &mut out);
            assert_eq!(&out, want);
        }
        let past = std::panic::AssertUnwindSafe(|| umem.write(frame, 2045, b"tail"));
        assert!(std::panic::catch_unwind(past).is_err());
    }
}
