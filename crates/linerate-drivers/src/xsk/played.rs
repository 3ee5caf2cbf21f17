//! Both data paths against a kernel that is played: the rings lie in memory files, and the test does at their other
//! ends what a kernel would do, or never should.

use super::{
    lane::Lane,
    mapped::{CONTINUED, Descriptor, Mapped},
    ring::{Consumer, Producer, RingMemory},
    rx::XskRx,
    socket::{Bound, RxSide, Socket, TxSide},
    tx::XskTx,
    umem::{Geometry, Umem},
};
use linerate_mbuf::{Burst, Mbuf, Mempool};
use linerate_mem::Clock;
use linerate_port::{
    Frame, PortConfig, PortId, QueueId, RxContext, RxDriver, RxOffloads, RxQueueConfig, TxContext, TxDriver,
    TxQueueConfig, Verdict,
};
use rustix::{fs::MemfdFlags, net::xdp::XdpRingOffset};
use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed, Release},
    },
};

/// Receive ring 8, fill ring 16, transmit and completion ring 8; 24 frames of 2048 bytes.
const RX: u32 = 8;
const FILL: u32 = 16;
const TX: u32 = 8;
const CHUNK: u64 = 2048;

const AT: XdpRingOffset = XdpRingOffset { producer: 0, consumer: 64, desc: 192, flags: Some(128) };

fn file() -> OwnedFd {
    let fd = rustix::fs::memfd_create("played", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, 4096).unwrap();
    fd
}

/// The kernel's ends.
struct Kernel {
    rx: Mapped<Descriptor>,
    fill: Mapped<u64>,
    tx: Mapped<Descriptor>,
    completion: Mapped<u64>,
    umem: Arc<Umem>,
}

impl Kernel {
    /// Puts descriptors into the receive ring, and shows them.
    fn deliver(&self, all: &[Descriptor]) {
        let p = self.rx.producer(Relaxed);
        for (i, d) in (p..).zip(all) {
            self.rx.write(i, *d);
        }
        self.rx.set_producer(p.wrapping_add(all.len() as u32), Release);
    }

    /// Takes a frame from the fill ring.
    fn frame(&self) -> u64 {
        let c = self.fill.consumer(Relaxed);
        assert_ne!(self.fill.producer(Acquire), c, "the fill ring is empty");
        self.fill.set_consumer(c.wrapping_add(1), Release);
        self.fill.read(c)
    }

    /// Frames in the fill ring.
    fn filled(&self) -> Vec<u64> {
        let (p, c) = (self.fill.producer(Acquire), self.fill.consumer(Relaxed));
        (0..p.wrapping_sub(c)).map(|i| self.fill.read(c.wrapping_add(i))).collect()
    }

    /// Writes a piece of a packet into a frame, `offset` bytes from its base, and describes it.
    fn piece(&self, base: u64, offset: u32, bytes: &[u8], options: u32) -> Descriptor {
        let (frame, _) = self.umem.geometry().frame_of(base).unwrap();
        self.umem.write(frame, offset, bytes);
        Descriptor { address: base + u64::from(offset), len: bytes.len() as u32, options }
    }

    /// Takes what was sent.
    fn sent(&self) -> Vec<Descriptor> {
        let (p, c) = (self.tx.producer(Acquire), self.tx.consumer(Relaxed));
        let all = (0..p.wrapping_sub(c)).map(|i| self.tx.read(c.wrapping_add(i))).collect();
        self.tx.set_consumer(p, Release);
        all
    }

    fn complete(&self, addresses: &[u64]) {
        let p = self.completion.producer(Relaxed);
        for (i, a) in (p..).zip(addresses) {
            self.completion.write(i, *a);
        }
        self.completion.set_producer(p.wrapping_add(addresses.len() as u32), Release);
    }

    fn bytes(&self, d: &Descriptor) -> Vec<u8> {
        let mut out = vec![0; d.len as usize];
        self.umem.read(self.umem.geometry().locate(*d).unwrap(), &mut out);
        out
    }
}

struct Played {
    kernel: Kernel,
    lane: Arc<Lane>,
    rx: XskRx,
    tx: XskTx,
    pool: Mempool,
    rx_context: RxContext,
    tx_context: TxContext,
}

