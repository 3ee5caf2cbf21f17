//! A ring as the kernel maps it: where its indexes, flags and slots lie in the mapping.
//!
//! Follows `linux/if_xdp.h` (`struct xdp_mmap_offsets`) and `net/xdp/xsk_queue.h`.
// UNSAFETY: one mapping, owned here, of which every access stays within the bounds that `Mapped::new` has checked.
// The kernel writes to it at any time, so no reference to a slot is ever made: indexes are atomics, slots volatile.

use super::ring::RingMemory;
use rustix::{
    io::Errno,
    mm::{MapFlags, ProtFlags},
    net::xdp::XdpRingOffset,
};
use std::{
    io,
    marker::PhantomData,
    os::fd::BorrowedFd,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

/// A mapped ring with slots of type `T`; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapped<T> {
    base: NonNull<u8>,
    len: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    slots: NonNull<T>,
    size: u32,
    _slots: PhantomData<T>,
}

// SAFETY: an address range that is valid in every thread; slots are plain integers.
unsafe impl<T: Slot> Send for Mapped<T> {}

/// A type that ring slots have: plain integers, of which any bits are a value.
pub(super) trait Slot: Copy + Send {}
impl Slot for u64 {}
impl Slot for Descriptor {}

/// `struct xdp_desc`: a piece of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    /// Where it starts in the packet memory.
    pub(super) address: u64,
    /// Its length in bytes.
    pub(super) len: u32,
    /// Bit 0: the packet goes on in the next descriptor.
    pub(super) options: u32,
}

/// The packet goes on in the next descriptor.
pub(super) const CONTINUED: u32 = 1;

impl<T: Slot> Mapped<T> {
    /// Maps the ring at `offset` of a socket on which it was made with `size` slots.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        offset: u64,
        at: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        assert!(size.is_power_of_two(), "the kernel makes rings of powers of two only");
        let invalid = || io::Error::from(Errno::INVAL);
        let bytes = |n: u64| usize::try_from(n).map_err(|_| invalid());
        let slots_at = bytes(at.desc)?;
        let slots_len = (size as usize).checked_mul(size_of::<T>()).ok_or_else(invalid)?;
        let len = slots_at.checked_add(slots_len).ok_or_else(invalid)?;
        let index_at = |offset: u64| -> io::Result<usize> {
            let at = bytes(offset)?;
            let fits = at.checked_add(4).is_some_and(|end| end <= len) && at.is_multiple_of(4);
            if fits { Ok(at) } else { Err(invalid()) }
        };
        let (producer, consumer) = (index_at(at.producer)?, index_at(at.consumer)?);
        let flags = at.flags.map(index_at).transpose()?;
        if slots_at % align_of::<T>() != 0 {
            return Err(invalid());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let how = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice: nothing of ours is there.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, protection, how, socket, offset)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(invalid)?;
        // SAFETY: each offset was checked to lie, whole and aligned, within the `len` bytes mapped.
        unsafe {
            Ok(Mapped {
                base,
                len,
                producer: base.add(producer).cast(),
                consumer: base.add(consumer).cast(),
                flags: flags.map(|f| base.add(f).cast()),
                slots: base.add(slots_at).cast(),
                size,
                _slots: PhantomData,
            })
        }
    }

    /// Raises flags as the kernel does.
    #[cfg(test)]
    pub(super) fn raise_flags(&self, bits: u32) {
        self.index(self.flags.unwrap()).fetch_or(bits, Ordering::Relaxed);
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> NonNull<T> {
        // SAFETY: an index modulo the size (a power of two) is below it: within the mapping.
        unsafe { self.slots.add((index & (self.size - 1)) as usize) }
    }

    #[inline(always)]
    fn index(&self, at: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned, and only ever accessed atomically, by the kernel too.
        unsafe { at.as_ref() }
    }
}

impl<T: Slot> RingMemory<T> for Mapped<T> {
    #[inline(always)]
    fn size(&self) -> u32 {
        self.size
    }
    #[inline(always)]
    fn producer(&self, order: Ordering) -> u32 {
        self.index(self.producer).load(order)
    }
    #[inline(always)]
    fn set_producer(&self, index: u32, order: Ordering) {
        self.index(self.producer).store(index, order);
    }
    #[inline(always)]
    fn consumer(&self, order: Ordering) -> u32 {
        self.index(self.consumer).load(order)
    }
    #[inline(always)]
    fn set_consumer(&self, index: u32, order: Ordering) {
        self.index(self.consumer).store(index, order);
    }
    #[inline(always)]
    fn flags(&self) -> u32 {
        // A kernel without flags (before 5.4) never sleeps on a ring, and wants to be called for transmit.
        self.flags.map_or(0, |f| self.index(f).load(Ordering::Relaxed))
    }
    #[inline(always)]
    fn read(&self, index: u32) -> T {
        // SAFETY: within the mapping and aligned; any bits are a value.
        unsafe { self.slot(index).as_ptr().read_volatile() }
    }
    #[inline(always)]
    fn write(&self, index: u32, value: T) {
        // SAFETY: within the mapping and aligned.
        unsafe { self.slot(index).as_ptr().write_volatile(value) }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: our own mapping, with its true length; nobody has a pointer into it any more. It cannot fail.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
