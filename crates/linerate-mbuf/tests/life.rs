//! A packet's life through the public calls, clause by clause; every test ends with its pools whole.

use linerate_mbuf::*;

/// Every buffer home, every free one looked at and in its in-pool state.
#[track_caller]
fn whole(pool: &Mempool) {
    let a = pool.audit().unwrap();
    assert_eq!((a.counts.free, a.counts.held), (pool.buffers(), 0), "{}", pool.name());
    assert_eq!(a.checked + a.unchecked, pool.buffers());
}

/// As [`whole`], and by allocating all of it: what comes out is one empty segment.
#[track_caller]
fn whole_by_alloc(pool: &Mempool) {
    whole(pool);
    let all: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
    for m in &all {
        assert_eq!((m.len(), m.segment_count(), m.segments().count()), (0, 1, 1));
        assert_eq!((m.headroom(), m.tailroom()), (pool.headroom(), pool.data_room()));
        assert_eq!((m.port(), m.ol_flags()), (PORT_NONE, OlFlags::empty()));
        assert_eq!(m.sanity_check(), Ok(()));
    }
    assert_eq!(all.len(), pool.buffers() as usize);
    drop(all);
    whole(pool);
}

fn small(name: &str, buffers: u64) -> Mempool {
    Mempool::builder(name, buffers).cache(4).headroom(20).data_room(100).build().unwrap()
}

/// A packet of segments with these lengths, its bytes counting up from 0.
fn packet(pool: &Mempool, lens: &[usize]) -> Mbuf {
    let mut next = 0u8;
    let mut seg = |len: usize| {
        let mut m = pool.alloc().unwrap();
        for b in m.append(len).unwrap() {
            *b = next;
            next = next.wrapping_add(1);
        }
        m
    };
    let mut m = seg(lens[0]);
    for &len in &lens[1..] {
        m.chain(seg(len)).unwrap();
    }
    m
}

fn bytes<'a>(segments: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    segments.flatten().copied().collect()
}

fn counting(n: usize) -> Vec<u8> {
    (0..n).map(|i| i as u8).collect()
}

#[test]
fn ends_move_up_to_their_limit_and_not_one_past() {
    let pool = small("ends", 4);
    let mut m = pool.alloc().unwrap();
    let room = |m: &Mbuf| {
        assert_eq!(u32::from(m.headroom()) + m.len() + u32::from(m.tailroom()), 120);
    };
    room(&m);
    assert!(m.append(101).is_none());
    assert!(m.append(usize::MAX).is_none() && m.append(65_536).is_none() && m.append(1 << 32).is_none());
    assert_eq!(m.append(100).unwrap().len(), 100);
    room(&m);
    assert!(m.append(1).is_none() && m.append(0).is_some());
    assert!(m.prepend(21).is_none() && m.prepend(65_536 + 1).is_none() && m.prepend(1 << 32).is_none());
    assert_eq!(m.prepend(20).unwrap().len(), 20);
    room(&m);
    assert!(m.prepend(1).is_none());
    assert_eq!((m.headroom(), m.tailroom(), m.len()), (0, 0, 120));
    assert!(!m.adj(121) && !m.trim(121) && !m.adj(usize::MAX) && !m.trim(65_536) && !m.adj(1 << 32));
    assert_eq!(m.len(), 120);
    assert!(m.adj(50) && m.trim(69));
    room(&m);
    assert_eq!((m.headroom(), m.tailroom(), m.len()), (50, 69, 1));
    assert!(m.trim(1) && !m.trim(1) && !m.adj(1) && m.adj(0));
    assert!(m.is_empty());
    room(&m);
    drop(m);
    whole_by_alloc(&pool);
}

#[test]
fn what_was_written_is_read() {
    let pool = small("bytes", 4);
    let mut m = pool.alloc().unwrap();
    m.append(3).unwrap().copy_from_slice(&[3, 4, 5]);
    m.prepend(2).unwrap().copy_from_slice(&[1, 2]);
    assert_eq!(m.data(), [1, 2, 3, 4, 5]);
    m.data_mut()[4] = 9;
    assert!(m.adj(1) && m.trim(1));
    assert_eq!(m.data(), [2, 3, 4]);
    m.for_each_segment_mut(|s| s.fill(7));
    assert_eq!(m.data(), [7, 7, 7]);
}

