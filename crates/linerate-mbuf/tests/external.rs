//! External buffers: shared counts, the callback exactly once, panics in it.

use linerate_mbuf::{ExtBuf, Mempool};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

#[track_caller]
fn whole(pool: &Mempool) {
    assert_eq!((pool.counts().free, pool.audit().unwrap().checked), (pool.buffers(), pool.buffers()));
}

fn pool() -> Mempool {
    Mempool::builder("ext", 64).cache(0).data_room(100).build().unwrap()
}

/// Memory whose callback counts, frees it, and says on which thread it ran.
fn counted(len: usize) -> (ExtBuf, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let bytes = Box::leak(vec![0u8; len].into_boxed_slice());
    let start = NonNull::new(bytes.as_mut_ptr()).unwrap();
    let free = Box::new(move |p: NonNull<u8>, n: usize| {
        assert_eq!(n, len);
        seen.fetch_add(1, SeqCst);
        // SAFETY: the box that was leaked above, given back once.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(p.as_ptr(), n)) });
    });
    // SAFETY: leaked, initialised, and nobody else's until the callback.
    (unsafe { ExtBuf::new(start, len, free) }, calls)
}

#[test]
fn slices_are_cut_off_in_order_and_never_overlap() {
    let (mut e, calls) = counted(200_000);
    assert!(e.take(0).is_none() && e.take(65_536).is_none());
    let (a, b) = (e.take(65_535).unwrap(), e.take(100).unwrap());
    assert_eq!((a.len(), b.len(), e.remaining(), e.users()), (65_535, 100, 134_365, 3));
    assert!(!a.is_empty());
    drop(a);
    assert_eq!(e.users(), 2);
    assert!(e.take(134_366).is_none());
    drop(e);
    assert_eq!(calls.load(SeqCst), 0);
    drop(b);
    assert_eq!(calls.load(SeqCst), 1);
}

#[test]
fn a_packet_carries_a_slice_as_its_own_memory() {
    let p = pool();
    let (mut e, calls) = counted(1000);
    let mut m = p.alloc().unwrap();
    m.append(50).unwrap().fill(1);
    m.attach_external(e.take(600).unwrap());
    assert_eq!((m.len(), m.headroom(), m.tailroom(), m.has_external()), (0, 0, 600, true));
    m.append(600).unwrap().fill(9);
    assert!(m.append(1).is_none() && m.prepend(1).is_none());
    assert!(m.adj(10) && m.prepend(10).is_some());
    // Another slice takes its place; the first is let go.
    m.attach_external(e.take(400).unwrap());
    assert_eq!((m.len(), m.tailroom(), e.users()), (0, 400, 2));
    m.append(400).unwrap().fill(7);
    m.reset();
    assert_eq!((m.tailroom(), m.headroom(), m.has_external()), (400, 0, true));
    m.detach_external();
    assert_eq!((m.len(), m.headroom(), m.tailroom(), m.has_external()), (0, 128, 100, false));
    m.detach_external();
    assert_eq!((e.users(), calls.load(SeqCst), m.sanity_check()), (1, 0, Ok(())));
    drop((m, e));
    assert_eq!(calls.load(SeqCst), 1);
    whole(&p);
}

#[test]
fn attached_headers_and_chains_count_as_users() {
    let (p, q) = (pool(), pool());
    let (mut e, calls) = counted(300);
    let mut m = p.alloc().unwrap();
    m.attach_external(e.take(200).unwrap());
    m.append(200).unwrap().fill(3);
    let mut tail = p.alloc().unwrap();
    tail.attach_external(e.take(100).unwrap());
    tail.append(100).unwrap().fill(4);
    m.chain(tail).unwrap();
    drop(e);
    let m = m.share();
    let a = m.attach(&q).unwrap();
    let b = a.attach(&q).unwrap();
    drop(m); // attached headers refer to the external buffer itself, not to the packet
    whole(&p);
    drop(a);
    assert_eq!(b.segments().flatten().map(|&x| u32::from(x)).sum::<u32>(), 200 * 3 + 100 * 4);
    assert_eq!((calls.load(SeqCst), b.sanity_check()), (0, Ok(())));
    drop(b);
    assert_eq!(calls.load(SeqCst), 1);
    whole(&q);
}

#[test]
fn the_last_user_on_another_thread_runs_the_callback_there() {
    let p = pool();
    for _ in 0..50 {
        let (mut e, calls) = counted(64);
        let packets: Vec<_> = (0..4)
            .map(|_| {
                let mut m = p.alloc().unwrap();
                m.attach_external(e.take(16).unwrap());
                m.append(16).unwrap().fill(1);
                m.share()
            })
            .collect();
        drop(e);
        let threads: Vec<_> = packets
            .into_iter()
            .map(|m| {
                let p = p.clone();
                thread::spawn(move || {
                    let a = m.attach(&p);
                    drop(m);
                    assert!(a.unwrap().data().iter().all(|&x| x == 1));
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(calls.load(SeqCst), 1);
    }
    whole(&p);
}

#[test]
fn a_callback_that_panics_loses_nothing() {
    let p = pool();
    let bomb = |len| {
        let bytes = Box::leak(vec![0u8; len].into_boxed_slice());
        let start = NonNull::new(bytes.as_mut_ptr()).unwrap();
        // SAFETY: leaked for good, initialised, and nobody else's.
        unsafe { ExtBuf::new(start, len, Box::new(|_, _| panic!("a callback that panics"))) }
    };
    let carrier = || {
        let mut m = p.alloc().unwrap();
        m.attach_external(bomb(1000).take(1000).unwrap());
        m.append(1000).unwrap();
        m
    };
    let panics = |f: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    // The last drop, alone and with segments before and behind.
    panics(&mut || drop(carrier()));
    panics(&mut || {
        let mut m = p.alloc().unwrap();
        m.chain(carrier()).unwrap();
        m.chain(p.alloc().unwrap()).unwrap();
        drop(m);
    });
    panics(&mut || drop(carrier().share().attach(&p)));
    whole(&p);
    // The packet lives on: it must not keep lengths that its own memory does not have.
    let mut m = carrier();
    panics(&mut || m.detach_external());
    assert_eq!((m.len(), m.headroom(), m.tailroom(), m.sanity_check()), (0, 128, 100, Ok(())));
    let mut m2 = carrier();
    let (mut e, calls) = counted(10);
    panics(&mut || m2.attach_external(e.take(10).unwrap()));
    assert_eq!((m2.len(), m2.tailroom(), m2.sanity_check()), (0, 10, Ok(())));
    drop((m, m2, e));
    assert_eq!(calls.load(SeqCst), 1);
    whole(&p);
}