fn play(scatter: bool, buffers: u64) -> Played {
    let umem = Arc::new(Umem::new(Geometry { chunk: 2048, frames: FILL + TX, unaligned: false }).unwrap());
    let files: Vec<_> = (0..4).map(|_| file()).collect();
    let map64 = |i: usize, n| Mapped::<u64>::new(files[i].as_fd(), 0, &AT, n).unwrap();
    let map = |i: usize, n| Mapped::<Descriptor>::new(files[i].as_fd(), 0, &AT, n).unwrap();
    let kernel = Kernel {
        rx: map(0, RX),
        fill: map64(1, FILL),
        tx: map(2, TX),
        completion: map64(3, TX),
        umem: umem.clone(),
    };
    let socket = Arc::new(Socket::played(file()));
    let mut fill = Producer::new(map64(1, FILL));
    for n in 0..FILL {
        fill.push(umem.geometry().frame(n).base());
    }
    fill.publish();
    let rx = RxSide {
        rx: Consumer::new(map(0, RX)),
        fill,
        umem: umem.clone(),
        socket: socket.clone(),
        missed_seen: 0,
    };
    let tx =
        TxSide::new(Producer::new(map(2, TX)), Consumer::new(map64(3, TX)), umem, socket.clone(), FILL, TX);
    let lane = Arc::new(Lane::default());
    lane.longest.store(9000, Relaxed);
    lane.install(Bound { socket, rx: Some(rx), tx: Some(tx) });
    let pool = Mempool::builder("played", buffers).cache(0).data_room(2048).build().unwrap();
    let mut config = PortConfig::default();
    config.rx_offloads.set(RxOffloads::SCATTER, scatter);
    let rx_context = RxContext {
        port: PortId(3),
        queue: QueueId(0),
        config: config.clone(),
        rx: RxQueueConfig::new(&pool),
        counters: Default::default(),
        program: Default::default(),
        clock: Clock::real(),
    };
    let tx_context = TxContext {
        port: PortId(3),
        queue: QueueId(0),
        config,
        tx: TxQueueConfig::default(),
        counters: Default::default(),
        clock: Clock::real(),
    };
    let mut rx = XskRx::new(rx_context.clone(), lane.clone());
    let mut tx = XskTx::new(tx_context.clone(), lane.clone());
    rx.start().unwrap();
    tx.start().unwrap();
    Played { kernel, lane, rx, tx, pool, rx_context, tx_context }
}

fn bytes(m: &Mbuf) -> Vec<u8> {
    m.segments().flatten().copied().collect()
}

impl Played {
    fn receive(&mut self, max: usize) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        let n = self.rx.rx_burst(&mut burst, max);
        assert_eq!(n, burst.len());
        assert!(burst.as_slice().iter().all(|m| m.port() == 3 && m.sanity_check().is_ok()));
        burst.as_slice().iter().map(bytes).collect()
    }

    /// Every frame that is to be received into is in the fill ring, once.
    fn all_filled(&self) {
        let mut all = self.kernel.filled();
        all.sort();
        assert_eq!(all, (0..u64::from(FILL)).map(|n| n * CHUNK).collect::<Vec<_>>());
        assert_eq!(self.pool.counts().held, 0);
    }
}

const NONE: Vec<Vec<u8>> = Vec::new();

// Bug case 25: frames given back by a shifted address crept, until they overlapped.
#[test]
fn a_moved_start_is_given_back_by_its_base() {
    let mut p = play(false, 64);
    for i in 0..1000u32 {
        let data = vec![i as u8; 60 + i as usize % 100];
        let d = p.kernel.piece(p.kernel.frame(), [256, 280, 252, 0][i as usize % 4], &data, 0);
        p.kernel.deliver(&[d]);
        assert_eq!(p.receive(32), [data]);
    }
    p.all_filled();
}

#[test]
fn a_chain_whose_end_has_not_come_waits_whole() {
    let mut p = play(true, 64);
    let parts: Vec<Vec<u8>> =
        [1700, 1792, 300].iter().enumerate().map(|(i, n)| vec![i as u8 + 1; *n]).collect();
    let d: Vec<_> = (0..3)
        .map(|i| {
            let options = if i < 2 { CONTINUED } else { 0 };
            p.kernel.piece(p.kernel.frame(), 256, &parts[i], options)
        })
        .collect();
    let short = p.kernel.piece(p.kernel.frame(), 256, &[9; 60], 0);
    p.kernel.deliver(&[short, d[0], d[1]]);
    assert_eq!(p.receive(32), [vec![9; 60]]);
    assert_eq!(p.receive(32), NONE);
    p.kernel.deliver(&[d[2]]);
    assert_eq!(p.receive(1), [parts.concat()]);
    assert_eq!(p.lane.rx_counts.chains.get(), 1);
    assert_eq!(p.rx_context.counters.bytes.get(), 60 + 3792);
    p.all_filled();
}

