//! The scenes that the model checks play: few threads, few elements, every edge of the protocol in one of them.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p linerate-ring --release --lib loom
//! LINERATE_LOOM_UNBOUNDED=1 RUSTFLAGS="--cfg loom" cargo test -p linerate-ring --release --lib loom_modes
//! ```
//! The first bounds the preemptions of a run (loom's own advice is two or three); the second does not and can
//! take hours.
//!
//! How loom explores matters for how a scene is laid out. It runs the main thread first, and goes back to where
//! two threads raced only for the *last* access before: a load of one thread that is followed by a load and a
//! store of another leaves no trace. So whoever acts first stands in the main thread (whoever sees too little
//! comes second and reads old values then), and a counter that two threads touch once each opens a gap where
//! one may come in between (a `yield_now` would too, but loom hides old values from who has yielded). Nor may
//! two threads spin at once while a third is to act: loom would try without end which spins longer.
//!
//! All indexes start just below 2^32, all rings are so small that they are full and empty.

use loom::thread;

use crate::orders::{TABLE, Table, model};
use crate::ring::Ring;
use crate::side::{Grant, Serial, Shared, Side, Want};
use crate::size::RingSize;
use crate::slots::SlotRing;
use crate::sync::{Arc, AtomicU32};
use crate::{BlockConsumer, BlockProducer, Consumer, Producer};

/// Plays `scene` in all interleavings with at most `preemptions`, with the orders of `table`.
pub(crate) fn play(table: Table, preemptions: usize, scene: impl Fn() + Sync + Send + 'static) {
    model::set(table);
    let mut b = loom::model::Builder::new();
    let unbounded = std::env::var_os("LINERATE_LOOM_UNBOUNDED").is_some();
    b.preemption_bound = if unbounded { None } else { Some(preemptions) };
    b.check(scene);
    model::set(TABLE);
}

/// The scene must fail with these orders.
pub(crate) fn must_fail(
    edge: &str,
    table: Table,
    preemptions: usize,
    scene: impl Fn() + Sync + Send + 'static,
) -> String {
    let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(table, preemptions, scene)));
    model::set(TABLE);
    let Err(why) = r else { panic!("the model does not see that `{edge}` is weakened") };
    let why = why
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| why.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_default();
    // A model that never ends has seen nothing.
    assert!(!why.contains("maximum number of branches"), "`{edge}`: {why}");
    println!("{edge}: {}", why.trim());
    why
}

pub(crate) fn size(capacity: usize) -> RingSize {
    RingSize::exact(capacity).unwrap().starting_at(u32::MAX).head_tail_distance(8)
}

fn retry<R>(mut f: impl FnMut() -> Option<R>) -> R {
    loop {
        if let Some(r) = f() {
            return r;
        }
        thread::yield_now();
    }
}

/// What the scenes need of a ring of shared sides.
pub(crate) trait Any: Send + Sync + 'static {
    fn make(capacity: usize) -> Self;
    fn put(&self, v: &[u32]) -> bool;
    fn take(&self, out: &mut [u32]) -> bool;
}

impl<P: Shared, C: Shared> Any for Ring<u32, P, C> {
    fn make(capacity: usize) -> Self {
        Ring::new(size(capacity)).unwrap()
    }
    fn put(&self, v: &[u32]) -> bool {
        self.enqueue_bulk(v) != 0
    }
    fn take(&self, out: &mut [u32]) -> bool {
        self.dequeue_bulk(out) != 0
    }
}

impl Any for SlotRing<u32> {
    fn make(capacity: usize) -> Self {
        SlotRing::new(size(capacity)).unwrap()
    }
    fn put(&self, v: &[u32]) -> bool {
        self.enqueue_bulk(v) != 0
    }
    fn take(&self, out: &mut [u32]) -> bool {
        self.dequeue_bulk(out) != 0
    }
}

