//! Packets against a plain model: whatever is done to them, the bytes are those of a `Vec<Vec<u8>>`, and at the end
//! every pool is whole and every free buffer in its in-pool state.

use linerate_mbuf::*;
use proptest::prelude::*;

/// One step; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Op {
    Alloc(u8),
    Append(u8, u16),
    Prepend(u8, u16),
    Adj(u8, u16),
    Trim(u8, u16),
    Chain(u8, u8),
    SplitOff(u8, u8),
    Linearize(u8),
    Reset(u8),
    Copy(u8, u8, u16, u16),
    External(u8, u16),
    DetachExternal(u8),
    Read(u8, u16, u16),
    Write(u8, u8),
    Drop(u8),
    Share(u8),
    Clone(u8),
    Attach(u8, u8),
    AttachTo(u8, u8),
    Detach(u8),
    PrependPacket(u8, u8),
    TryUnique(u8),
    CopyShared(u8, u8, u16, u16),
    ReadShared(u8, u16, u16),
    DropShared(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let (a, b) = (any::<u8>, any::<u8>);
    // Mostly near the small pools' limits.
    let n = || prop_oneof![8 => 0..40u16, 2 => 0..200u16, 1 => any::<u16>()];
    prop_oneof![
        4 => a().prop_map(Op::Alloc),
        4 => (a(), n()).prop_map(|(i, n)| Op::Append(i, n)),
        2 => (a(), n()).prop_map(|(i, n)| Op::Prepend(i, n)),
        2 => (a(), n()).prop_map(|(i, n)| Op::Adj(i, n)),
        2 => (a(), n()).prop_map(|(i, n)| Op::Trim(i, n)),
        3 => (a(), b()).prop_map(|(i, j)| Op::Chain(i, j)),
        2 => (a(), b()).prop_map(|(i, k)| Op::SplitOff(i, k)),
        1 => a().prop_map(Op::Linearize),
        1 => a().prop_map(Op::Reset),
        1 => (a(), b(), n(), n()).prop_map(|(i, p, o, l)| Op::Copy(i, p, o, l)),
        1 => (a(), n()).prop_map(|(i, n)| Op::External(i, n)),
        1 => a().prop_map(Op::DetachExternal),
        2 => (a(), n(), n()).prop_map(|(i, o, l)| Op::Read(i, o, l)),
        2 => (a(), b()).prop_map(|(i, v)| Op::Write(i, v)),
        2 => a().prop_map(Op::Drop),
        3 => a().prop_map(Op::Share),
        2 => a().prop_map(Op::Clone),
        3 => (a(), b()).prop_map(|(i, p)| Op::Attach(i, p)),
        2 => (a(), b()).prop_map(|(i, j)| Op::AttachTo(i, j)),
        2 => a().prop_map(Op::Detach),
        2 => (a(), b()).prop_map(|(i, j)| Op::PrependPacket(i, j)),
        3 => a().prop_map(Op::TryUnique),
        1 => (a(), b(), n(), n()).prop_map(|(i, p, o, l)| Op::CopyShared(i, p, o, l)),
        2 => (a(), n(), n()).prop_map(|(i, o, l)| Op::ReadShared(i, o, l)),
        3 => a().prop_map(Op::DropShared),
    ]
}

type Segs = Vec<Vec<u8>>;

struct World {
    pools: Vec<Mempool>,
    unique: Vec<(Mbuf, Segs)>,
    shared: Vec<(SharedMbuf, Segs)>,
    stamp: u8,
}

fn at<T>(v: &[T], i: u8) -> Option<usize> {
    (!v.is_empty()).then(|| usize::from(i) % v.len())
}

fn flat(s: &Segs) -> Vec<u8> {
    s.concat()
}

fn same(found: Segments<'_>, wanted: &Segs) {
    assert!(found.map(<[u8]>::to_vec).eq(wanted.iter().cloned()));
}

