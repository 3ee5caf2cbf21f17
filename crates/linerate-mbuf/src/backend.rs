//! Where a pool keeps the buffers that no cache holds: a ring (first in, first out, lock-free) or a stack (last
//! in, first out, hottest memory first, under a lock).

use crate::header::Header;
use linerate_ring::{MpmcRing, RingSize};
use std::{
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The kind of back end behind a pool's caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// A lock-free MPMC ring: buffers are used in turn.
    #[default]
    Ring,
    /// A locked stack: the buffer returned last is used first, which keeps the working set small.
    Stack,
}

pub(crate) enum Backend {
    Ring(MpmcRing<Object>),
    Stack(Mutex<Vec<Object>>),
}

/// One buffer in the back end.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Object(NonNull<Header>);

// SAFETY: an object in a back end is owned by it; whoever takes it out owns it.
unsafe impl Send for Object {}

fn lock(m: &Mutex<Vec<Object>>) -> MutexGuard<'_, Vec<Object>> {
    // A panic while the lock is held cannot leave the vector torn: no user code runs under it.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Backend {
    pub(crate) fn new(kind: BackendKind, buffers: u32) -> Self {
        match kind {
            BackendKind::Ring => {
                let size =
                    RingSize::exact(buffers as usize).expect("the builder checked the number of buffers");
                Backend::Ring(MpmcRing::new(size).expect("memory for one pointer a buffer"))
            }
            BackendKind::Stack => Backend::Stack(Mutex::new(Vec::with_capacity(buffers as usize))),
        }
    }

    /// Takes `n` objects; false, with nothing taken, if there are too few.
    ///
    /// # Safety
    ///
    /// `out` has room for `n`.
    pub(crate) unsafe fn get(&self, out: *mut *mut Header, n: u32) -> bool {
        match self {
            // SAFETY: room as the caller promises; an Object is a pointer.
            Backend::Ring(r) => n == 0 || unsafe { r.dequeue_bulk_raw(out.cast(), n as usize) } != 0,
            Backend::Stack(m) => {
                let mut v = lock(m);
                let Some(rest) = v.len().checked_sub(n as usize) else { return false };
                // SAFETY: room as the caller promises; the last `n` are moved out and cut off.
                unsafe {
                    v.as_ptr().add(rest).cast::<*mut Header>().copy_to_nonoverlapping(out, n as usize);
                    v.set_len(rest);
                }
                true
            }
        }
    }

    /// Puts `n` objects back.
    ///
    /// # Safety
    ///
    /// `objs` holds `n` headers of this pool that the caller owns.
    ///
    /// # Panics
    ///
    /// If more come back than the pool has: somebody freed twice, which nobody can survive.
    pub(crate) unsafe fn put(&self, objs: *const *mut Header, n: u32) {
        match self {
            Backend::Ring(r) => {
                // SAFETY: as the caller promises; an Object is a non-null pointer.
                let done = n == 0 || unsafe { r.enqueue_bulk_raw(objs.cast(), n as usize) } != 0;
                assert!(done, "a pool got back more buffers than it has");
            }
            Backend::Stack(m) => {
                let mut v = lock(m);
                let len = v.len();
                assert!(len + n as usize <= v.capacity(), "a pool got back more buffers than it has");
                // SAFETY: room was just checked; the objects are the caller's to give.
                unsafe {
                    v.as_mut_ptr().add(len).cast::<*mut Header>().copy_from_nonoverlapping(objs, n as usize);
                    v.set_len(len + n as usize);
                }
            }
        }
    }

    /// Objects in it.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Backend::Ring(r) => r.len() as u32,
            Backend::Stack(m) => lock(m).len() as u32,
        }
    }
}