/// One producer, one consumer, more elements than fit: full, empty, slots used again, indexes wrap.
pub(crate) fn there_and_round<R: Any>(capacity: usize, elements: u32) -> impl Fn() + Sync + Send + 'static {
    move || {
        let ring = Arc::new(R::make(capacity));
        let sender = ring.clone();
        let t = thread::spawn(move || {
            for i in 0..elements {
                retry(|| sender.put(&[i]).then_some(()));
            }
        });
        for i in 0..elements {
            let mut got = [99];
            retry(|| ring.take(&mut got).then_some(()));
            assert_eq!(got[0], i);
        }
        t.join().unwrap();
        assert!(!ring.take(&mut [0]));
    }
}

/// The same for the ends of a ring, single ones among them, in singles, bursts and bulks.
pub(crate) fn ends<P: PutOne, C: TakeOne>(
    make: impl Fn() -> (P, C) + Sync + Send + 'static,
) -> impl Fn() + Sync + Send + 'static {
    move || {
        let (mut p, mut c) = make();
        let t = thread::spawn(move || {
            for i in 0..3 {
                retry(|| p.put_one(i).then_some(()));
            }
        });
        for i in 0..3 {
            assert_eq!(retry(|| c.take_one()), i);
        }
        t.join().unwrap();
        assert_eq!(c.take_one(), None);
    }
}

/// A producer end of any kind.
pub(crate) trait PutOne: Send + 'static {
    fn put_one(&mut self, v: u32) -> bool;
}
/// A consumer end of any kind.
pub(crate) trait TakeOne: Send + 'static {
    fn take_one(&mut self) -> Option<u32>;
}
impl<C: Side> PutOne for Producer<u32, crate::Single, C> {
    fn put_one(&mut self, v: u32) -> bool {
        self.enqueue(v).is_ok()
    }
}
impl<P: Shared, C: Side> PutOne for Producer<u32, P, C> {
    fn put_one(&mut self, v: u32) -> bool {
        self.enqueue(v).is_ok()
    }
}
impl PutOne for BlockProducer<u32> {
    fn put_one(&mut self, v: u32) -> bool {
        self.enqueue(v).is_ok()
    }
}
impl TakeOne for BlockConsumer<u32> {
    fn take_one(&mut self) -> Option<u32> {
        self.dequeue()
    }
}
impl<P: Side> TakeOne for Consumer<u32, P, crate::Single> {
    fn take_one(&mut self) -> Option<u32> {
        self.dequeue()
    }
}
impl<P: Side, C: Shared> TakeOne for Consumer<u32, P, C> {
    fn take_one(&mut self) -> Option<u32> {
        self.dequeue()
    }
}

/// Bulks and bursts that cross blocks (of two in a model): what the end of the last block says must hold for
/// those before, and what is freed must have been read.
pub(crate) fn across_blocks(bulk: bool) -> impl Fn() + Sync + Send + 'static {
    move || {
        let (mut p, mut c) = crate::spsc_blocks::<u32>(size(3)).unwrap();
        let t = thread::spawn(move || {
            retry(|| (p.enqueue_bulk(&[0, 1, 2]) != 0).then_some(()));
            retry(|| (p.enqueue_bulk(&[3, 4]) != 0).then_some(()));
        });
        let mut got = Vec::new();
        if bulk {
            retry(|| (c.dequeue_bulk_into(&mut got, 3) != 0).then_some(()));
        }
        while got.len() < 5 {
            assert!(c.len() <= 3);
            if c.dequeue_burst_into(&mut got, 3) == 0 {
                thread::yield_now();
            }
        }
        t.join().unwrap();
        assert_eq!(got, [0, 1, 2, 3, 4]);
    }
}

/// Two producers of one element each, and a consumer that takes both at once: it has synchronised with the
/// one that published last, and must have with the other.
pub(crate) fn two_in_one_out<R: Any>() {
    let ring = Arc::new(R::make(2));
    let (second, taker) = (ring.clone(), ring.clone());
    let t = thread::spawn(move || assert!(second.put(&[2])));
    let u = thread::spawn(move || {
        let mut got = [0, 0];
        taker.take(&mut got).then_some(got)
    });
    assert!(ring.put(&[1]));
    t.join().unwrap();
    let got = u.join().unwrap().unwrap_or_else(|| {
        let mut got = [0, 0];
        assert!(ring.take(&mut got));
        got
    });
    assert!(got == [1, 2] || got == [2, 1]);
}

