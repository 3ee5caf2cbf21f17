//! Bursts: order, ownership, bulk frees, panics in the middle.

use linerate_mbuf::{BURST_MAX, Burst, Mbuf, Mempool, SharedMbuf};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn pool(name: &str) -> Mempool {
    Mempool::builder(name, 2048).cache(64).data_room(64).build().unwrap()
}

fn numbered(pool: &Mempool, range: std::ops::Range<u16>) -> Burst<Mbuf> {
    let mut b = Burst::new();
    for i in range {
        let mut m = pool.alloc().unwrap();
        m.set_port(i);
        b.push(m).unwrap();
    }
    b
}

fn numbers(b: &Burst<Mbuf>) -> Vec<u16> {
    b.as_slice().iter().map(Mbuf::port).collect()
}

#[track_caller]
fn whole(pool: &Mempool) {
    assert_eq!((pool.counts().free, pool.audit().unwrap().checked), (pool.buffers(), pool.buffers()));
}

#[test]
fn holds_up_to_its_limit_in_order() {
    let p = pool("limit");
    let mut b = numbered(&p, 0..BURST_MAX as u16);
    assert_eq!((b.len(), b.room()), (BURST_MAX, 0));
    let back = b.push(p.alloc().unwrap()).unwrap_err();
    assert!(!p.alloc_bulk(&mut b, 1) && p.alloc_bulk(&mut b, 0));
    assert_eq!(p.counts().held, BURST_MAX as u32 + 1);
    drop(back);
    assert_eq!(b.pop().unwrap().port(), BURST_MAX as u16 - 1);
    assert!(numbers(&b).into_iter().eq(0..BURST_MAX as u16 - 1));
    drop(b);
    whole(&p);
    assert!(Burst::<Mbuf>::default().pop().is_none());
}

#[test]
fn front_is_freed_and_the_rest_moves_up() {
    let p = pool("front");
    let mut b = numbered(&p, 0..40);
    b.free_front(0);
    b.free_front(33);
    assert_eq!((numbers(&b), p.counts().held), ((33..40).collect(), 7));
    assert!(catch_unwind(AssertUnwindSafe(|| b.free_front(8))).is_err());
    b.free_front(7);
    assert!(b.is_empty());
    whole(&p);
}

#[test]
fn append_moves_what_fits() {
    let p = pool("append");
    let (mut a, mut b) = (numbered(&p, 0..500), numbered(&p, 500..520));
    a.append(&mut b);
    assert_eq!((a.len(), numbers(&b)), (512, (512..520).collect()));
    assert!(numbers(&a).into_iter().eq(0..512));
    a.append(&mut b);
    assert_eq!(b.len(), 8);
    drop((a, b));
    whole(&p);
}

#[test]
fn drain_gives_all_and_frees_what_is_not_taken() {
    let p = pool("drain");
    let mut b = numbered(&p, 0..10);
    let mut d = b.drain();
    assert_eq!((d.len(), d.next().unwrap().port(), d.next().unwrap().port()), (10, 0, 1));
    drop(d);
    assert!(b.is_empty());
    whole(&p);
}

#[test]
fn retain_keeps_order_also_when_it_panics() {
    let p = pool("retain");
    let mut b = numbered(&p, 0..100);
    b.retain(|m| m.port() % 3 == 0);
    assert_eq!(numbers(&b), (0..100).filter(|n| n % 3 == 0).collect::<Vec<_>>());
    b.retain(|_| true);
    assert_eq!((b.len(), p.counts().held), (34, 34));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        b.retain(|m| {
            assert!(m.port() != 30, "stop here");
            m.port() % 2 == 0
        });
    }));
    assert!(panicked.is_err());
    // The one that panicked is freed, those behind it are still there.
    let wanted: Vec<u16> = [0, 6, 12, 18, 24].into_iter().chain((33..100).step_by(3)).collect();
    assert_eq!((numbers(&b), p.counts().held), (wanted.clone(), wanted.len() as u32));
    drop(b);
    whole(&p);
}

#[test]
fn packets_change_places_in_a_slice() {
    let p = pool("swap");
    let mut b = numbered(&p, 0..4);
    b.as_mut_slice().reverse();
    b.as_mut_slice()[0].append(3).unwrap().fill(1);
    assert_eq!((numbers(&b), b.as_slice()[0].len()), (vec![3, 2, 1, 0], 3));
    drop(b);
    whole(&p);
}

#[test]
fn a_burst_of_plain_packets_is_one_hand_over_to_each_pool() {
    let (p, q) = (pool("p"), pool("q"));
    let mut b = Burst::new();
    for part in 0..4 {
        for _ in 0..8 {
            b.push(if part % 2 == 0 { p.alloc() } else { q.alloc() }.unwrap()).unwrap();
        }
    }
    // A chain among them, over both pools.
    let mut m = p.alloc().unwrap();
    m.chain(q.alloc().unwrap()).unwrap();
    b.push(m).unwrap();
    assert_eq!((p.counts().held, q.counts().held), (17, 17));
    drop(b);
    whole(&p);
    whole(&q);
    // 512 at once are more than the cache: one flush for all of them.
    let b = numbered(&p, 0..512);
    let before = p.counts().flushes;
    drop(b);
    assert_eq!(p.counts().flushes, before + 1);
    whole(&p);
}

#[test]
fn shared_packets_go_when_the_last_burst_goes() {
    let (p, headers) = (pool("bytes"), pool("headers"));
    let mut a: Burst<SharedMbuf> = Burst::new();
    let mut b: Burst<SharedMbuf> = Burst::new();
    for i in 0..60 {
        let mut m = p.alloc().unwrap();
        m.append(8).unwrap().fill(i);
        let m = m.share();
        match i % 3 {
            0 => b.push(m.clone()).unwrap(),
            1 => b.push(m.attach(&headers).unwrap()).unwrap(),
            _ => (),
        }
        a.push(m).unwrap();
    }
    drop(a);
    assert_eq!((p.counts().held, headers.counts().held), (40, 20));
    assert!(b.as_slice().iter().all(|m| m.data().len() == 8 && m.reference_count() == 1));
    b.free_all();
    whole(&p);
    whole(&headers);
}

#[test]
fn drivers_fill_and_take_raw() {
    let p = pool("raw");
    let (mut from, mut to) = (numbered(&p, 0..20), numbered(&p, 100..101));
    // SAFETY: the packets change from one burst to the other: what `take` counts, `fill` gets.
    unsafe {
        let moved = from.take_raw(|src, n| {
            assert_eq!(n, 20);
            to.fill_raw(12, |dst, room| {
                assert_eq!(room, 12);
                std::ptr::copy_nonoverlapping(src, dst, room);
                room
            })
        });
        assert_eq!(moved, 12);
    }
    assert_eq!(numbers(&from), (12..20).collect::<Vec<_>>());
    assert_eq!(numbers(&to), std::iter::once(100).chain(0..12).collect::<Vec<_>>());
    drop((from, to));
    whole(&p);
}
