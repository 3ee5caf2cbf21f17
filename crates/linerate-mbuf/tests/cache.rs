//! The per-core cache's rules (bug case 7), seen through `counts()`.

use linerate_mbuf::{BackendKind, Burst, Header, Mbuf, Mempool};
use std::ptr::null_mut;

fn pool(cache: u32, kind: BackendKind) -> Mempool {
    Mempool::builder("cache", 1000).cache(cache).backend(kind).data_room(64).build().unwrap()
}

fn get(pool: &Mempool, n: usize) -> Vec<*mut Header> {
    let mut v = vec![null_mut(); n];
    // SAFETY: room for `n`; everything got is put back by the tests.
    assert!(unsafe { pool.get_raw(v.as_mut_ptr(), n) });
    v
}

fn put(pool: &Mempool, v: &[*mut Header]) {
    // SAFETY: got from this pool, as they came, once.
    unsafe { pool.put_raw(v.as_ptr(), v.len()) }
}

/// (cached, back end, refills, flushes), with the sum checked.
#[track_caller]
fn seen(pool: &Mempool, held: u32) -> (u32, u32, u64, u64) {
    let c = pool.counts();
    assert_eq!((c.cached + c.backend, c.held), (1000 - held, held));
    assert!(c.cached <= pool.cache_size());
    (c.cached, c.backend, c.refills, c.flushes)
}

#[test]
fn a_refill_leaves_half_behind() {
    for kind in [BackendKind::Ring, BackendKind::Stack] {
        let p = pool(256, kind);
        let a = get(&p, 32);
        assert_eq!(seen(&p, 32), (128, 840, 1, 0));
        let b = get(&p, 128);
        assert_eq!(seen(&p, 160), (0, 840, 1, 0));
        let c = get(&p, 128); // missing 128 + half fit the cache exactly
        assert_eq!(seen(&p, 288), (128, 584, 2, 0));
        let d = get(&p, 130); // 128 are here, 2 are missing: half is left behind
        assert_eq!(seen(&p, 418), (128, 454, 3, 0));
        let e = get(&p, 300); // larger than the cache: what is here, and the rest without a refill
        assert_eq!(seen(&p, 718), (0, 282, 3, 0));
        for v in [a, b, c, d, e] {
            put(&p, &v);
        }
        assert_eq!(p.audit().unwrap().checked, 1000);
    }
}

#[test]
fn reaching_the_size_flushes_nothing_and_passing_it_flushes_to_half() {
    for kind in [BackendKind::Ring, BackendKind::Stack] {
        let p = pool(256, kind);
        let all = get(&p, 600); // larger than the cache: straight from the back end
        assert_eq!(seen(&p, 600), (0, 400, 0, 0));
        put(&p, &all[..255]);
        put(&p, &all[255..256]);
        assert_eq!(seen(&p, 344), (256, 400, 0, 0));
        put(&p, &all[256..257]); // one past: the coldest half goes in one call
        assert_eq!(seen(&p, 343), (129, 528, 0, 1));
        put(&p, &all[257..384]);
        assert_eq!(seen(&p, 216), (256, 528, 0, 1));
        put(&p, &all[384..584]); // a put of more than half: it and what fits beside it stay
        assert_eq!(seen(&p, 16), (256, 728, 0, 2));
        let hot = get(&p, 256);
        assert_eq!(hot[56..], all[384..584], "the hot ones stayed");
        assert_eq!(hot[..56], all[328..384], "and the warmest of the others");
        put(&p, &hot);
        put(&p, &all[584..]);
        assert_eq!(p.audit().unwrap().checked, 1000);
    }
}

#[test]
fn what_was_put_last_comes_back_first() {
    for kind in [BackendKind::Ring, BackendKind::Stack] {
        for odd in [0, 1, 7, 31] {
            let p = pool(256, kind);
            let mut held = get(&p, 700);
            // The cache full, up to a remainder; then 32 marked ones in and out, burst after burst.
            put(&p, &held.split_off(700 - 256 + odd));
            for _ in 0..8 {
                let marked = held.split_off(held.len() - 32);
                put(&p, &marked);
                let c = p.counts();
                assert!(c.cached <= 256 && c.cached >= 32, "{c:?}");
                let back = get(&p, 32);
                assert_eq!(back, marked);
                put(&p, &back);
            }
            // One by one too, in reverse.
            let one_by_one: Vec<_> = held.drain(..5).collect();
            one_by_one.iter().for_each(|&h| put(&p, &[h]));
            let back: Vec<_> = (0..5).map(|_| get(&p, 1)[0]).collect();
            assert!(back.iter().eq(one_by_one.iter().rev()));
            put(&p, &back);
            put(&p, &held);
            assert_eq!(p.audit().unwrap().checked, 1000);
        }
    }
}

#[test]
fn a_flush_hands_over_the_coldest() {
    // In the ring the order shows: first in, first out.
    let p = pool(8, BackendKind::Ring);
    let all = get(&p, 1000);
    put(&p, &all[..8]);
    put(&p, &all[8..9]);
    assert_eq!(seen(&p, 991), (5, 4, 0, 1));
    put(&p, &all[9..12]); // 8 again
    put(&p, &all[12..13]);
    assert_eq!(seen(&p, 987), (5, 8, 0, 2));
    // The back end has the first 8 in order, the cache the last 5.
    let first = get(&p, 13);
    assert_eq!(first, [&all[8..13], &all[..8]].concat());
    put(&p, &first);
    put(&p, &all[13..]);
    assert_eq!(p.audit().unwrap().checked, 1000);
}

#[test]
fn small_and_no_caches_keep_the_rules() {
    for size in [0, 1, 2, 3] {
        let p = pool(size, BackendKind::Stack);
        for n in [1, 2, 3, 4, 5, 32] {
            let (a, b) = (get(&p, n), get(&p, 1));
            seen(&p, n as u32 + 1);
            put(&p, &a);
            seen(&p, 1);
            put(&p, &b);
            seen(&p, 0);
        }
        assert_eq!(p.audit().unwrap().checked, 1000);
    }
}

#[test]
fn a_short_back_end_still_serves_what_is_there() {
    for kind in [BackendKind::Ring, BackendKind::Stack] {
        let p = pool(256, kind);
        let a = get(&p, 990);
        let b = get(&p, 7); // no refill to half possible: exactly what is missing
        assert_eq!(seen(&p, 997), (0, 3, 0, 0));
        let mut burst: Burst<Mbuf> = Burst::new();
        assert!(!p.alloc_bulk(&mut burst, 4));
        assert!(p.alloc_bulk(&mut burst, 3));
        assert_eq!((seen(&p, 1000), p.counts().failures), ((0, 0, 0, 0), 1));
        drop(burst);
        put(&p, &a);
        put(&p, &b);
        assert_eq!(p.audit().unwrap().checked, 1000);
    }
}

#[test]
fn an_audit_disturbs_no_order() {
    for kind in [BackendKind::Ring, BackendKind::Stack] {
        let order = |audit: bool| {
            let p = pool(16, kind);
            let some = get(&p, 100);
            put(&p, &some);
            if audit {
                p.audit().unwrap();
            }
            let base = p.pages().base().as_ptr() as usize;
            let all = get(&p, 1000);
            let order: Vec<_> = all.iter().map(|&h| h as usize - base).collect();
            put(&p, &all);
            order
        };
        assert_eq!(order(true), order(false));
    }
}
