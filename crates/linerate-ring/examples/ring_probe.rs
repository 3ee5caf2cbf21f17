//! What our rings cost beside the queue crates, in one run.
//!
//! ```text
//! cargo run --release -p linerate-ring --example ring_probe [-- ring1 empty ring2 ours peers 16B n=8 q=spsc runs=3 …]
//! ```
//! One line a measurement: `group what param unit min median max`, in TSC cycles an element (a call for
//! `empty`). One core: put n, take n, n a run-time value, ring of 4096. Two cores: one puts, the other takes;
//! each repeat is kept under the state that the pair was in, by a ping-pong of a cache line before and after:
//! near below 400 cycles for the round trip, far above, dropped when it changed.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use crossbeam_queue::ArrayQueue;
use linerate_ring::{Consumer, Producer, RingSize, Side, SlotRing};

const RUNS: usize = 11;
const CAP: usize = 4096;
const MAX: usize = 256;
const BULKS: [usize; 4] = [1, 8, 32, 128];

#[cfg(target_arch = "x86_64")]
fn now() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: both are part of the baseline of x86-64.
    unsafe {
        _mm_lfence();
        let t = _rdtsc();
        _mm_lfence();
        t
    }
}
#[cfg(not(target_arch = "x86_64"))]
fn now() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

/// What is behind the pointer may have been read and written: `black_box` without its detour over the stack.
#[inline(always)]
fn keep<T>(p: *const T) {
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", in(reg) p, options(nostack, preserves_flags)) };
}

fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(e) = rustix::thread::sched_setaffinity(None, &set) {
        eprintln!("core {core} not to be had ({e}): the figures are of unpinned threads");
    }
}

/// The end that takes elements in.
trait Tx<T>: Send {
    fn put(&mut self, v: &[T]) -> usize;
}
/// The end that gives them out.
trait Rx<T>: Send {
    fn take(&mut self, v: &mut [T]) -> usize;
}

macro_rules! ends {
    ($tx:ty, $rx:ty, $t:ty, |$p:ident, $v:ident| $put:expr, |$c:ident, $o:ident| $take:expr) => {
        impl Tx<$t> for $tx {
            #[inline(always)]
            fn put(&mut self, $v: &[$t]) -> usize {
                let $p = self;
                $put
            }
        }
        impl Rx<$t> for $rx {
            #[inline(always)]
            fn take(&mut self, $o: &mut [$t]) -> usize {
                let $c = self;
                $take
            }
        }
    };
}

struct One<Q>(Q);

fn one_by_one_in<T: Copy>(v: &[T], mut push: impl FnMut(T) -> bool) -> usize {
    let mut k = 0;
    for &x in v {
        if !push(x) {
            break;
        }
        k += 1;
    }
    k
}
fn one_by_one_out<T>(v: &mut [T], mut pop: impl FnMut() -> Option<T>) -> usize {
    let mut k = 0;
    while k < v.len() {
        match pop() {
            Some(x) => v[k] = x,
            None => break,
        }
        k += 1;
    }
    k
}

macro_rules! for_element {
    ($t:ty) => {
        ends!(Producer<$t>, Consumer<$t>, $t, |p, v| p.enqueue_bulk(v), |c, o| c.dequeue_bulk(o));
        ends!(
            Producer<$t, linerate_ring::Multi>, Consumer<$t, linerate_ring::Multi>, $t,
            |p, v| p.enqueue_bulk(v), |c, o| c.dequeue_bulk(o)
        );
        ends!(
            Producer<$t, linerate_ring::Rts>, Consumer<$t, linerate_ring::Rts>, $t,
            |p, v| p.enqueue_bulk(v), |c, o| c.dequeue_bulk(o)
        );
        ends!(
            Producer<$t, linerate_ring::Hts>, Consumer<$t, linerate_ring::Hts>, $t,
            |p, v| p.enqueue_bulk(v), |c, o| c.dequeue_bulk(o)
        );
        ends!(
            Slot<Arc<SlotRing<$t>>, 0>, Slot<Arc<SlotRing<$t>>, 1>, $t,
            |p, v| p.0.enqueue_bulk(v), |c, o| c.0.dequeue_bulk(o)
        );
        ends!(
            One<Producer<$t>>, One<Consumer<$t>>, $t,
            |p, v| one_by_one_in(v, |x| p.0.enqueue(x).is_ok()), |c, o| one_by_one_out(o, || c.0.dequeue())
        );
        ends!(
            One<rtrb::Producer<$t>>, One<rtrb::Consumer<$t>>, $t,
            |p, v| one_by_one_in(v, |x| p.0.push(x).is_ok()), |c, o| one_by_one_out(o, || c.0.pop().ok())
        );
        ends!(
            Slot<Arc<ArrayQueue<$t>>, 0>, Slot<Arc<ArrayQueue<$t>>, 1>, $t,
            |p, v| one_by_one_in(v, |x| p.0.push(x).is_ok()), |c, o| one_by_one_out(o, || c.0.pop())
        );
        ends!(
            rtrb::Producer<$t>, rtrb::Consumer<$t>, $t,
            |p, v| match p.write_chunk_uninit(v.len()) {
                Ok(c) => c.fill_from_iter(v.iter().copied()),
                Err(_) => 0,
            },
            |c, o| match c.read_chunk(o.len()) {
                Ok(c) => {
                    let (x, y) = c.as_slices();
                    o[..x.len()].copy_from_slice(x);
                    o[x.len()..].copy_from_slice(y);
                    let n = x.len() + y.len();
                    c.commit_all();
                    n
                }
                Err(_) => 0,
            }
        );
    };
}
/// A queue used through shared references, as one of its two ends.
struct Slot<Q, const END: usize>(Q);
for_element!(u64);
for_element!([u64; 2]);