#[test]
fn ends_of_a_chain_are_its_first_and_its_last_segment() {
    let pool = small("chain ends", 8);
    let mut m = packet(&pool, &[10, 0, 30]);
    assert_eq!((m.segment_count(), m.len(), m.tailroom()), (3, 40, 70));
    assert!(m.append(71).is_none() && m.append(70).is_some());
    assert!(!m.trim(101) && m.trim(100));
    assert!(!m.adj(11) && m.adj(10));
    assert_eq!((m.len(), m.segment_count()), (0, 3));
    assert_eq!(m.sanity_check(), Ok(()));
    drop(m);
    whole_by_alloc(&pool);
}

#[test]
fn chains_are_cut_where_asked() {
    let pool = small("cut", 8);
    let mut m = packet(&pool, &[10, 20, 30, 40]);
    for at in [0, 4, 5, u16::MAX] {
        let e = m.split_off(at).unwrap_err();
        assert_eq!(e, SegmentError::NoSuchSegment { at: at.into(), segments: 4 });
    }
    let tail = m.split_off(3).unwrap();
    let middle = m.split_off(1).unwrap();
    assert_eq!((m.len(), middle.len(), tail.len()), (10, 50, 40));
    assert_eq!((m.segment_count(), middle.segment_count(), tail.segment_count()), (1, 2, 1));
    for p in [&m, &middle, &tail] {
        assert_eq!(p.sanity_check(), Ok(()));
    }
    m.chain(middle).unwrap();
    m.chain(tail).unwrap();
    assert_eq!(bytes(m.segments()), counting(100));
    drop(m);
    whole_by_alloc(&pool);
}

/// Bug case 8: what is cut by hand and freed must not carry its segment count into the pool.
#[test]
fn case_8_a_cut_chain_leaves_no_count_behind() {
    let pool = Mempool::builder("case 8", 3).cache(0).build().unwrap();
    let (mut m0, mut m1, m2) = (packet(&pool, &[500]), packet(&pool, &[500]), packet(&pool, &[500]));
    m1.chain(m2).unwrap();
    m0.chain(m1).unwrap();
    let rest = m0.split_off(2).unwrap();
    drop(m0);
    drop(rest);
    whole_by_alloc(&pool);
}

/// Bug case 10: reading and copying at the limit.
#[test]
fn case_10_reading_and_copying_at_the_limit() {
    let pool = small("case 10", 16);
    let m = packet(&pool, &[60, 40]);
    let mut bounce = [0; 64];
    assert_eq!(m.read(20, 0xFFFF_FFFF, &mut bounce), None);
    assert_eq!(m.read(u32::MAX, u32::MAX, &mut bounce), None);
    assert_eq!(m.read(59, 2, &mut bounce), Some(&[59, 60][..]));
    assert_eq!(bounce[..2], [59, 60]);
    assert_eq!(m.read(59, 2, &mut [0; 1]), None, "bounce too small");
    assert_eq!(m.read(60, 40, &mut []).map(|d| d.as_ptr()), m.segments().nth(1).map(<[u8]>::as_ptr));
    assert_eq!(m.read(100, 0, &mut []), Some(&[][..]));
    assert_eq!(m.read(100, 1, &mut bounce), None);
    assert_eq!(m.read(101, 0, &mut bounce), None);
    let empty = m.copy(&pool, 100, u32::MAX).unwrap();
    assert_eq!((empty.len(), empty.segment_count()), (0, 1));
    assert!(m.copy(&pool, 101, 1).is_none() && m.copy(&pool, u32::MAX, u32::MAX).is_none());
    let some = m.copy(&pool, 50, 20).unwrap();
    assert_eq!(bytes(some.segments()), counting(100)[50..70]);

    let outside = linerate_mem::PageRequest::new(1 << 16).allocate().unwrap();
    let range = outside.base().as_ptr() as usize..outside.base().as_ptr() as usize + outside.len();
    let pinned = Mempool::builder("pinned", 4).data_room(100).pinned_external(outside).build().unwrap();
    let copy = m.copy(&pinned, 0, u32::MAX).unwrap();
    assert!(copy.is_pinned_external() && !copy.has_external() && pinned.is_pinned_external());
    assert!(!m.is_pinned_external());
    assert!(range.contains(&(copy.data().as_ptr() as usize)));
    assert_eq!((copy.pool_name(), bytes(copy.segments())), ("pinned", counting(100)));
    assert_eq!(pinned.counts().held, 1);
    // Attached to by a plain pool's header, and back: the buffer returns to the pinned pool.
    let attached = copy.share().attach(&pool).unwrap();
    assert_eq!((attached.data(), pinned.counts().held), (&counting(100)[..], 1));
    drop(attached);
    // And a pinned buffer that refers to a plain one gets its own memory back.
    let shared = m.share();
    drop(shared.attach(&pinned).unwrap());
    drop((shared, empty, some));
    whole_by_alloc(&pool);
    whole_by_alloc(&pinned);
}

