//! Every kind of ring behind one shape, so that one loop measures them all. Everything is inlined: the shape
//! costs nothing.

use linerate::ring::{
    BlockConsumer, BlockProducer, Consumer, Hts, Multi, Producer, RingSize, Rts, Single, SlotRing,
};
use std::sync::Arc;

/// The end that puts elements in.
pub trait Put<T>: Send {
    fn bulk(&mut self, from: &[T]) -> usize;
    fn burst(&mut self, from: &[T]) -> usize;
}

/// The end that takes them out.
pub trait Get<T>: Send {
    fn bulk(&mut self, to: &mut [T]) -> usize;
    fn burst(&mut self, to: &mut [T]) -> usize;
}

/// A kind of ring.
pub trait Kind<T> {
    const MODE: &'static str;
    type Put: Put<T> + 'static;
    type Get: Get<T> + 'static;
    fn make(size: RingSize) -> anyhow::Result<(Self::Put, Self::Get)>;
}

/// A kind of ring whose two ends may both be used from many threads.
pub trait SharedKind<T>: Kind<T> {
    fn more(put: &Self::Put, get: &Self::Get) -> (Self::Put, Self::Get);
}

macro_rules! two_ends {
    ($kind:ident, $mode:literal, $put:ty, $get:ty, $make:path) => {
        pub struct $kind;

        impl<T: Copy + Send + 'static> Put<T> for $put {
            #[inline(always)]
            fn bulk(&mut self, from: &[T]) -> usize {
                self.enqueue_bulk(from)
            }
            #[inline(always)]
            fn burst(&mut self, from: &[T]) -> usize {
                self.enqueue_burst(from)
            }
        }

        impl<T: Copy + Send + 'static> Get<T> for $get {
            #[inline(always)]
            fn bulk(&mut self, to: &mut [T]) -> usize {
                self.dequeue_bulk(to)
            }
            #[inline(always)]
            fn burst(&mut self, to: &mut [T]) -> usize {
                self.dequeue_burst(to)
            }
        }

        impl<T: Copy + Send + 'static> Kind<T> for $kind {
            const MODE: &'static str = $mode;
            type Put = $put;
            type Get = $get;
            fn make(size: RingSize) -> anyhow::Result<(Self::Put, Self::Get)> {
                Ok($make(size)?)
            }
        }
    };
}

two_ends!(Spsc, "spsc", Producer<T, Single>, Consumer<T, Single>, linerate::ring::spsc);
two_ends!(SpscBlocks, "spsc-block", BlockProducer<T>, BlockConsumer<T>, linerate::ring::spsc_blocks);
two_ends!(Mpmc, "mpmc", Producer<T, Multi>, Consumer<T, Multi>, linerate::ring::mpmc);
two_ends!(RtsKind, "rts", Producer<T, Rts>, Consumer<T, Rts>, linerate::ring::rts);
two_ends!(HtsKind, "hts", Producer<T, Hts>, Consumer<T, Hts>, linerate::ring::hts);

macro_rules! shared {
    ($($kind:ident)+) => { $(
        impl<T: Copy + Send + 'static> SharedKind<T> for $kind {
            fn more(put: &Self::Put, get: &Self::Get) -> (Self::Put, Self::Get) {
                (put.clone(), get.clone())
            }
        }
    )+ };
}
shared!(Mpmc RtsKind HtsKind Slots);

/// The ring with a sequence number in every slot.
pub struct Slots;

impl<T: Copy + Send + 'static> Put<T> for Arc<SlotRing<T>> {
    #[inline(always)]
    fn bulk(&mut self, from: &[T]) -> usize {
        self.enqueue_bulk(from)
    }
    #[inline(always)]
    fn burst(&mut self, from: &[T]) -> usize {
        self.enqueue_burst(from)
    }
}

impl<T: Copy + Send + 'static> Get<T> for Arc<SlotRing<T>> {
    #[inline(always)]
    fn bulk(&mut self, to: &mut [T]) -> usize {
        self.dequeue_bulk(to)
    }
    #[inline(always)]
    fn burst(&mut self, to: &mut [T]) -> usize {
        self.dequeue_burst(to)
    }
}

impl<T: Copy + Send + 'static> Kind<T> for Slots {
    const MODE: &'static str = "mpmc-slot";
    type Put = Arc<SlotRing<T>>;
    type Get = Arc<SlotRing<T>>;
    fn make(size: RingSize) -> anyhow::Result<(Self::Put, Self::Get)> {
        let ring = Arc::new(SlotRing::new(size)?);
        Ok((ring.clone(), ring))
    }
}