#[test]
fn a_chain_that_finds_too_few_buffers_waits_whole() {
    // Three buffers of 2048 for 5376 bytes: all of the pool.
    let mut p = play(true, 3);
    let chain = |p: &Played, pieces: u32| -> Vec<_> {
        let options = |i| if i + 1 < pieces { CONTINUED } else { 0 };
        (0..pieces).map(|i| p.kernel.piece(p.kernel.frame(), 256, &[7; 1792], options(i))).collect()
    };
    let d = chain(&p, 3);
    p.kernel.deliver(&d);
    let held = p.pool.alloc().unwrap();
    for _ in 0..3 {
        assert_eq!(p.receive(32), NONE);
        assert_eq!(p.pool.counts().held, 1, "what was taken for it went back");
    }
    assert!(p.rx_context.counters.nombuf.get() >= 3);
    drop(held);
    assert_eq!(p.receive(32), [vec![7; 5376]]);
    // One that the pool can never hold is dropped, and what is behind it comes.
    let mut d = chain(&p, 4);
    d.push(p.kernel.piece(p.kernel.frame(), 256, &[1; 60], 0));
    p.kernel.deliver(&d);
    assert_eq!(p.receive(32), [vec![1; 60]]);
    assert_eq!(p.rx_context.counters.errors.get(), 1);
    p.all_filled();
    // Stopped while one waits: its frames are whole again.
    let d = chain(&p, 2);
    p.kernel.deliver(&d[..1]);
    assert_eq!(p.receive(32), NONE);
    p.rx.stop();
    p.rx.start().unwrap();
    assert_eq!(p.kernel.filled().len(), FILL as usize - 1);
}

#[test]
fn without_scatter_what_is_longer_than_a_buffer_is_dropped_and_counted() {
    let mut p = play(false, 64);
    let mut all = Vec::new();
    for options in [CONTINUED, 0, 0] {
        all.push(p.kernel.piece(p.kernel.frame(), 256, &[5; 1500], options));
    }
    p.kernel.deliver(&all);
    assert_eq!(p.receive(32), [vec![5; 1500]]);
    assert_eq!(p.rx_context.counters.errors.get(), 1);
    p.all_filled();
}

#[test]
fn descriptors_that_lie_touch_nothing() {
    let mut p = play(true, 64);
    let total = CHUNK * u64::from(FILL + TX);
    let mut frames = 0;
    for (address, len) in
        [(total, 60), (u64::MAX, 1), (total - 10, 60), (0, u32::MAX), (CHUNK - 4, 60), (1 << 48, 60)]
    {
        let good = p.kernel.piece(p.kernel.frame(), 256, &[3; 61], 0);
        frames += 1;
        p.kernel.deliver(&[Descriptor { address, len, options: 0 }, good]);
        assert_eq!(p.receive(32), [vec![3; 61]], "beside {address:#x}, {len}");
        // The same as the middle of a chain.
        let ends = [CONTINUED, 0].map(|o| p.kernel.piece(p.kernel.frame(), 256, &[4; 80], o));
        p.kernel.deliver(&[ends[0], Descriptor { address, len, options: CONTINUED }, ends[1]]);
        assert_eq!(p.receive(32), NONE);
        frames += 2;
        // What had a frame gave it back, and so did the good ones around it: the ring never runs dry of them.
        while p.kernel.filled().len() > 12 {
            p.kernel.frame();
        }
    }
    assert_eq!(frames, 18);
    assert_eq!(p.lane.rx_counts.bad.get(), 12);
    assert_eq!(p.rx_context.counters.errors.get(), 12);
    assert_eq!(p.pool.counts().held, 0);
}

#[test]
fn a_ring_full_of_pieces_without_an_end_is_passed_over() {
    let mut p = play(true, 64);
    let d: Vec<_> = (0..RX).map(|_| p.kernel.piece(p.kernel.frame(), 256, &[1; 100], CONTINUED)).collect();
    p.kernel.deliver(&d);
    assert_eq!(p.receive(32), NONE);
    p.all_filled();
    let d = p.kernel.piece(p.kernel.frame(), 256, &[2; 100], 0);
    p.kernel.deliver(&[d]);
    assert_eq!(p.receive(32), [vec![2; 100]]);
}

