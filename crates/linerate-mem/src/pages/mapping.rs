//! One mapping of memory: reserve the addresses, place the memory in them, bind it to a node, populate it.
//!
//! ```text
//!   reservation (no access):  │ guard │ … align … │ the memory │ … guard │
//! ```
//! The addresses are reserved first and the memory is placed inside, which gives any alignment and leaves a page
//! without access on either side: a write past the end of a pool stops the program instead of harming a neighbour,
//! and the kernel never merges the mapping with another, so that its line in `smaps` speaks of it alone.
//!
//! UNSAFETY: `Mapping` owns the address range of its reservation, from `mmap` to the `munmap` in `Drop`; nothing in
//! this file touches an address outside it.
//!
//! Follows `mmap(2)`, `memfd_create(2)`, `madvise(2)` (MADV_POPULATE_WRITE since 5.14, MADV_COLLAPSE since 6.1),
//! `mbind(2)` and `get_mempolicy(2)`.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::huge::HugeSize;
use crate::topology::NumaNode;

/// A range of populated or still unpopulated memory inside a reservation of its own.
#[derive(Debug)]
pub(super) struct Mapping {
    reservation: NonNull<u8>,
    reserved: usize,
    pub(super) base: NonNull<u8>,
    pub(super) len: usize,
    pub(super) fd: Option<OwnedFd>,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the reservation is ours alone (the type's invariant) and whoever holds pointers into it has
        // borrowed from, or keeps alive, the owner that is being dropped now.
        let unmapped = unsafe { rustix::mm::munmap(self.reservation.as_ptr().cast(), self.reserved) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// An anonymous file that lives in memory, sized and sealed so that nobody who is given it can shrink it (which
/// would turn our next access into a SIGBUS).
pub(super) fn memory_file(len: usize, huge: Option<HugeSize>) -> Result<OwnedFd, Errno> {
    let size = match huge {
        None => MemfdFlags::empty(),
        Some(HugeSize::Size2M) => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
        Some(HugeSize::Size1G) => MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
    };
    let fd = rustix::fs::memfd_create("linerate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | size)?;
    rustix::fs::ftruncate(&fd, len as u64)?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(fd)
}

/// Makes the kernel set aside every huge page of the file now, so that the pages are ours before they are touched.
///
/// The promise belongs to the file, not to this mapping, and outlives it (`hugetlbfs_reservation.rst`).
pub(super) fn promise_huge_pages(fd: &OwnedFd, len: usize) -> Result<(), Errno> {
    let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a fresh mapping at an address of the kernel's choice harms nobody.
    let probe = unsafe { rustix::mm::mmap(ptr::null_mut(), len, read_write, shared, fd, 0) }?;
    // SAFETY: the mapping just made, which nobody else knows.
    unsafe { rustix::mm::munmap(probe, len) }
}

impl Mapping {
    /// Maps `len` bytes (a multiple of the page size) at a multiple of `align` (a power of two, at least the page
    /// size): of `fd` if there is one, else anonymous.
    pub(super) fn new(len: usize, align: usize, fd: Option<OwnedFd>) -> Result<Self, Errno> {
        let guard = rustix::param::page_size();
        let reserved = len.checked_add(align).and_then(|n| n.checked_add(2 * guard)).ok_or(Errno::NOMEM)?;
        let (none, private) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a fresh mapping at an address of the kernel's choice harms nobody.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), reserved, none, private) }?;
        let reservation = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let offset = (start.addr() + guard).next_multiple_of(align) - start.addr();
        // SAFETY: offset is at most guard + align, inside the reservation.
        let base = unsafe { reservation.add(offset) };
        let mut mapping = Self { reservation, reserved, base, len, fd };

        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let at = base.as_ptr().cast();
        let placed = match &mapping.fd {
            // SAFETY: [base, base + len) lies inside our own reservation, where nobody keeps anything.
            Some(fd) => unsafe { rustix::mm::mmap(at, len, prot, MapFlags::SHARED | MapFlags::FIXED, fd, 0) },
            // SAFETY: as above.
            None => unsafe { rustix::mm::mmap_anonymous(at, len, prot, MapFlags::PRIVATE | MapFlags::FIXED) },
        };
        if let Err(errno) = placed {
            // The kernel may have made a hole of the middle already, and another thread may sit in it by now: give
            // back the guards alone and leave the (memoryless) middle, if it is still there, as it is.
            let end = reserved - (offset + len);
            // SAFETY: the part of our reservation behind the place, untouched by the failed call.
            _ = unsafe { rustix::mm::munmap(base.add(len).as_ptr().cast(), end) };
            mapping.reserved = offset;
            return Err(errno);
        }
        Ok(mapping)
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: our own range; none of the advices given in this file discards or remaps what it holds.
        unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.len, advice) }
    }

    /// Asks for transparent huge pages; refused without harm by kernels built without them.
    pub(super) fn ask_transparent(&self) {
        _ = self.advise(Advice::LinuxHugepage);
    }

    /// Asks for plain small pages even where transparent huge pages are given to everybody.
    pub(super) fn refuse_transparent(&self) {
        _ = self.advise(Advice::LinuxNoHugepage);
    }

    /// Keeps a private mapping out of forked children: after a fork the first write would otherwise move the page
    /// away from under a device or a socket that knows its address.
    pub(super) fn keep_from_children(&self) {
        _ = self.advise(Advice::LinuxDontFork);
    }

    /// Joins what is populated already into huge pages, as far as the kernel can and will.
    pub(super) fn collapse(&self) {
        const MADV_COLLAPSE: libc::c_int = 25; // not in every libc's headers
        // SAFETY: our own range; the call keeps its contents.
        _ = unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, MADV_COLLAPSE) };
    }

