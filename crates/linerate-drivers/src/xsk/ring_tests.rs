//! The rings against a simple model, across the wrap of their indexes, and against a model of the kernel's end that
//! explores every interleaving.

use super::*;
use proptest::prelude::*;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

/// A ring in ordinary memory, whose other end the test plays.
#[derive(Clone, Default)]
struct Plain {
    producer: Rc<Cell<u32>>,
    consumer: Rc<Cell<u32>>,
    flags: Rc<Cell<u32>>,
    slots: Rc<RefCell<Vec<u64>>>,
}

impl Plain {
    fn new(size: usize, start: u32) -> Self {
        let p = Plain::default();
        p.producer.set(start);
        p.consumer.set(start);
        p.slots.borrow_mut().resize(size, 0);
        p
    }
}

impl RingMemory<u64> for Plain {
    fn size(&self) -> u32 {
        self.slots.borrow().len() as u32
    }
    fn producer(&self, _: Ordering) -> u32 {
        self.producer.get()
    }
    fn set_producer(&self, index: u32, _: Ordering) {
        self.producer.set(index);
    }
    fn consumer(&self, _: Ordering) -> u32 {
        self.consumer.get()
    }
    fn set_consumer(&self, index: u32, _: Ordering) {
        self.consumer.set(index);
    }
    fn flags(&self) -> u32 {
        self.flags.get()
    }
    fn read(&self, index: u32) -> u64 {
        self.slots.borrow()[(index & (self.size() - 1)) as usize]
    }
    fn write(&self, index: u32, value: u64) {
        let at = (index & (self.size() - 1)) as usize;
        self.slots.borrow_mut()[at] = value;
    }
}

/// One step of either end.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push(u8),
    Publish,
    Take(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![(0..9u8).prop_map(Step::Push), Just(Step::Publish), (0..9u8).prop_map(Step::Take)]
}

proptest! {
    // One slot overwritten repeatedly, an "available" that starts at the ring's length, a wrong mask: each was a bug
    // of some library. Both of our types, joined, against a queue, from any start.
    #[test]
    fn both_ends_together_are_a_queue(
        start in prop_oneof![Just(0u32), Just(u32::MAX - 3), any::<u32>()],
        bits in 0..5u32,
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let size = 1u32 << bits;
        let ring = Plain::new(size as usize, start);
        let (mut producer, mut consumer) = (Producer::new(ring.clone()), Consumer::new(ring.clone()));
        let (mut pushed, mut visible) = (VecDeque::new(), VecDeque::new());
        let mut number = 0u64;
        for s in steps {
            match s {
                Step::Push(n) => for _ in 0..n {
                    let room = size as usize - pushed.len() - visible.len();
                    prop_assert_eq!(producer.free(size) as usize, room);
                    let took = producer.push(number);
                    prop_assert_eq!(took, room > 0);
                    if took {
                        pushed.push_back(number);
                    }
                    number += 1;
                },
                Step::Publish => {
                    producer.publish();
                    visible.append(&mut pushed);
                }
                Step::Take(n) => {
                    let have = consumer.available(size);
                    prop_assert_eq!(have as usize, visible.len());
                    prop_assert_eq!(consumer.waiting(), have);
                    let n = u32::from(n).min(have);
                    for i in 0..n {
                        prop_assert_eq!(consumer.peek(i), visible[i as usize]);
                    }
                    consumer.release(n);
                    visible.drain(..n as usize);
                }
            }
            prop_assert_eq!(producer.waiting() as usize, visible.len());
        }
    }

    // Whatever the kernel writes to its indexes: never more than the ring has.
    #[test]
    fn indexes_that_lie_are_bounded(producer in any::<u32>(), consumer in any::<u32>(), ours in any::<u32>()) {
        let ring = Plain::new(8, ours);
        let (mut p, mut c) = (Producer::new(ring.clone()), Consumer::new(ring.clone()));
        ring.consumer.set(consumer);
        prop_assert!(p.free(8) <= 8);
        prop_assert!(p.waiting() <= 8);
        ring.producer.set(producer);
        prop_assert!(c.available(8) <= 8);
        prop_assert!(c.waiting() <= 8);
    }
}

#[test]
fn the_wakeup_flag_is_bit_0() {
    let ring = Plain::new(4, 0);
    let p = Producer::new(ring.clone());
    assert!(!p.needs_wakeup());
    ring.flags.set(1);
    assert!(p.needs_wakeup());
    ring.flags.set(2);
    assert!(!p.needs_wakeup());
}

/// The model of the kernel's end, with the orders of `net/xdp/xsk_queue.h`.
mod model {
    use super::super::*;
    use loom::{
        cell::UnsafeCell,
        sync::{Arc, atomic::AtomicU32},
        thread,
    };
    use std::sync::atomic::Ordering::Relaxed;

