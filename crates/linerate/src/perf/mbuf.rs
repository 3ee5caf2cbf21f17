//! `linerate perf mbuf`.

use super::{
    Bench,
    output::Report,
    sample::{clobber, cycles_per_unit},
};
use anyhow::{Context, anyhow, ensure};
use linerate::mbuf::{Burst, Mbuf, Mempool, SharedMbuf};
use serde_json::json;
use std::hint::black_box;

const BUFFERS: u64 = 8191;

/// A packet of `len` bytes.
fn packet(pool: &Mempool, len: usize) -> anyhow::Result<Mbuf> {
    let mut m = pool.alloc().context("the pool is empty")?;
    m.append(len).context("no room")?.fill(0x5a);
    Ok(m)
}

struct Ops<'a> {
    b: &'a Bench<'a>,
    out: &'a mut Report,
    cache: u32,
}

impl Ops<'_> {
    /// Measures `body`, which handles `per` buffers a time.
    fn op(&mut self, op: &str, per: usize, mut body: impl FnMut()) -> anyhow::Result<()> {
        let rounds = (self.b.work(1_000_000 / per.div_ceil(16))).max(1);
        self.measure(op, || {
            for _ in 0..rounds {
                body();
            }
            rounds * per
        })
    }

    /// Measures `body`, which goes so many rounds by itself, and so can keep what it moves in registers.
    fn op_over(&mut self, op: &str, mut body: impl FnMut(usize) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let rounds = self.b.work(1_000_000).max(1);
        let mut failed = None;
        self.measure(op, || {
            failed = failed.take().or(body(rounds).err());
            rounds
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn measure(&mut self, op: &str, run: impl FnMut() -> usize) -> anyhow::Result<()> {
        let line = format!("mbuf {op} (cache {})", self.cache);
        if !self.out.wants(&line) {
            return Ok(());
        }
        let s = cycles_per_unit(self.b.options.repeats, run);
        let name = if self.cache == 0 { format!("{op}_nocache") } else { op.to_string() };
        self.out.row(&line, "cycles_per_mbuf", &s, json!({"bench": "mbuf", "op": name, "cache": self.cache}))
    }
}

pub fn run(b: &Bench<'_>, out: &mut Report) -> anyhow::Result<()> {
    for cache in [256, 0] {
        let pool = Mempool::builder("perf", BUFFERS).cache(cache).build()?;
        let mut ops = Ops { b, out, cache };
        allocation(&mut ops, &pool)?;
        if cache > 0 {
            sharing(&mut ops, &pool)?;
            bytes(&mut ops, &pool)?;
        }
        let c = pool.counts();
        ensure!(c.free == c.total, "{} of {} buffers came back", c.free, c.total);
    }
    Ok(())
}

fn allocation(ops: &mut Ops<'_>, pool: &Mempool) -> anyhow::Result<()> {
    ops.op("alloc_free", 1, || drop(black_box(pool.alloc())))?;
    let mut burst = Burst::new();
    for n in [8, 32] {
        ops.op(&format!("alloc_free_bulk{n}"), n, || {
            pool.alloc_bulk(&mut burst, black_box(n));
            black_box(&mut burst);
            burst.free_all();
        })?;
    }
    ops.op("alloc_bulk32_free_singly", 32, || {
        pool.alloc_bulk(&mut burst, 32);
        black_box(&mut burst);
        for m in burst.drain() {
            drop(m);
        }
    })?;
    ops.op("alloc_singly_free_bulk32", 32, || {
        for _ in 0..32 {
            if let Some(m) = pool.alloc() {
                let _ = burst.push(m);
            }
        }
        black_box(&mut burst);
        burst.free_all();
    })
}

fn sharing(ops: &mut Ops<'_>, pool: &Mempool) -> anyhow::Result<()> {
    let one = packet(pool, 64)?.share();
    ops.op("refcnt_from_1", 1, || drop(black_box(black_box(&one).clone())))?;
    let two = one.clone();
    ops.op("refcnt_from_2", 1, || drop(black_box(black_box(&two).clone())))?;
    drop(two);
    ops.op("clone_free", 1, || drop(black_box(black_box(&one).attach(pool))))?;
    // An existing header is attached to the packet and detached again.
    let mut header = packet(pool, 64)?;
    ops.op_over("attach_detach", |rounds| {
        let mut h = std::mem::replace(&mut header, packet(pool, 0)?);
        for _ in 0..rounds {
            let attached = one.attach_to(h);
            clobber();
            h = attached.detach().map_err(|_| anyhow!("an attached header has one holder"))?;
            clobber();
        }
        header = h;
        Ok(())
    })?;
    // What a driver asks before a buffer goes back: is this the last reference, and is it plain?
    let mut unshared = packet(pool, 64)?.share();
    ops.op_over("prefree", |rounds| {
        let mut m = std::mem::replace(&mut unshared, packet(pool, 0)?.share());
        for _ in 0..rounds {
            clobber();
            m = m.try_unique().map_err(|_| anyhow!("nobody else holds it"))?.share();
        }
        unshared = m;
        Ok(())
    })?;
    let shared = SharedMbuf::clone(&one);
    ops.op("copy64_free", 1, || drop(black_box(black_box(&shared).copy(pool, 0, 64))))?;
    Ok(())
}

fn bytes(ops: &mut Ops<'_>, pool: &Mempool) -> anyhow::Result<()> {
    let mut m = packet(pool, 64)?;
    ops.op("append_trim64", 1, || {
        black_box(black_box(&mut m).append(64).is_some());
        black_box(m.trim(64));
    })?;
    ops.op("prepend_adj14", 1, || {
        black_box(black_box(&mut m).prepend(14).is_some());
        black_box(m.adj(14));
    })?;
    ops.op("reset", 1, || black_box(&mut m).reset())?;
    let mut chain = packet(pool, 100)?;
    for _ in 0..3 {
        chain.chain(packet(pool, 100)?).map_err(|(e, _)| e)?;
    }
    let mut bounce = [0; 64];
    ops.op("read_across_segments64", 1, || {
        black_box(black_box(&chain).read(170, 64, &mut bounce).is_some());
    })?;
    ops.op("alloc_chain4_linearize_free", 4, || {
        if let Some(mut head) = pool.alloc() {
            head.append(64);
            for _ in 0..3 {
                if let Some(mut more) = pool.alloc() {
                    more.append(64);
                    let _ = head.chain(more);
                }
            }
            black_box(head.linearize().is_ok());
        }
    })?;
    Ok(())
}