#[test]
fn a_program_sees_chains_as_one_frame() {
    let mut p = play(true, 64);
    let d = [(CONTINUED, 1792), (0, 208), (0, 60)]
        .map(|(o, n)| p.kernel.piece(p.kernel.frame(), 256, &vec![8; n], o));
    let program = |f: &mut Frame<'_>| match f.data().len() {
        2000 => Verdict::Pass,
        _ => Verdict::Drop,
    };
    assert!(p.rx.set_program(Some(Box::new(program))).is_ok());
    p.kernel.deliver(&d);
    assert_eq!(p.receive(32), [vec![8; 2000]]);
    assert_eq!((p.rx_context.program.pass.get(), p.rx_context.program.drop.get()), (1, 1));
    p.all_filled();
}

fn send(p: &mut Played, packets: &[Vec<u8>]) -> usize {
    let mut burst = Burst::new();
    for b in packets {
        burst.push(p.pool.alloc_filled(b).unwrap()).unwrap();
    }
    p.tx.tx_burst(&mut burst)
}

#[test]
fn long_packets_are_sent_as_chains() {
    let mut p = play(true, 64);
    let long: Vec<u8> = (0..5000u32).map(|i| (i * 7) as u8).collect();
    assert_eq!(send(&mut p, &[long.clone(), vec![1; 60]]), 2);
    let sent = p.kernel.sent();
    assert_eq!(
        sent.iter().map(|d| (d.len, d.options)).collect::<Vec<_>>(),
        [(2048, 1), (2048, 1), (904, 0), (60, 0)]
    );
    assert_eq!(sent[..3].iter().flat_map(|d| p.kernel.bytes(d)).collect::<Vec<_>>(), long);
    assert_eq!(p.tx.reclaim(), 4);
    p.kernel.complete(&sent.iter().map(|d| d.address).collect::<Vec<_>>());
    assert_eq!(p.tx.reclaim(), 0);
    // Longer than may be sent: taken, counted, not sent.
    p.lane.longest.store(1522, Relaxed);
    assert_eq!(send(&mut p, &[vec![2; 1523], vec![2; 1522], vec![2; 13]]), 3);
    assert_eq!(p.kernel.sent().len(), 1);
    assert_eq!((p.tx_context.counters.packets.get(), p.tx_context.counters.errors.get()), (3, 2));
    assert_eq!(p.pool.counts().held, 0);
}

#[test]
fn a_full_ring_takes_what_fits_and_completions_make_room() {
    let mut p = play(false, 64);
    let packets: Vec<_> = (0..10u8).map(|i| vec![i; 60]).collect();
    assert_eq!(send(&mut p, &packets), 8);
    assert_eq!(send(&mut p, &packets), 0);
    // Taken but not completed: the frames are still the kernel's.
    let sent = p.kernel.sent();
    assert_eq!(send(&mut p, &packets), 0);
    p.kernel.complete(&[sent[3].address]);
    assert_eq!(send(&mut p, &packets[..2]), 1);
    assert_eq!(p.tx.reclaim(), 8);
}

// Frames lost between transmit and completion ring, in one library; here a completion that is none is counted.
#[test]
fn completions_that_lie_free_nothing() {
    let mut p = play(false, 64);
    assert_eq!(send(&mut p, &[vec![1; 60], vec![2; 60]]), 2);
    let sent = p.kernel.sent();
    let (a, b) = (sent[0].address, sent[1].address);
    // A frame to receive into, one that is not out, beyond the memory, and one twice.
    p.kernel.complete(&[0, CHUNK * u64::from(FILL + TX - 1), u64::MAX, a, a]);
    assert_eq!(p.tx.reclaim(), 1);
    assert_eq!(p.lane.tx_counts.bad.get(), 4);
    p.kernel.complete(&[b + 100]);
    assert_eq!(p.tx.reclaim(), 0, "an address within the frame is that frame's");
}

#[test]
fn the_kernel_is_called_when_it_asks_and_only_then() {
    let mut p = play(false, 64);
    send(&mut p, &[vec![1; 60]]);
    p.tx.end_of_poll();
    assert_eq!(p.lane.tx_counts.kicks.get(), 0);
    p.kernel.tx.raise_flags(1);
    p.tx.end_of_poll();
    // A file is no socket: the call fails, and that is counted.
    assert_eq!((p.lane.tx_counts.kicks.get(), p.lane.tx_counts.down.get()), (1, 1));
    p.kernel.sent();
    p.tx.end_of_poll();
    assert_eq!(p.lane.tx_counts.kicks.get(), 1, "nothing waits");
    assert_eq!(p.receive(1), NONE);
    assert_eq!(p.lane.rx_counts.wakeups.get(), 0);
    p.kernel.fill.raise_flags(1);
    assert_eq!(p.receive(1), NONE);
    assert_eq!(p.lane.rx_counts.wakeups.get(), 1);
}
