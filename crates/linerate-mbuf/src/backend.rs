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

// In place rather than boxed: one pointer less between a pool and its ring, and there is one of these a pool.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Backend {
    Ring(MpmcRing<Object>),
    /// The objects, and how many there are at most.
    Stack(Mutex<Vec<Object>>, usize),
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
    /// An empty back end for `buffers` objects; on failure the bytes that could not be had.
    pub(crate) fn new(kind: BackendKind, buffers: u32) -> Result<Self, usize> {
        let buffers = buffers as usize;
        let bytes = buffers.saturating_mul(size_of::<Object>());
        Ok(match kind {
            BackendKind::Ring => {
                Backend::Ring(RingSize::exact(buffers).and_then(MpmcRing::new).map_err(|_| bytes)?)
            }
            BackendKind::Stack => {
                let mut room = Vec::new();
                room.try_reserve_exact(buffers).map_err(|_| bytes)?;
                Backend::Stack(Mutex::new(room), buffers)
            }
        })
    }

    /// Takes `n` objects; false, with nothing taken, if there are too few.
    ///
    /// # Safety
    ///
    /// `out` has room for `n`.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, out: *mut *mut Header, n: u32) -> bool {
        match self {
            // SAFETY: room as the caller promises; an Object is a pointer.
            Backend::Ring(r) => n == 0 || unsafe { r.dequeue_bulk_raw(out.cast(), n as usize) } != 0,
            // SAFETY: as the caller promises.
            Backend::Stack(m, _) => unsafe { pop(m, out, n as usize) },
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
    #[inline(always)]
    pub(crate) unsafe fn put(&self, objs: *const *mut Header, n: u32) {
        let done = match self {
            // SAFETY: as the caller promises; an Object is a non-null pointer.
            Backend::Ring(r) => n == 0 || unsafe { r.enqueue_bulk_raw(objs.cast(), n as usize) } != 0,
            // SAFETY: as the caller promises.
            Backend::Stack(m, most) => unsafe { push(m, *most, objs, n as usize) },
        };
        if !done {
            too_many();
        }
    }

    /// Objects in it, never those that a put is still writing.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Backend::Ring(r) => r.len() as u32,
            Backend::Stack(m, _) => lock(m).len() as u32,
        }
    }
}

#[cold]
#[inline(never)]
fn too_many() -> ! {
    panic!("a pool got back more buffers than it has");
}

/// # Safety
///
/// `out` has room for `n`.
#[inline(never)]
unsafe fn pop(stack: &Mutex<Vec<Object>>, out: *mut *mut Header, n: usize) -> bool {
    let mut v = lock(stack);
    let Some(rest) = v.len().checked_sub(n) else { return false };
    // SAFETY: room as the caller promises; the last `n` are moved out and cut off.
    unsafe {
        v.as_ptr().add(rest).cast::<*mut Header>().copy_to_nonoverlapping(out, n);
        v.set_len(rest);
    }
    true
}

/// # Safety
///
/// `objs` holds `n` headers that the caller gives up.
#[inline(never)]
unsafe fn push(stack: &Mutex<Vec<Object>>, most: usize, objs: *const *mut Header, n: usize) -> bool {
    let mut v = lock(stack);
    let len = v.len();
    if n > most - len {
        return false;
    }
    // SAFETY: the vector has room for `most`; the objects are the caller's to give.
    unsafe {
        v.as_mut_ptr().add(len).cast::<*mut Header>().copy_from_nonoverlapping(objs, n);
        v.set_len(len + n);
    }
    true
}