#[inline(never)]
fn one_core<T: Copy>(tx: &mut impl Tx<T>, rx: &mut impl Rx<T>, zero: T, n: usize, rounds: usize) -> u64 {
    let b = [zero; MAX];
    let mut d = [zero; MAX];
    let t = now();
    for _ in 0..rounds {
        keep(&raw const b);
        tx.put(&b[..n]);
        rx.take(&mut d[..n]);
        keep(&raw mut d);
    }
    now() - t
}
#[inline(never)]
fn produce<T: Copy>(tx: &mut impl Tx<T>, zero: T, n: usize, rounds: usize) -> u64 {
    let b = [zero; MAX];
    let t = now();
    for _ in 0..rounds {
        let mut k = 0;
        while k < n {
            keep(&raw const b);
            let d = tx.put(&b[k..n]);
            if d == 0 {
                spin_loop();
            }
            k += d;
        }
    }
    now() - t
}
#[inline(never)]
fn consume<T: Copy>(rx: &mut impl Rx<T>, zero: T, n: usize, rounds: usize) -> u64 {
    let mut b = [zero; MAX];
    let t = now();
    for _ in 0..rounds {
        let mut k = 0;
        while k < n {
            let d = rx.take(&mut b[k..n]);
            if d == 0 {
                spin_loop();
            }
            k += d;
        }
        keep(&raw mut b);
    }
    now() - t
}
#[inline(never)]
fn empty<T: Copy>(rx: &mut impl Rx<T>, zero: T, n: usize, rounds: usize) -> u64 {
    let mut b = [zero; MAX];
    let t = now();
    for _ in 0..rounds {
        black_box(rx.take(&mut b[..n]));
        keep(&raw mut b);
    }
    now() - t
}

fn out(group: &str, what: &str, param: &str, unit: &str, mut v: Vec<f64>) {
    if v.is_empty() {
        return;
    }
    v.sort_by(f64::total_cmp);
    println!(
        "{group:<6} {what:<22} {param:<18} {unit:<22} {:8.2} {:8.2} {:8.2}",
        v[0],
        v[v.len() / 2],
        v[v.len() - 1]
    );
}

#[repr(align(128))]
struct Line(AtomicU32);
static BALL: Line = Line(AtomicU32::new(0));
static GATE: Line = Line(AtomicU32::new(0));

/// Median round trip of a cache line between this core and core 0, in cycles.
fn ping_pong() -> f64 {
    const ROUNDS: u32 = 2001;
    BALL.0.store(0, SeqCst);
    let other = std::thread::spawn(|| {
        pin(0);
        for i in 0..ROUNDS {
            while BALL.0.load(Acquire) != 2 * i + 1 {}
            BALL.0.store(2 * i + 2, Release);
        }
    });
    let mut d: Vec<f64> = (0..ROUNDS)
        .map(|i| {
            let t = now();
            BALL.0.store(2 * i + 1, Release);
            while BALL.0.load(Acquire) != 2 * i + 2 {}
            (now() - t) as f64
        })
        .collect();
    other.join().expect("the other core");
    d.sort_by(f64::total_cmp);
    d[d.len() / 2]
}

fn both() {
    GATE.0.fetch_add(1, SeqCst);
    while GATE.0.load(SeqCst) != 2 {
        spin_loop();
    }
}

