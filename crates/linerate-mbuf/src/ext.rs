//! External buffers: memory from elsewhere that packets carry, counted, with a callback when the last one goes.

use crate::count::{self, ORDERS};
use core::{fmt, marker::PhantomData, ptr::NonNull};
use std::sync::atomic::AtomicU32;

/// What runs when the last user of an external buffer is gone; gets the memory back. It may run inside the drop
/// of a packet on any thread, and should not panic: a second panic while the first unwinds ends the program.
pub type FreeExt = Box<dyn FnOnce(NonNull<u8>, usize) + Send>;

/// The count of an external buffer's users; its orders are those of `count.rs`.
pub(crate) struct ExtShared {
    users: AtomicU32,
    memory: NonNull<u8>,
    len: usize,
    free: Option<FreeExt>,
}

impl ExtShared {
    /// Takes one more reference.
    ///
    /// # Safety
    ///
    /// The caller holds one.
    pub(crate) unsafe fn retain(this: NonNull<ExtShared>) {
        // SAFETY: the caller's reference keeps it live. Other users may do the same on other threads.
        count::increment_shared(&unsafe { this.as_ref() }.users);
    }

    /// Gives one reference back; the last one frees the memory.
    ///
    /// # Safety
    ///
    /// The caller holds one, and does not use it again.
    pub(crate) unsafe fn release(this: NonNull<ExtShared>) {
        // SAFETY: the caller's reference keeps it live until here.
        if !count::decrement(&unsafe { this.as_ref() }.users, ORDERS) {
            return;
        }
        // SAFETY: leaked from a Box by `ExtBuf::new`; nobody else has a reference.
        let mut shared = *unsafe { Box::from_raw(this.as_ptr()) };
        if let Some(free) = shared.free.take() {
            free(shared.memory, shared.len);
        }
    }

    /// References there are.
    ///
    /// # Safety
    ///
    /// The caller holds one.
    pub(crate) unsafe fn users(this: NonNull<ExtShared>) -> u32 {
        // SAFETY: the caller's reference keeps it live.
        unsafe { this.as_ref() }.users.load(ORDERS.acquire_alone) // A
    }
}

/// A piece of memory from outside a pool, to be cut into [slices](ExtSlice) that packets carry.
///
/// It is one user itself; the free callback runs when it and every packet that carries a part of it are gone,
/// on whichever thread drops last.
pub struct ExtBuf {
    shared: NonNull<ExtShared>,
    /// Bytes not yet given out as slices.
    rest: (NonNull<u8>, usize),
}

// SAFETY: the count is atomic, the callback is Send, and the memory is owned through it.
unsafe impl Send for ExtBuf {}

impl ExtBuf {
    /// Wraps a vector; it is dropped when the last user is gone.
    ///
    /// ```
    /// use linerate_mbuf::{ExtBuf, Mempool};
    ///
    /// let pool = Mempool::builder("ext", 64).build()?;
    /// let mut m = pool.alloc().expect("free");
    /// m.attach_external(ExtBuf::from_vec(vec![7; 9000]).take(9000).expect("all of it"));
    /// assert_eq!(m.append(9000).map(|d| d[8999]), Some(7));
    /// # Ok::<(), linerate_mbuf::PoolError>(())
    /// ```
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let mut bytes = std::mem::ManuallyDrop::new(bytes.into_boxed_slice());
        let (p, len) = (NonNull::new(bytes.as_mut_ptr()).expect("a box is not null"), bytes.len());
        let free: FreeExt = Box::new(|p, len| {
            // SAFETY: exactly the box that was taken apart above.
            drop(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(p.as_ptr(), len)) });
        });
        // SAFETY: the box is valid for `len` bytes until the callback takes it back, and initialised.
        unsafe { Self::new(p, len, free) }
    }

    /// Wraps memory of the caller's; `free` gets it back when the last user is gone.
    ///
    /// # Safety
    ///
    /// `memory` is valid for reads and writes of `len` initialised bytes, and nobody else touches it, until
    /// `free` is called.
    pub unsafe fn new(memory: NonNull<u8>, len: usize, free: FreeExt) -> Self {
        let shared = ExtShared { users: AtomicU32::new(1), memory, len, free: Some(free) };
        ExtBuf { shared: NonNull::from(Box::leak(Box::new(shared))), rest: (memory, len) }
    }

    /// Cuts the next `len` bytes off as a slice of its own; `None` if fewer are left, if `len` is 0, or if it is
    /// over 65535 (a segment's limit).
    pub fn take(&mut self, len: usize) -> Option<ExtSlice> {
        if len == 0 || len > self.rest.1 || len > usize::from(u16::MAX) {
            return None;
        }
        // SAFETY: we hold a reference ourselves.
        unsafe { ExtShared::retain(self.shared) };
        let start = self.rest.0;
        // SAFETY: len <= what is left.
        self.rest = (unsafe { start.add(len) }, self.rest.1 - len);
        Some(ExtSlice { shared: self.shared, start, len: len as u16, _owner: PhantomData })
    }

    /// Bytes not given out yet.
    pub fn remaining(&self) -> usize {
        self.rest.1
    }

    /// How many use the memory: this handle, its slices and the packets that carry one.
    pub fn users(&self) -> u32 {
        // SAFETY: we hold a reference ourselves.
        unsafe { ExtShared::users(self.shared) }
    }
}

impl Drop for ExtBuf {
    fn drop(&mut self) {
        // SAFETY: our own reference, not used again.
        unsafe { ExtShared::release(self.shared) }
    }
}

impl fmt::Debug for ExtBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtBuf").field("users", &self.users()).field("remaining", &self.rest.1).finish()
    }
}

/// A part of an external buffer that nobody else has: what a packet can carry as its own, writable memory.
pub struct ExtSlice {
    pub(crate) shared: NonNull<ExtShared>,
    pub(crate) start: NonNull<u8>,
    pub(crate) len: u16,
    _owner: PhantomData<ExtBuf>,
}

// SAFETY: as for ExtBuf; the bytes are this slice's alone.
unsafe impl Send for ExtSlice {}

impl ExtSlice {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Never: a slice has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for ExtSlice {
    fn drop(&mut self) {
        // SAFETY: our own reference, not used again.
        unsafe { ExtShared::release(self.shared) }
    }
}

impl fmt::Debug for ExtSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtSlice").field("len", &self.len).finish_non_exhaustive()
    }
}