/// The mirror image: a full ring, two consumers of one element each, a producer that needs both slots.
pub(crate) fn two_out_one_in<R: Any>() {
    let ring = Arc::new(R::make(2));
    assert!(ring.put(&[1, 2]));
    let (second, putter) = (ring.clone(), ring.clone());
    let take = |ring: &R| {
        let mut got = [0];
        assert!(ring.take(&mut got));
        got[0]
    };
    let t = thread::spawn(move || take(&second));
    let u = thread::spawn(move || putter.put(&[3, 4]));
    let mine = take(&ring);
    assert_eq!(t.join().unwrap() + mine, 3);
    if !u.join().unwrap() {
        assert!(ring.put(&[3, 4]));
    }
    let mut rest = [0, 0];
    assert!(ring.take(&mut rest));
    assert_eq!(rest, [3, 4]);
}

/// Two elements arrive at once, two consumers take one each: the second may go by what the first one saw.
pub(crate) fn one_in_two_out<R: Any>() {
    let ring = Arc::new(R::make(2));
    let ts = [0, 1].map(|_| {
        let ring = ring.clone();
        thread::spawn(move || u32::from(ring.take(&mut [0])))
    });
    assert!(ring.put(&[1, 2]));
    let mut n: u32 = ts.into_iter().map(|t| t.join().unwrap()).sum();
    while ring.take(&mut [0]) {
        n += 1;
    }
    assert_eq!(n, 2);
}

/// The mirror image: two slots become free at once, two producers use one each.
pub(crate) fn one_out_two_in<R: Any>() {
    let ring = Arc::new(R::make(2));
    assert!(ring.put(&[1, 2]));
    let ts = [3, 4].map(|i| {
        let ring = ring.clone();
        thread::spawn(move || u32::from(ring.put(&[i])))
    });
    assert!(ring.take(&mut [0, 0]));
    let mut n: u32 = ts.into_iter().map(|t| t.join().unwrap()).sum();
    while ring.take(&mut [0]) {
        n -= 1;
    }
    assert_eq!(n, 0);
}

/// A thread that produces and consumes, `rounds` times, and one that only consumes. It must never find a
/// head that is ahead of the tail it sees: the room would be 2^32 - 1 (the assertion in `reserve`). This is
/// the defect that DPDK had, and public bug 4.
pub(crate) fn through_one_core<R: Any>(rounds: u32) -> impl Fn() + Sync + Send + 'static {
    move || {
        let ring = Arc::new(R::make(1));
        let other = ring.clone();
        let t = thread::spawn(move || u32::from(other.take(&mut [0])));
        let mut n = 0;
        for i in 0..rounds {
            n += u32::from(ring.put(&[i]));
            n -= u32::from(ring.take(&mut [0]));
        }
        // What this one did not get back, the other has or it is still there.
        n -= t.join().unwrap();
        assert_eq!(u32::from(ring.take(&mut [0])), n);
    }
}

/// The mirror image: a full ring, a thread that consumes and produces, and one that only produces.
pub(crate) fn through_one_core_full<R: Any>(rounds: u32) -> impl Fn() + Sync + Send + 'static {
    move || {
        let ring = Arc::new(R::make(1));
        assert!(ring.put(&[7]));
        let other = ring.clone();
        let t = thread::spawn(move || u32::from(other.put(&[9])));
        let mut n = 1;
        for i in 0..rounds {
            n -= u32::from(ring.take(&mut [0]));
            n += u32::from(ring.put(&[i]));
        }
        n += t.join().unwrap();
        assert_eq!(u32::from(ring.take(&mut [0])), n);
    }
}

/// The same with a consumer that is overtaken between its look at the head and its compare-and-swap: what the
/// failure hands out must not be ahead of the tail it sees.
pub(crate) fn overtaken<R: Any>() {
    let ring = Arc::new(R::make(1));
    assert!(ring.put(&[7]));
    let other = ring.clone();
    let t = thread::spawn(move || {
        let mut n = 1 - i32::from(other.take(&mut [0]));
        n += i32::from(other.put(&[8]));
        n - i32::from(other.take(&mut [0]))
    });
    let mine = i32::from(ring.take(&mut [0]));
    let left = t.join().unwrap() - mine;
    assert_eq!(i32::from(ring.take(&mut [0])), left);
}