#[test]
fn linearize_moves_everything_or_nothing() {
    let pool = Mempool::builder("linear", 1100).headroom(20).data_room(3000).build().unwrap();
    for lens in [&[100][..], &[40, 60], &[0, 0, 100], &[1; 100]] {
        let mut m = packet(&pool, lens);
        let first = m.data().as_ptr();
        m.linearize().unwrap();
        assert_eq!((m.data(), m.segment_count(), m.len()), (&counting(100)[..], 1, 100));
        assert_eq!((m.data().as_ptr(), m.sanity_check()), (first, Ok(())));
        assert_eq!(pool.counts().held, 1);
    }
    let mut most = packet(&pool, &[2; MAX_SEGMENTS as usize]);
    assert_eq!(most.segment_count(), MAX_SEGMENTS);
    let (e, back) = most.chain(packet(&pool, &[2])).unwrap_err();
    let max = MAX_SEGMENTS.into();
    assert_eq!(e, SegmentError::TooManySegments { wanted: max + 1, max });
    assert_eq!(back.data(), [0, 1]);
    drop(back);
    most.linearize().unwrap();
    assert_eq!(most.data(), counting(2048));
    drop(most);

    let mut tight = packet(&pool, &[1500, 1501]);
    let e = tight.linearize().unwrap_err();
    assert_eq!(e, SegmentError::NoTailroom { have: 1500, need: 1501 });
    assert_eq!((bytes(tight.segments()), tight.segment_count()), (counting(3001), 2));
    assert!(tight.trim(1));
    tight.linearize().unwrap();
    assert_eq!((tight.data(), tight.tailroom()), (&counting(3000)[..], 0));
    drop(tight);
    whole_by_alloc(&pool);
}

#[test]
fn reset_frees_what_follows_and_keeps_the_first() {
    let pool = small("reset", 4);
    let mut m = packet(&pool, &[10, 20, 30]);
    m.set_port(3);
    m.set_ol_flags(OlFlags::RX_VLAN);
    m.reset();
    assert_eq!((m.len(), m.segment_count(), m.headroom(), m.port()), (0, 1, 20, PORT_NONE));
    assert_eq!(pool.counts().held, 1);
    drop(m);
    whole_by_alloc(&pool);
}

#[test]
fn a_clone_is_the_same_buffer_and_the_last_one_frees() {
    let pool = small("clone", 4);
    let a = packet(&pool, &[10, 20]).share();
    let b = a.clone();
    assert_eq!((a.reference_count(), b.data().as_ptr()), (2, a.data().as_ptr()));
    drop(a);
    assert_eq!((b.reference_count(), bytes(b.segments())), (1, counting(30)));
    assert_eq!(pool.counts().held, 2);
    drop(b);
    whole_by_alloc(&pool);
}