/// The segments of a copy into a pool with this much room in each.
fn cut(bytes: &[u8], room: usize) -> Segs {
    if bytes.is_empty() { vec![vec![]] } else { bytes.chunks(room).map(<[u8]>::to_vec).collect() }
}

impl World {
    fn new() -> World {
        let b = |name: &str| Mempool::builder(name, 24);
        let outside = linerate_mem::PageRequest::new(24 * 128).allocate().unwrap();
        let pools = vec![
            b("ring").cache(4).headroom(16).data_room(48).build().unwrap(),
            b("stack").cache(0).headroom(0).data_room(9).backend(BackendKind::Stack).build().unwrap(),
            b("user").cache(7).headroom(40).data_room(80).user_area(33).build().unwrap(),
            b("pinned").cache(2).headroom(8).data_room(100).pinned_external(outside).build().unwrap(),
        ];
        World { pools, unique: vec![], shared: vec![], stamp: 0 }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Vec<u8> {
        self.stamp = self.stamp.wrapping_add(1);
        bytes.fill(self.stamp);
        bytes.to_vec()
    }

    fn step(&mut self, op: Op) -> Option<()> {
        match op {
            Op::Alloc(p) => {
                let p = at(&self.pools, p)?;
                let m = self.pools[p].alloc()?;
                assert_eq!(
                    (m.headroom(), m.tailroom()),
                    (self.pools[p].headroom(), self.pools[p].data_room())
                );
                self.unique.push((m, vec![vec![]]));
            }
            Op::Append(i, n) => {
                let i = at(&self.unique, i)?;
                let (mut m, mut s) = self.unique.swap_remove(i);
                let room = m.tailroom();
                let new = m.append(n.into());
                assert_eq!(new.is_some(), n <= room);
                if let Some(new) = new {
                    let new = self.fill(new);
                    s.last_mut().unwrap().extend(new);
                }
                self.unique.push((m, s));
            }
            Op::Prepend(i, n) => {
                let i = at(&self.unique, i)?;
                let (mut m, mut s) = self.unique.swap_remove(i);
                let room = m.headroom();
                let new = m.prepend(n.into());
                assert_eq!(new.is_some(), n <= room);
                if let Some(new) = new {
                    let new = self.fill(new);
                    s[0].splice(0..0, new);
                }
                self.unique.push((m, s));
            }
            Op::Adj(i, n) => {
                let i = at(&self.unique, i)?;
                let (m, s) = &mut self.unique[i];
                let ok = usize::from(n) <= s[0].len();
                assert_eq!(m.adj(n.into()), ok);
                if ok {
                    s[0].drain(..usize::from(n));
                }
            }
            Op::Trim(i, n) => {
                let i = at(&self.unique, i)?;
                let (m, s) = &mut self.unique[i];
                let last = s.last_mut().unwrap();
                let rest = last.len().checked_sub(n.into());
                assert_eq!(m.trim(n.into()), rest.is_some());
                last.truncate(rest?);
            }
            Op::Chain(i, j) => {
                let i = at(&self.unique, i)?;
                let (tail, t) = self.unique.swap_remove(i);
                let Some(j) = at(&self.unique, j) else {
                    self.unique.push((tail, t));
                    return None;
                };
                let (m, s) = &mut self.unique[j];
                m.chain(tail).unwrap();
                s.extend(t);
            }
            Op::SplitOff(i, k) => {
                let i = at(&self.unique, i)?;
                let (m, s) = &mut self.unique[i];
                let k = usize::from(k) % (s.len() + 2);
                let tail = m.split_off(k as u16);
                assert_eq!(tail.is_ok(), k > 0 && k < s.len());
                let tail = (tail.ok()?, s.split_off(k));
                self.unique.push(tail);
            }
            Op::Linearize(i) => {
                let i = at(&self.unique, i)?;
                let (m, s) = &mut self.unique[i];
                if m.linearize().is_ok() {
                    *s = vec![flat(s)];
                }
            }
            Op::Reset(i) => {
                let i = at(&self.unique, i)?;
                let (m, s) = &mut self.unique[i];
                m.reset();
                *s = vec![vec![]];
            }
            Op::Copy(i, p, off, len) => {
                let i = at(&self.unique, i)?;
                let p = at(&self.pools, p)?;
                let (m, s) = &self.unique[i];
                let copy = m.copy(&self.pools[p], off.into(), len.into());
                let copied = self.copied(p, copy, flat(s), off, len)?;
                self.unique.push(copied);
            }
            Op::External(i, n) => {
                let i = at(&self.unique, i)?;
                let (m, s) = &mut self.unique[i];
                let bytes: Vec<u8> = (0..n.max(1)).map(|b| b as u8).collect();
                let mut ext = ExtBuf::from_vec(bytes.clone());
                m.attach_external(ext.take(bytes.len())?);
                let show = bytes.len() / 2;
                assert_eq!(m.append(show).map(|b| b.to_vec()), Some(bytes[..show].to_vec()));
                *s = vec![bytes[..show].to_vec()];
            }
            Op::DetachExternal(i) => {
                let i = at(&self.unique, i)?;
                let (m, s) = &mut self.unique[i];
                if m.has_external() {
                    *s = vec![vec![]];
                }
                m.detach_external();
            }
            Op::Read(i, off, len) => {
                let (m, s) = &self.unique[at(&self.unique, i)?];
                let mut bounce = vec![0; len.into()];
                check_read(m.read(off.into(), len.into(), &mut bounce), &flat(s), off, len);
            }
            Op::Write(i, v) => {
                let i = at(&self.unique, i)?;
                let (m, s) = &mut self.unique[i];
                m.for_each_segment_mut(|seg| seg.fill(v));
                s.iter_mut().for_each(|seg| seg.fill(v));
            }
            Op::Drop(i) => drop(self.unique.swap_remove(at(&self.unique, i)?)),
            Op::Share(i) => {
                let (m, s) = self.unique.swap_remove(at(&self.unique, i)?);
                self.shared.push((m.share(), s));
            }
            Op::Clone(i) => {
                let (m, s) = &self.shared[at(&self.shared, i)?];
                let two = (m.clone(), s.clone());
                assert!(two.0.reference_count() >= 2);
                self.shared.push(two);
            }
            Op::Attach(i, p) => {
                let (m, s) = &self.shared[at(&self.shared, i)?];
                let pool = &self.pools[at(&self.pools, p)?];
                let free = pool.counts().free as usize;
                let a = m.attach(pool);
                assert_eq!(a.is_some(), s.len() <= free);
                let a = (a?, s.clone());
                self.shared.push(a);
            }
            Op::AttachTo(i, j) => {
                let (m, s) = &self.shared[at(&self.shared, i)?];
                let (to, _) = self.unique.swap_remove(at(&self.unique, j)?);
                let a = (m.attach_to(to), vec![s[0].clone()]);
                self.shared.push(a);
            }
            Op::Detach(i) => {
                let (m, s) = self.shared.swap_remove(at(&self.shared, i)?);
                match m.detach() {
                    Ok(m) => self.unique.push((m, vec![vec![]])),
                    Err(m) => self.shared.push((m, s)),
                }
            }
            Op::PrependPacket(i, j) => {
                let (i, j) = (at(&self.shared, i)?, at(&self.unique, j)?);
                let (m, s) = self.shared.swap_remove(i);
                let (head, mut h) = self.unique.swap_remove(j);
                match m.prepend_packet(head) {
                    Ok(m) => {
                        h.extend(s);
                        self.shared.push((m, h));
                    }
                    Err((m, head)) => {
                        assert!(m.reference_count() > 1);
                        self.shared.push((m, s));
                        self.unique.push((head, h));
                    }
                }
            }
            Op::TryUnique(i) => {
                let (m, s) = self.shared.swap_remove(at(&self.shared, i)?);
                match m.try_unique() {
                    Ok(m) => self.unique.push((m, s)),
                    Err(m) => self.shared.push((m, s)),
                }
            }
            Op::CopyShared(i, p, off, len) => {
                let i = at(&self.shared, i)?;
                let p = at(&self.pools, p)?;
                let (m, s) = &self.shared[i];
                let copy = m.copy(&self.pools[p], off.into(), len.into());
                let copied = self.copied(p, copy, flat(s), off, len)?;
                self.unique.push(copied);
            }
            Op::ReadShared(i, off, len) => {
                let (m, s) = &self.shared[at(&self.shared, i)?];
                let mut bounce = vec![0; len.into()];
                check_read(m.read(off.into(), len.into(), &mut bounce), &flat(s), off, len);
            }
            Op::DropShared(i) => drop(self.shared.swap_remove(at(&self.shared, i)?)),
        }
        Some(())
    }

    fn copied(&self, p: usize, copy: Option<Mbuf>, all: Vec<u8>, off: u16, len: u16) -> Option<(Mbuf, Segs)> {
        let pool = &self.pools[p];
        let Some(from) = all.get(usize::from(off)..) else {
            assert!(copy.is_none(), "a copy from beyond the end");
            return None;
        };
        let bytes = &from[..from.len().min(len.into())];
        let segs = cut(bytes, pool.data_room().into());
        if copy.is_none() {
            assert!(segs.len() > pool.counts().free as usize, "a copy refused with buffers free");
        }
        Some((copy?, segs))
    }

    fn check(&self) {
        for (m, s) in &self.unique {
            same(m.segments(), s);
            assert_eq!((m.len() as usize, m.segment_count() as usize), (flat(s).len(), s.len()));
            assert_eq!(m.sanity_check(), Ok(()));
            if s.len() == 1 && !m.has_external() {
                let p = self.pools.iter().find(|p| p.name() == m.pool_name()).unwrap();
                let sum = usize::from(m.headroom()) + s[0].len() + usize::from(m.tailroom());
                assert_eq!(sum, usize::from(p.headroom()) + usize::from(p.data_room()));
            }
        }
        for (m, s) in &self.shared {
            same(m.segments(), s);
            assert_eq!((m.len() as usize, m.segment_count() as usize), (flat(s).len(), s.len()));
            assert_eq!(m.sanity_check(), Ok(()));
        }
    }

    /// Everything freed: every pool whole, and allocating all of it gives blank buffers.
    fn end(self) {
        let World { pools, unique, shared, .. } = self;
        drop(unique);
        drop(shared);
        for p in pools {
            let a = p.audit().unwrap();
            assert_eq!((a.counts.free, a.counts.held, a.checked), (24, 0, 24), "{}", p.name());
            let all: Vec<_> = std::iter::from_fn(|| p.alloc()).collect();
            assert_eq!(all.len(), 24);
            for m in &all {
                assert_eq!((m.len(), m.segment_count(), m.sanity_check()), (0, 1, Ok(())));
                assert_eq!((m.headroom(), m.tailroom()), (p.headroom(), p.data_room()));
            }
        }
    }
}

fn check_read(found: Option<&[u8]>, all: &[u8], off: u16, len: u16) {
    let wanted = all.get(usize::from(off)..usize::from(off) + usize::from(len));
    assert_eq!(found, wanted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_what_a_vector_of_vectors_is(ops in prop::collection::vec(op(), 1..150)) {
        let mut w = World::new();
        for op in ops {
            let _ = w.step(op);
            w.check();
            for p in &w.pools {
                let c = p.counts();
                assert_eq!(c.free + c.held, 24);
                p.audit().unwrap();
            }
        }
        w.end();
    }
}