fn run<T, P, C>(args: &[String], what: &str, zero: T, make: impl Fn() -> (P, C))
where
    T: Copy + Send + 'static,
    P: Tx<T>,
    C: Rx<T> + 'static,
{
    if args.iter().any(|a| a.starts_with("q=")) && !args.iter().any(|a| a.strip_prefix("q=") == Some(what)) {
        return;
    }
    let groups = ["ring1", "empty", "ring2"];
    let wants = |g: &str| !args.iter().any(|a| groups.contains(&a.as_str())) || args.iter().any(|a| a == g);
    let runs = args.iter().find_map(|a| a.strip_prefix("runs=")?.parse().ok()).unwrap_or(RUNS);
    let what = &if size_of::<T>() == 16 { format!("{what} 16B") } else { what.to_string() };
    let bulks = BULKS
        .into_iter()
        .filter(|n| !args.iter().any(|a| a.starts_with("n=")) || args.iter().any(|a| a == &format!("n={n}")));
    let bulks: Vec<usize> = bulks.collect();
    if wants("ring1") {
        for &n in &bulks {
            let rounds = 4_000_000 / (n + 3);
            let (mut tx, mut rx) = make();
            one_core(&mut tx, &mut rx, zero, n, rounds / 8);
            let v = (0..runs)
                .map(|_| one_core(&mut tx, &mut rx, zero, n, rounds) as f64 / rounds as f64 / n as f64)
                .collect();
            out("ring1", what, &format!("bulk={n}"), "cyc/elem(enq+deq)", v);
        }
    }
    if wants("empty") {
        let (_tx, mut rx) = make();
        let v = (0..RUNS).map(|_| empty(&mut rx, zero, 8, 2_000_000) as f64 / 2e6).collect();
        out("empty", what, "bulk=8", "cyc/call", v);
    }
    if wants("ring2") {
        for &n in &bulks {
            let rounds = 1_500_000 / (n + 8);
            let mut states = [(vec![], vec![]), (vec![], vec![])];
            for _ in 0..runs {
                let before = ping_pong();
                let (mut tx, mut rx) = make();
                GATE.0.store(0, SeqCst);
                let other = std::thread::spawn(move || {
                    pin(0);
                    both();
                    consume(&mut rx, zero, n, rounds)
                });
                both();
                let p = produce(&mut tx, zero, n, rounds);
                let c = other.join().expect("the consumer");
                let after = ping_pong();
                if (before < 400.) == (after < 400.) {
                    let s = &mut states[usize::from(before >= 400.)];
                    s.0.push(p as f64 / rounds as f64 / n as f64);
                    s.1.push(c as f64 / rounds as f64 / n as f64);
                }
            }
            for (state, (p, c)) in ["near", "far"].into_iter().zip(states) {
                out("ring2", what, &format!("bulk={n} {state}"), "prod cyc/elem", p);
                out("ring2", what, &format!("bulk={n} {state}"), "cons cyc/elem", c);
            }
        }
    }
}

fn ours<T, S: Side>(args: &[String], what: &str, zero: T)
where
    T: Copy + Send + 'static,
    Producer<T, S>: Tx<T>,
    Consumer<T, S>: Rx<T>,
{
    let size = RingSize::power_of_two(CAP).expect("a power of two");
    run(args, what, zero, || linerate_ring::Ring::<T, S, S>::new(size).expect("memory").split());
}

macro_rules! all_of {
    ($args:expr, $zero:expr) => {{
        let (args, zero) = ($args, $zero);
        let size = RingSize::power_of_two(CAP).expect("a power of two");
        let named = ["ours", "peers"];
        let wants =
            |g: &str| !args.iter().any(|a| named.contains(&a.as_str())) || args.iter().any(|a| a == g);
        if wants("ours") {
            ours::<_, linerate_ring::Single>(args, "spsc", zero);
            ours::<_, linerate_ring::Multi>(args, "mpmc", zero);
            ours::<_, linerate_ring::Rts>(args, "rts", zero);
            ours::<_, linerate_ring::Hts>(args, "hts", zero);
            run(args, "slots", zero, || {
                let q = Arc::new(SlotRing::new(size).expect("memory"));
                (Slot::<_, 0>(q.clone()), Slot::<_, 1>(q))
            });
            run(args, "spsc linger=4", zero, || {
                let (mut p, mut c) = linerate_ring::spsc(size).expect("memory");
                p.set_linger(4);
                c.set_linger(4);
                (p, c)
            });
            run(args, "spsc (one by one)", zero, || {
                let (p, c) = linerate_ring::spsc(size).expect("memory");
                (One(p), One(c))
            });
        }
        if wants("peers") {
            run(args, "rtrb (chunk)", zero, || rtrb::RingBuffer::new(CAP));
            run(args, "rtrb (one by one)", zero, || {
                let (p, c) = rtrb::RingBuffer::new(CAP);
                (One(p), One(c))
            });
            run(args, "ArrayQueue", zero, || {
                let q = Arc::new(ArrayQueue::new(CAP));
                (Slot::<_, 0>(q.clone()), Slot::<_, 1>(q))
            });
        }
    }};
}

fn main() {
    pin(1);
    let args: Vec<String> = std::env::args().skip(1).collect();
    println!("c2c    round-trip {:.0} TSC cycles", ping_pong());
    all_of!(&args, 0u64);
    if args.iter().any(|a| a == "16B") {
        all_of!(&args, [0u64; 2]);
    }
}