#[test]
fn attached_headers_refer_to_the_bytes_across_pools_of_other_geometry() {
    let pool = small("bytes", 8);
    let other =
        Mempool::builder("headers", 8).headroom(0).data_room(1).user_area(100).cache(0).build().unwrap();
    let mut m = packet(&pool, &[50, 0, 30]);
    m.set_port(7);
    m.set_rss_hash(0x1234_5678);
    m.set_mark(99);
    m.set_vlan_tci(5);
    m.set_vlan_tci_outer(6);
    m.set_timestamp(1 << 40);
    m.set_packet_type(PacketType(0x111));
    m.set_tx_offload(TxOffload::NONE.with_l2_len(14));
    m.set_ol_flags(m.ol_flags() | OlFlags::RX_QINQ);
    let m = m.share();
    let a = m.attach(&other).unwrap();
    assert_eq!(other.counts().held, 3);
    let (x, y) = (&m, &a);
    assert_eq!((x.port(), x.rss_hash(), x.mark()), (y.port(), y.rss_hash(), y.mark()));
    assert_eq!((x.vlan_tci(), x.vlan_tci_outer()), (y.vlan_tci(), y.vlan_tci_outer()));
    assert_eq!((x.timestamp(), x.ol_flags()), (y.timestamp(), y.ol_flags()));
    assert_eq!((x.packet_type(), x.tx_offload()), (y.packet_type(), y.tx_offload()));
    assert_eq!((x.len(), x.segment_count()), (y.len(), y.segment_count()));
    assert_eq!((x.sanity_check(), y.sanity_check()), (Ok(()), Ok(())));
    assert_eq!(a.data().as_ptr(), m.data().as_ptr());
    // A header attached to an attached one refers to the first, not to the one between.
    let b = a.attach(&other).unwrap();
    assert_eq!((m.reference_count(), a.reference_count()), (3, 1));
    drop(m);
    drop(a);
    assert_eq!((bytes(b.segments()), pool.counts().held), (counting(80), 3));
    assert_eq!(other.counts().held, 3);
    drop(b);
    whole_by_alloc(&pool);
    whole_by_alloc(&other);
}

#[test]
fn attaching_with_too_few_headers_takes_none() {
    let pool = small("source", 8);
    let few = Mempool::builder("few", 2).cache(0).build().unwrap();
    let m = packet(&pool, &[10, 20, 30]).share();
    assert!(m.attach(&few).is_none());
    assert_eq!((few.counts().held, few.counts().failures), (0, 1));
    assert_eq!(m.reference_count(), 1);
    drop(m);
    whole_by_alloc(&pool);
    whole_by_alloc(&few);
}

#[test]
fn attach_to_and_detach_give_the_own_memory_back() {
    let pool = small("attach", 8);
    let other = Mempool::builder("detach", 8).headroom(64).data_room(512).build().unwrap();
    let source = packet(&pool, &[50, 10]).share();
    // What the new header had, chain and external memory, is given up.
    let mut m = packet(&other, &[5, 6]);
    m.attach_external(ExtBuf::from_vec(vec![1; 100]).take(100).unwrap());
    let a = source.attach_to(m);
    assert_eq!((a.data(), a.len(), a.segment_count()), (&counting(50)[..], 50, 1));
    assert_eq!((source.reference_count(), other.counts().held), (2, 1));
    let twice = a.clone();
    let a = a.detach().expect_err("two hold the header");
    drop(twice);
    let mut own = a.detach().unwrap();
    assert_eq!((own.len(), own.headroom(), own.tailroom()), (0, 64, 512));
    assert_eq!((own.sanity_check(), source.reference_count()), (Ok(()), 1));
    own.append(512).unwrap().fill(1);
    // A header that refers to nobody's bytes, or a chain, stays what it is.
    let plain = own.share().detach().expect_err("refers to nobody");
    let chain = source.attach(&other).unwrap().detach().expect_err("two segments");
    drop((plain, chain));
    assert_eq!(bytes(source.segments()), counting(60));
    drop(source);
    whole_by_alloc(&pool);
    whole_by_alloc(&other);
}