/// The mirror image: an overtaken producer.
pub(crate) fn overtaken_full<R: Any>() {
    let ring = Arc::new(R::make(1));
    let other = ring.clone();
    let t = thread::spawn(move || {
        let mut n = i32::from(other.put(&[7]));
        n -= i32::from(other.take(&mut [0]));
        n + i32::from(other.put(&[8]))
    });
    let mine = i32::from(ring.put(&[9]));
    let left = t.join().unwrap() + mine;
    assert_eq!(i32::from(ring.take(&mut [0])), left);
}

/// Operations of one side that end in another order than they began: the tail must not pass the first, which
/// is still under way when the two others are done. `prod` says which side.
pub(crate) fn last_one_moves_the_tail<S: Shared>(prod: bool) -> impl Fn() + Sync + Send + 'static {
    use crate::sync::Ordering::Relaxed;

    /// The two halves of an operation of one element; other threads may come in between.
    fn begin<S: Shared>(ring: &Ring<u32, S, S>, prod: bool) -> Grant {
        let g = if prod {
            ring.reserve_slots::<false>(&mut (), 1, Want::Bulk)
        } else {
            ring.reserve_values::<false>(&mut (), 1, Want::Bulk)
        };
        assert_eq!(g.n, 1);
        g
    }
    fn end<S: Shared>(ring: &Ring<u32, S, S>, prod: bool, g: Grant) {
        let mut v = 6;
        if prod {
            // SAFETY: the slot was granted by `begin`; one element.
            unsafe { ring.view().put(g.pos, &raw const v, 1) };
            S::publish(&ring.prod, &mut (), g.pos, 1, &ring.table().prod);
        } else {
            // SAFETY: the value was granted by `begin`; one element.
            unsafe { ring.view().take(g.pos, &raw mut v, 1) };
            S::publish(&ring.cons, &mut (), g.pos, 1, &ring.table().cons);
        }
    }

    move || {
        let ring = Arc::new(Ring::<u32, S, S>::new(size(4)).unwrap());
        if !prod {
            assert!(ring.put(&[1, 2, 3, 4]));
        }
        let first = begin(&ring, prod);
        let gap = Arc::new(AtomicU32::new(0));
        let ts = [true, false].map(|early| {
            let (ring, gap) = (ring.clone(), gap.clone());
            thread::spawn(move || {
                let g = begin(&ring, prod);
                if early {
                    gap.fetch_add(1, Relaxed);
                }
                end(&ring, prod, g);
                if !early {
                    gap.fetch_add(1, Relaxed);
                }
            })
        });
        for t in ts {
            t.join().unwrap();
        }
        let tail =
            || if prod { S::published(&ring.prod, Relaxed) } else { S::published(&ring.cons, Relaxed) };
        assert_eq!(tail(), first.pos, "the tail passed an operation under way");
        end(&ring, prod, first);
        assert_eq!(tail(), first.pos.wrapping_add(3));
    }
}

/// A producer that also looks into the ring and takes nothing, and a consumer. The first leaves what it saw
/// behind for the second.
pub(crate) fn look_and_leave<S: Shared + Serial>() {
    let ring = Arc::new(Ring::<u32, S, S>::new(size(2)).unwrap());
    let other = ring.clone();
    let t = thread::spawn(move || other.take(&mut [0]));
    assert!(ring.put(&[1]));
    drop(ring.dequeue_start(1, Want::Bulk));
    let got = t.join().unwrap();
    assert_eq!(ring.take(&mut [0]), !got);
}

/// The mirror image: a consumer that also reserves and gives back, and a producer.
pub(crate) fn reserve_and_leave<S: Shared + Serial>() {
    let ring = Arc::new(Ring::<u32, S, S>::new(size(1)).unwrap());
    assert!(ring.put(&[1]));
    let other = ring.clone();
    let t = thread::spawn(move || other.put(&[2]));
    assert!(ring.take(&mut [0]));
    drop(ring.enqueue_start(1, Want::Bulk));
    let put = t.join().unwrap();
    assert_eq!(ring.take(&mut [0]), put);
}