    /// Binds the (not yet populated) range to one node.
    pub(super) fn bind(&self, node: NumaNode) -> Result<(), std::io::Error> {
        const WORDS: usize = 16;
        const BITS: usize = libc::c_ulong::BITS as usize;
        let mut mask = [0 as libc::c_ulong; WORDS];
        let bit = node.0 as usize;
        let Some(word) = mask.get_mut(bit / BITS) else {
            return Err(std::io::Error::from_raw_os_error(libc::EINVAL));
        };
        *word |= 1 << (bit % BITS);
        // The kernel takes the count as one more than the bits it reads.
        let bits = WORDS * BITS + 1;
        // SAFETY: our own range, and a mask of `WORDS` words that outlives the call.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.len,
                libc::MPOL_BIND,
                mask.as_ptr(),
                bits,
                0 as libc::c_uint,
            )
        };
        if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    /// The node of the first page, where the kernel tells.
    pub(super) fn node(&self) -> Option<NumaNode> {
        const MPOL_F_NODE: libc::c_ulong = 1;
        const MPOL_F_ADDR: libc::c_ulong = 2;
        let mut node: libc::c_int = -1;
        // SAFETY: asks about an address of our own range and writes one int of ours.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut node,
                ptr::null_mut::<libc::c_ulong>(),
                0 as libc::c_ulong,
                self.base.as_ptr(),
                MPOL_F_NODE | MPOL_F_ADDR,
            )
        };
        (rc == 0).then(|| u32::try_from(node).ok().map(NumaNode)).flatten()
    }

    /// Puts a page behind every address, or says that there is none: `ENOMEM`, or `EFAULT` where a plain access
    /// would have been a SIGBUS.
    pub(super) fn populate(&self, page: usize) -> Result<(), Errno> {
        match self.advise(Advice::LinuxPopulateWrite) {
            Err(Errno::INVAL) => self.populate_by_hand(page),
            done => done,
        }
    }

    /// For kernels before 5.14. A file is filled by `fallocate`, which fails where a touch would be a SIGBUS; then
    /// touching finds every page there. Anonymous memory has no SIGBUS.
    fn populate_by_hand(&self, page: usize) -> Result<(), Errno> {
        if let Some(fd) = &self.fd {
            rustix::fs::fallocate(fd.as_fd(), FallocateFlags::empty(), 0, self.len as u64).map_err(
                |errno| {
                    if errno == Errno::NOSPC { Errno::NOMEM } else { errno }
                },
            )?;
        }
        for offset in (0..self.len).step_by(page) {
            // SAFETY: inside our own range, which nobody else uses yet; the memory is zero and stays so.
            unsafe { self.base.add(offset).write_volatile(0) };
        }
        Ok(())
    }

    /// How many bytes of the mapping the kernel holds in transparent huge pages, where `/proc` tells.
    pub(super) fn transparent_bytes(&self) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        transparent_bytes_in(&smaps, self.base.as_ptr().addr())
    }
}