    /// Two slots; `WEAK` names the edge that is weakened (0 = none).
    struct Shared<const WEAK: u8> {
        producer: AtomicU32,
        consumer: AtomicU32,
        slots: [UnsafeCell<u64>; 2],
    }

    /// A handle for one end.
    struct End<const WEAK: u8>(Arc<Shared<WEAK>>);

    impl<const WEAK: u8> RingMemory<u64> for End<WEAK> {
        const ORDERS: Orders = Orders {
            p0: if WEAK == 1 { Relaxed } else { ORDERS.p0 },
            p1: if WEAK == 2 { Relaxed } else { ORDERS.p1 },
            c0: if WEAK == 3 { Relaxed } else { ORDERS.c0 },
            c1: if WEAK == 4 { Relaxed } else { ORDERS.c1 },
        };
        fn size(&self) -> u32 {
            2
        }
        fn producer(&self, order: Ordering) -> u32 {
            self.0.producer.load(order)
        }
        fn set_producer(&self, index: u32, order: Ordering) {
            self.0.producer.store(index, order);
        }
        fn consumer(&self, order: Ordering) -> u32 {
            self.0.consumer.load(order)
        }
        fn set_consumer(&self, index: u32, order: Ordering) {
            self.0.consumer.store(index, order);
        }
        fn flags(&self) -> u32 {
            0
        }
        fn read(&self, index: u32) -> u64 {
            // SAFETY: loom checks that no other thread writes the slot meanwhile: that is what is tested.
            self.0.slots[(index & 1) as usize].with(|p| unsafe { *p })
        }
        fn write(&self, index: u32, value: u64) {
            // SAFETY: as above, and that none reads it.
            self.0.slots[(index & 1) as usize].with_mut(|p| unsafe { *p = value });
        }
    }

    fn shared<const WEAK: u8>() -> Arc<Shared<WEAK>> {
        let start = u32::MAX; // the second push wraps
        Arc::new(Shared {
            producer: AtomicU32::new(start),
            consumer: AtomicU32::new(start),
            slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    const PACKETS: u64 = 3;

    /// We produce, the kernel consumes: it reads a slot only behind an acquire, and gives it back with a release.
    fn we_produce<const WEAK: u8>() {
        let ring = shared::<WEAK>();
        let kernel = ring.clone();
        let k = thread::spawn(move || {
            let (mut next, mut got) = (u32::MAX, 0);
            while got < PACKETS {
                while kernel.producer.load(Acquire) == next {
                    thread::yield_now();
                }
                // SAFETY: loom checks it.
                let v = kernel.slots[(next & 1) as usize].with(|p| unsafe { *p });
                got += 1;
                assert_eq!(v, got, "the kernel read something else than was written");
                next = next.wrapping_add(1);
                kernel.consumer.store(next, Release);
            }
        });
        let mut p = Producer::new(End(ring));
        for v in 1..=PACKETS {
            while !p.push(v) {
                thread::yield_now();
            }
            p.publish();
        }
        k.join().unwrap();
    }

    /// The kernel produces, we consume.
    fn we_consume<const WEAK: u8>() {
        let ring = shared::<WEAK>();
        let kernel = ring.clone();
        let k = thread::spawn(move || {
            let mut next = u32::MAX;
            for v in 1..=PACKETS {
                while next.wrapping_sub(kernel.consumer.load(Acquire)) == 2 {
                    thread::yield_now();
                }
                // SAFETY: loom checks it.
                kernel.slots[(next & 1) as usize].with_mut(|p| unsafe { *p = v });
                next = next.wrapping_add(1);
                kernel.producer.store(next, Release);
            }
        });
        let mut c = Consumer::new(End(ring));
        let mut got = 0;
        while got < PACKETS {
            let n = c.available(1);
            for i in 0..n {
                got += 1;
                assert_eq!(c.peek(i), got, "we read something else than the kernel wrote");
            }
            c.release(n);
            if n == 0 {
                thread::yield_now();
            }
        }
        k.join().unwrap();
    }

    fn check(f: fn()) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(f);
    }

    fn fails(f: fn()) -> bool {
        std::panic::catch_unwind(|| check(f)).is_err()
    }

    #[test]
    fn every_edge_holds_and_none_can_be_weakened() {
        check(we_produce::<0>);
        check(we_consume::<0>);
        assert!(fails(we_produce::<1>), "P0 relaxed is not found");
        assert!(fails(we_produce::<2>), "P1 relaxed is not found");
        assert!(fails(we_consume::<3>), "C0 relaxed is not found");
        assert!(fails(we_consume::<4>), "C1 relaxed is not found");
    }
}
