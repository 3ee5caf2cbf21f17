//! The four rings that a socket shares with the kernel: two that we produce into (fill, transmit) and two that we
//! consume from (receive, completion). Two types, so that neither can take the other's index or mask.
//!
//! ```text
//!  we produce:            ours                              the kernel's
//!      P0 consumer load acquire   ◄───────────  consumer store release (it has read the slots)
//!         write slots
//!      P1 producer store release  ───────────►  producer load acquire, then it reads the slots
//!
//!  we consume:            ours                              the kernel's
//!      C0 producer load acquire   ◄───────────  producer store release (it has written the slots)
//!         read slots
//!      C1 consumer store release  ───────────►  consumer load acquire, then it overwrites the slots
//! ```
//!
//! Indexes run freely through 32 bits and wrap; a slot is an index modulo the ring's size. The kernel's index is
//! looked at only when the copy of it that we keep does not do. What it says is bounded in every build: a kernel
//! that counts wrongly makes us see an empty or full ring, and never a slot outside of it.

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

/// The orders of the four edges, as a table so that a test can weaken each one and see the model fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orders {
    pub(super) p0: Ordering,
    pub(super) p1: Ordering,
    pub(super) c0: Ordering,
    pub(super) c1: Ordering,
}

/// The right ones.
pub(super) const ORDERS: Orders = Orders { p0: Acquire, p1: Release, c0: Acquire, c1: Release };

/// Where a ring lies: mapped from the kernel, or a model of it in tests.
pub(super) trait RingMemory<T> {
    /// The orders to be used.
    const ORDERS: Orders = ORDERS;

    /// Slots; a power of two.
    fn size(&self) -> u32;
    /// Reads the producer's index.
    fn producer(&self, order: Ordering) -> u32;
    /// Writes the producer's index.
    fn set_producer(&self, index: u32, order: Ordering);
    /// Reads the consumer's index.
    fn consumer(&self, order: Ordering) -> u32;
    /// Writes the consumer's index.
    fn set_consumer(&self, index: u32, order: Ordering);
    /// Reads the ring's flags.
    fn flags(&self) -> u32;
    /// Reads the slot that an index stands for, whatever the index.
    fn read(&self, index: u32) -> T;
    /// Writes the slot that an index stands for, whatever the index.
    fn write(&self, index: u32, value: T);
}

/// The kernel waits for a system call before it looks at the ring again.
const NEED_WAKEUP: u32 = 1;

/// Our end of a ring into which we put.
#[derive(Debug)]
pub(super) struct Producer<M> {
    memory: M,
    /// Index of the next slot to be written.
    next: u32,
    /// What the kernel was told.
    published: u32,
    /// The consumer's index when we last looked.
    consumer: u32,
}

impl<M> Producer<M> {
    /// Takes over a ring that nobody else produces into.
    pub(super) fn new<T>(memory: M) -> Self
    where
        M: RingMemory<T>,
    {
        let next = memory.producer(Relaxed);
        let consumer = memory.consumer(M::ORDERS.p0);
        Producer { memory, next, published: next, consumer }
    }

    /// Free slots, looking again if there seem to be fewer than `want`.
    #[inline(always)]
    pub(super) fn free<T>(&mut self, want: u32) -> u32
    where
        M: RingMemory<T>,
    {
        let free = |p: &Self| p.memory.size().saturating_sub(p.next.wrapping_sub(p.consumer));
        let have = free(self);
        if have >= want {
            return have;
        }
        self.consumer = self.memory.consumer(M::ORDERS.p0); // P0
        free(self)
    }

    /// Writes the next slot; false if there is none free.
    #[inline(always)]
    pub(super) fn push<T>(&mut self, value: T) -> bool
    where
        M: RingMemory<T>,
    {
        if self.free(1) == 0 {
            return false;
        }
        self.memory.write(self.next, value);
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Lets the kernel see what was pushed.
    #[inline(always)]
    pub(super) fn publish<T>(&mut self)
    where
        M: RingMemory<T>,
    {
        if self.next != self.published {
            self.published = self.next;
            self.memory.set_producer(self.next, M::ORDERS.p1); // P1
        }
    }

    /// Published slots that the kernel has not taken yet.
    #[inline(always)]
    pub(super) fn waiting<T>(&mut self) -> u32
    where
        M: RingMemory<T>,
    {
        self.consumer = self.memory.consumer(M::ORDERS.p0); // P0
        self.published.wrapping_sub(self.consumer).min(self.memory.size())
    }

    /// Whether the kernel wants to be called before it looks again. Read after publishing; a flag that is raised
    /// at that very moment is seen at the next poll, which is why every poll asks.
    #[inline(always)]
    pub(super) fn needs_wakeup<T>(&self) -> bool
    where
        M: RingMemory<T>,
    {
        self.memory.flags() & NEED_WAKEUP != 0
    }
}

/// Our end of a ring out of which we take.
#[derive(Debug)]
pub(super) struct Consumer<M> {
    memory: M,
    /// Index of the next slot to be read.
    next: u32,
    /// The producer's index when we last looked.
    producer: u32,
}

impl<M> Consumer<M> {
    /// Takes over a ring that nobody else consumes from.
    pub(super) fn new<T>(memory: M) -> Self
    where
        M: RingMemory<T>,
    {
        let next = memory.consumer(Relaxed);
        Consumer { memory, next, producer: next }
    }

    /// Filled slots, looking again if there seem to be fewer than `want`.
    #[inline(always)]
    pub(super) fn available<T>(&mut self, want: u32) -> u32
    where
        M: RingMemory<T>,
    {
        let available = |c: &Self| {
            let n = c.producer.wrapping_sub(c.next);
            if n > c.memory.size() { 0 } else { n }
        };
        let have = available(self);
        if have >= want {
            return have;
        }
        self.producer = self.memory.producer(M::ORDERS.c0); // C0
        available(self)
    }

    /// Reads the slot `ahead` of the next one; the caller knows that it is filled.
    #[inline(always)]
    pub(super) fn peek<T>(&self, ahead: u32) -> T
    where
        M: RingMemory<T>,
    {
        debug_assert!(ahead < self.producer.wrapping_sub(self.next));
        self.memory.read(self.next.wrapping_add(ahead))
    }

    /// Gives the first `n` slots back to the kernel.
    #[inline(always)]
    pub(super) fn release<T>(&mut self, n: u32)
    where
        M: RingMemory<T>,
    {
        if n != 0 {
            debug_assert!(n <= self.producer.wrapping_sub(self.next));
            self.next = self.next.wrapping_add(n);
            self.memory.set_consumer(self.next, M::ORDERS.c1); // C1
        }
    }

    /// Slots of the ring.
    #[inline(always)]
    pub(super) fn size<T>(&self) -> u32
    where
        M: RingMemory<T>,
    {
        self.memory.size()
    }

    /// Filled slots as the kernel tells now.
    pub(super) fn waiting<T>(&self) -> u32
    where
        M: RingMemory<T>,
    {
        let n = self.memory.producer(M::ORDERS.c0).wrapping_sub(self.next); // C0
        if n > self.memory.size() { 0 } else { n }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