/// Reads `AnonHugePages` and `ShmemPmdMapped` of the mapping that starts at `start` out of the text of `smaps`.
fn transparent_bytes_in(smaps: &str, start: usize) -> usize {
    let header = format!("{start:08x}-");
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&header));
    _ = lines.next();
    let kib: usize = lines
        // A field is "Name:  number kB"; the next mapping's header has no colon after its first word.
        .take_while(|line| line.split_whitespace().next().is_some_and(|word| word.ends_with(':')))
        .filter_map(|line| {
            let rest =
                line.strip_prefix("AnonHugePages:").or_else(|| line.strip_prefix("ShmemPmdMapped:"))?;
            rest.split_whitespace().next()?.parse::<usize>().ok()
        })
        .sum();
    kib.saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_with_guards_and_zeroed() {
        let page = rustix::param::page_size();
        for align in [page, 1 << 16, 1 << 21] {
            for fd in [None, Some(memory_file(3 * page, None).unwrap())] {
                let map = Mapping::new(3 * page, align, fd).unwrap();
                map.populate(page).unwrap();
                assert_eq!(map.base.as_ptr().addr() % align, 0);
                assert!(map.base.as_ptr().addr() >= map.reservation.as_ptr().addr() + page);
                let end = map.base.as_ptr().addr() + map.len;
                assert!(end + page <= map.reservation.as_ptr().addr() + map.reserved);
                for at in 0..map.len {
                    // SAFETY: inside the mapping.
                    assert_eq!(unsafe { map.base.add(at).read() }, 0);
                }
            }
        }
    }

    #[test]
    fn population_by_hand_does_the_same() {
        let page = rustix::param::page_size();
        for fd in [None, Some(memory_file(64 * page, None).unwrap())] {
            let map = Mapping::new(64 * page, page, fd).unwrap();
            map.populate_by_hand(page).unwrap();
            let mut resident = vec![0u8; 64];
            // SAFETY: our own range and one byte a page to write to.
            let rc = unsafe { libc::mincore(map.base.as_ptr().cast(), map.len, resident.as_mut_ptr()) };
            assert_eq!(rc, 0);
            assert!(resident.iter().all(|r| r & 1 == 1));
        }
    }

    #[test]
    fn a_placement_that_fails_gives_an_error_and_harms_nobody() {
        let page = rustix::param::page_size();
        // A descriptor that cannot be mapped for writing makes the second step fail.
        let read_only: OwnedFd = std::fs::File::open("/proc/self/exe").unwrap().into();
        assert_eq!(Mapping::new(4 * page, page, Some(read_only)).unwrap_err(), Errno::ACCESS);
        assert!(Mapping::new(usize::MAX - 1, page, None).is_err());
        assert!(Mapping::new(1 << 62, page, None).is_err());
    }

    #[test]
    fn a_sealed_file_cannot_be_shrunk_or_grown() {
        let fd = memory_file(1 << 16, None).unwrap();
        assert_eq!(rustix::fs::ftruncate(&fd, 0).unwrap_err(), Errno::PERM);
        assert_eq!(rustix::fs::ftruncate(&fd, 1 << 20).unwrap_err(), Errno::PERM);
    }

    #[test]
    fn smaps_reading_takes_the_right_mapping_only() {
        let smaps = "7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \nSize: 2048 kB\nAnonHugePages:  2048 kB\n\
            7f0000400000-7f0000a00000 rw-s 00000000 00:01 9 /memfd:linerate (deleted)\nSize: 6144 kB\n\
            AnonHugePages:  0 kB\nShmemPmdMapped:  4096 kB\nVmFlags: rd wr\n\
            7f0000b00000-7f0000c00000 rw-p 00000000 00:00 0 \nAnonHugePages: 1024 kB\n";
        assert_eq!(transparent_bytes_in(smaps, 0x7f00_0000_0000), 2 << 20);
        assert_eq!(transparent_bytes_in(smaps, 0x7f00_0040_0000), 4 << 20);
        assert_eq!(transparent_bytes_in(smaps, 0x7f00_0050_0000), 0);
        assert_eq!(transparent_bytes_in("", 1), 0);
        assert_eq!(transparent_bytes_in("00000001-2 r\nAnonHugePages: 99999999999999999999 kB\n", 1), 0);
    }

    #[test]
    fn binding_to_a_node_that_cannot_be_is_an_error() {
        let page = rustix::param::page_size();
        let map = Mapping::new(page, page, None).unwrap();
        assert!(map.bind(NumaNode(1 << 20)).is_err());
        assert!(map.bind(NumaNode(1000)).is_err());
    }
}