#[test]
fn unique_again_only_when_alone_in_every_part() {
    let pool = small("unique", 16);
    let a = packet(&pool, &[10, 20]).share();
    let b = a.clone();
    let a = a.try_unique().expect_err("a clone is there");
    drop(b);
    let c = a.attach(&pool).unwrap();
    let a = a.try_unique().expect_err("a header is attached");
    let c = c.try_unique().expect_err("the bytes are another's");
    // Attached to the second segment only: c's first goes with a clone that we cut away.
    drop(c);
    let mut m = a.try_unique().unwrap();
    m.data_mut()[0] = 77;
    assert_eq!((m.data()[0], m.sanity_check()), (77, Ok(())));

    let mut ext = ExtBuf::from_vec(vec![0; 100]);
    let mut e = pool.alloc().unwrap();
    e.attach_external(ext.take(50).unwrap());
    let e = e.share().try_unique().expect_err("the external buffer has another user");
    drop(ext);
    let f = e.attach(&pool).unwrap();
    let e = e.try_unique().expect_err("two headers on one external buffer");
    drop(e);
    let mut f = f.try_unique().expect("alone on the external buffer");
    assert_eq!(f.append(50).map(|b| b.len()), Some(50));
    drop((m, f));
    whole_by_alloc(&pool);
}

#[test]
fn own_headers_go_in_front_of_shared_bytes() {
    let pool = small("front", 16);
    let body = packet(&pool, &[40, 10]).share();
    let with_header = |n: u8| {
        let mut head = pool.alloc().unwrap();
        head.append(2).unwrap().fill(n);
        body.attach(&pool).unwrap().prepend_packet(head).unwrap()
    };
    let (x, y) = (with_header(0xaa), with_header(0xbb));
    let mut wanted = vec![0xaa, 0xaa];
    wanted.extend(counting(50));
    assert_eq!((bytes(x.segments()), x.len(), x.segment_count()), (wanted.clone(), 52, 3));
    wanted[..2].fill(0xbb);
    assert_eq!((bytes(y.segments()), y.sanity_check()), (wanted.clone(), Ok(())));
    // A packet that others hold cannot be put behind.
    let second = body.clone();
    let (body, head) = body.prepend_packet(pool.alloc().unwrap()).expect_err("two hold it");
    drop((second, head));
    // Attached and prepended to once more, in depth: all goes home whatever goes first.
    let z = x.attach(&pool).unwrap().prepend_packet(pool.alloc().unwrap()).unwrap();
    drop(body);
    drop(x);
    drop(y);
    assert_eq!(bytes(z.segments())[2..], counting(50));
    let z = z.try_unique().expect_err("its tail is attached");
    drop(z);
    whole_by_alloc(&pool);
}

#[test]
fn deep_copies_have_bytes_and_metadata_of_their_own() {
    let pool = small("from", 8);
    let tiny = Mempool::builder("tiny", 64).headroom(3).data_room(7).cache(0).build().unwrap();
    let mut m = packet(&pool, &[50, 30]);
    m.set_mark(4);
    let c = m.copy(&tiny, 10, 60).unwrap();
    assert_eq!((bytes(c.segments()), c.segment_count()), (counting(80)[10..70].to_vec(), 9));
    assert_eq!((c.mark(), c.sanity_check()), (Some(4), Ok(())));
    m.data_mut().fill(0xff);
    assert_eq!(bytes(c.segments())[0], 10);
    let s = m.share();
    let d = s.copy(&tiny, 0, u32::MAX).unwrap();
    assert_eq!(d.len(), 80);
    // 64 buffers, 21 of which are taken: what does not fit takes none.
    let held = tiny.counts().held;
    let keep: Vec<_> = (0..3).map_while(|_| s.copy(&tiny, 0, u32::MAX)).collect();
    assert!(s.copy(&tiny, 0, u32::MAX).is_none());
    assert_eq!(tiny.counts().held, held + 12 * keep.len() as u32);
    drop((c, d, s, keep));
    whole_by_alloc(&pool);
    whole_by_alloc(&tiny);
}

#[test]
fn user_area_stays_and_is_apart_from_data() {
    let pool = Mempool::builder("user", 2).user_area(37).headroom(0).data_room(64).cache(0).build().unwrap();
    let (mut a, mut b) = (pool.alloc().unwrap(), pool.alloc().unwrap());
    assert_eq!((a.user_area().len(), pool.user_area()), (37, 37));
    a.user_area().fill(0xa1);
    b.user_area().fill(0xb2);
    a.append(64).unwrap().fill(0);
    b.append(64).unwrap().fill(0);
    assert!(a.user_area().iter().all(|&x| x == 0xa1));
    assert!(b.user_area().iter().all(|&x| x == 0xb2));
    drop((a, b));
    let mut seen: Vec<u8> = (0..2)
        .map(|_| {
            let mut m = pool.alloc().unwrap();
            let first = m.user_area()[36];
            std::mem::forget(m); // kept out, so that the next one is the other
            first
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [0xa1, 0xb2], "what is in the user area comes back from the pool");
}

#[test]
fn dynamic_fields_are_apart_and_go_with_attach_and_copy() {
    let registry = DynRegistry::new();
    let (a, b) = (registry.field("a", 4, 4).unwrap(), registry.field("b", 8, 8).unwrap());
    let flag = registry.flag("f").unwrap().flag();
    let pool = small("dynamic", 8);
    let stale = {
        // Dirty every buffer's fields first: an attached header must not show what it had before.
        let mut all: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
        all.iter_mut().for_each(|m| b.get_mut(m).fill(0xee));
        all.len()
    };
    assert_eq!(stale, 8);
    let mut m = packet(&pool, &[10]);
    m.set_timestamp(u64::MAX);
    a.get_mut(&mut m).copy_from_slice(&[1, 2, 3, 4]);
    b.get_mut(&mut m).fill(9);
    m.set_ol_flags(m.ol_flags() | flag);
    assert_eq!((a.get(&m), b.get(&m)), (&[1, 2, 3, 4][..], &[9; 8][..]));
    assert_eq!((m.timestamp(), m.data()), (Some(u64::MAX), &counting(10)[..]));
    let c = m.copy(&pool, 0, 1).unwrap();
    assert_eq!((a.get(&c), b.get(&c)), (a.get(&m), b.get(&m)));
    let s = m.share();
    let t = s.attach(&pool).unwrap();
    assert_eq!((a.get_shared(&t), b.get_shared(&t)), (a.get_shared(&s), b.get_shared(&s)));
    assert!(t.ol_flags().contains(flag));
    // A packet whose fields nobody wrote gives its zeros, not what the new header had.
    let fresh = Mempool::builder("fresh", 2).build().unwrap();
    let u = packet(&fresh, &[1]).share().attach(&pool).unwrap();
    assert_eq!(b.get_shared(&u), [0; 8]);
    drop((c, s, t, u));
    whole_by_alloc(&pool);
}

#[test]
fn exhaustion_is_none_and_ends_with_a_free() {
    for kind in [BackendKind::Ring, BackendKind::Stack] {
        for cache in [0, 1, 7, 32] {
            let pool = Mempool::builder("dry", 64).cache(cache).backend(kind).build().unwrap();
            let mut all: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
            let mut burst = Burst::new();
            assert_eq!(all.len(), 64);
            assert!(pool.alloc().is_none() && !pool.alloc_bulk(&mut burst, 1) && burst.is_empty());
            assert_eq!((pool.counts().free, pool.counts().held, pool.counts().failures), (0, 64, 3));
            all.truncate(60);
            assert!(!pool.alloc_bulk(&mut burst, 5) && burst.is_empty());
            assert!(pool.alloc_bulk(&mut burst, 4) && burst.len() == 4);
            assert!(pool.alloc().is_none());
            drop(burst);
            all.clear();
            whole_by_alloc(&pool);
        }
    }
}

#[test]
fn holders_are_named_while_they_live_and_may_not_hold_too_many() {
    let pool = small("held", 8);
    let rx = pool.holder("rx0");
    let taken: Vec<_> = (0..5).map(|_| pool.alloc().unwrap()).collect();
    rx.set(3);
    let c = pool.counts();
    assert_eq!((c.total, c.free, c.held, c.posted), (8, 3, 5, vec![("rx0".to_string(), 3)]));
    assert!(pool.audit().is_ok());
    rx.set(6);
    let wrong = AuditError::TooMany { pool: "held".into(), free: 3, posted: 6, total: 8 };
    assert_eq!(pool.audit(), Err(wrong));
    let rx2 = pool.holder("rx1");
    rx2.set(u32::MAX);
    rx.set(u32::MAX);
    assert!(pool.audit().is_err());
    drop((rx, rx2));
    assert!(pool.counts().posted.is_empty() && pool.audit().is_ok());
    drop(taken);
    whole_by_alloc(&pool);
}

#[test]
fn sizes_out_of_range_are_refused_with_a_hint() {
    let hint = |r: Result<Mempool, PoolError>| {
        let e = r.unwrap_err();
        assert!(!e.hint().is_empty() && e.to_string().contains("pool bad"), "{e}");
        e
    };
    let b = |n| Mempool::builder("bad", n);
    assert!(matches!(hint(b(0).build()), PoolError::Count { wanted: 0, .. }));
    assert!(matches!(hint(b(1 << 40).build()), PoolError::Count { .. }));
    assert!(matches!(hint(b(600).cache(513).build()), PoolError::Cache { max: 512, .. }));
    assert!(matches!(hint(b(8).cache(9).build()), PoolError::Cache { max: 8, .. }));
    assert!(matches!(hint(b(8).data_room(0).build()), PoolError::Room { .. }));
    assert!(matches!(hint(b(8).headroom(1).data_room(65_535).build()), PoolError::Room { .. }));
    let few = linerate_mem::PageRequest::new(4096).allocate().unwrap();
    assert!(matches!(hint(b(8192).pinned_external(few).build()), PoolError::Memory { .. }));
    let most = b(2).headroom(0).data_room(65_535).build().unwrap();
    let mut m = most.alloc().unwrap();
    assert_eq!(m.append(65_535).map(|d| d.len()), Some(65_535));
    assert!(m.append(1).is_none() && m.prepend(1).is_none());
    drop(m);
    whole_by_alloc(&most);
}

#[test]
fn a_pool_stays_until_its_last_buffer_is_home() {
    let mut m = {
        let pool = small("gone", 8);
        packet(&pool, &[10])
    };
    drop(small("another", 8));
    assert_eq!((m.data(), m.pool_name()), (&counting(10)[..], "gone"));
    m.append(5).unwrap().fill(1);
    drop(m);
    drop(small("a third", 8)); // takes the first one down
}

#[test]
fn templates_set_a_received_packet_up() {
    let pool = small("rx", 8);
    let t =
        RxTemplate::new(&pool, 5).with_flags(OlFlags::RX_IP_CKSUM_GOOD).with_packet(PacketType(0x211), 60);
    let mut burst = Burst::new();
    assert!(pool.alloc_rx(&t, &mut burst, 3));
    for m in burst.as_slice() {
        assert_eq!((m.port(), m.len(), m.data().len(), m.packet_type()), (5, 60, 60, PacketType(0x211)));
        assert_eq!((m.ol_flags(), m.headroom(), m.sanity_check()), (OlFlags::RX_IP_CKSUM_GOOD, 20, Ok(())));
    }
    drop(burst);
    whole_by_alloc(&pool);
}

#[test]
fn a_template_that_does_not_fit_the_pool_is_refused() {
    let (pool, roomy) = (small("small", 8), Mempool::builder("roomy", 8).build().unwrap());
    for t in [RxTemplate::new(&roomy, 0), RxTemplate::new(&pool, 0).with_packet(PacketType(0), 101)] {
        let refused = std::panic::catch_unwind(|| pool.alloc_rx(&t, &mut Burst::new(), 1));
        assert!(refused.is_err());
    }
    let mut burst = Burst::new();
    assert!(pool.alloc_rx(&RxTemplate::new(&pool, 0).with_packet(PacketType(0), 100), &mut burst, 1));
    drop(burst);
    whole_by_alloc(&pool);
}

#[test]
fn a_raw_buffer_is_what_a_device_fills() {
    let pool = small("raw", 4);
    let mut raw = RawMbuf::from_mbuf(pool.alloc().unwrap());
    // SAFETY: the buffer is ours, with 100 bytes behind its headroom.
    unsafe { raw.data_ptr().write_bytes(0x42, 100) };
    raw.set_len(100);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| raw.set_len(101))).is_err());
    // SAFETY: no device has it.
    let m = unsafe { raw.into_mbuf() };
    assert_eq!((m.data(), m.len()), (&[0x42; 100][..], 100));
    drop(m);
    whole_by_alloc(&pool);
}
