//! A queue of the port: its socket's two halves while nobody has them, and what it counts.

use super::socket::{Bound, RxSide, Socket, TxSide};
use linerate_port::{Xstat, stats::Counter};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

/// What the receiver counts, besides what every port does. One writer.
#[derive(Debug, Default)]
pub(super) struct RxCounts {
    /// Calls because the fill ring wanted one.
    pub(super) wakeups: Counter,
    /// Calls that poll the driver.
    pub(super) busy_polls: Counter,
    /// Descriptors that left the packet memory, or chains without an end.
    pub(super) bad: Counter,
    /// Packets in several pieces.
    pub(super) chains: Counter,
    /// When the last packet came, in nanoseconds of the port's clock.
    pub(super) progress_ns: Counter,
}

/// What the transmitter counts, besides what every port does. One writer.
#[derive(Debug, Default)]
pub(super) struct TxCounts {
    /// Calls to have frames sent.
    pub(super) kicks: Counter,
    /// Of these: the kernel's buffers were full, or there was more to send than one call does.
    pub(super) again: Counter,
    /// Of these: the device took a frame and dropped it (copy mode), or was busy.
    pub(super) busy: Counter,
    /// Of these: the kernel was out of memory.
    pub(super) no_memory: Counter,
    /// Of these: the interface was down or gone.
    pub(super) down: Counter,
    /// Completions that name no frame of ours.
    pub(super) bad: Counter,
    /// Packets in several pieces.
    pub(super) chains: Counter,
    /// Times that nothing was completed for long.
    pub(super) stalls: Counter,
    /// When the last frame was completed, in nanoseconds of the port's clock.
    pub(super) progress_ns: Counter,
}

/// What the kernel counts of a socket, summed over the queue's sockets.
const KERNEL: [&str; 6] = [
    "rx_{}_xsk_dropped",
    "rx_{}_xsk_invalid_descs",
    "tx_{}_xsk_invalid_descs",
    "rx_{}_xsk_ring_full",
    "rx_{}_xsk_fill_ring_empty_descs",
    "tx_{}_xsk_ring_empty_descs",
];

fn kernel_counts(socket: &Socket) -> Option<[u64; 6]> {
    let s = socket.statistics()?;
    Some([
        s.rx_dropped,
        s.rx_invalid_descs,
        s.tx_invalid_descs,
        s.rx_ring_full.unwrap_or(0),
        s.rx_fill_ring_empty_descs.unwrap_or(0),
        s.tx_ring_empty_descs.unwrap_or(0),
    ])
}

/// A queue.
#[derive(Debug, Default)]
pub(super) struct Lane {
    rx: Mutex<Option<RxSide>>,
    tx: Mutex<Option<TxSide>>,
    socket: Mutex<Weak<Socket>>,
    /// What sockets that are gone had counted, and the last reading of the one that is there.
    kernel: Mutex<([u64; 6], [u64; 6])>,
    /// Longest frame to be sent.
    pub(super) longest: AtomicU32,
    /// Frames that could not be sent are still in the ring: a new start is to have a new socket.
    pub(super) stale: AtomicBool,
    closed: AtomicBool,
    /// What its packet memory is made of, for people.
    memory: Mutex<String>,
    pub(super) rx_counts: RxCounts,
    pub(super) tx_counts: TxCounts,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    /// Whether it has a socket that may be used.
    pub(super) fn is_ready(&self) -> bool {
        !self.stale.load(Relaxed) && lock(&self.socket).strong_count() > 0
    }

    /// Its socket, if there is one.
    pub(super) fn socket(&self) -> Option<Arc<Socket>> {
        lock(&self.socket).upgrade()
    }

    /// Puts a bound socket in.
    pub(super) fn install(&self, bound: Bound) {
        *lock(&self.socket) = Arc::downgrade(&bound.socket);
        let umem = bound.rx.as_ref().map(|s| &s.umem).or(bound.tx.as_ref().map(|s| &s.umem));
        *lock(&self.memory) = umem.map_or_else(String::new, |u| u.describe());
        *lock(&self.rx) = bound.rx;
        *lock(&self.tx) = bound.tx;
        self.stale.store(false, Relaxed);
    }

    /// What its packet memory is made of, for people.
    pub(super) fn memory(&self) -> String {
        lock(&self.memory).clone()
    }

    /// Takes the socket out and closes it.
    pub(super) fn retire(&self) {
        self.read_kernel();
        {
            let mut kernel = lock(&self.kernel);
            let last = std::mem::take(&mut kernel.1);
            for (sum, n) in kernel.0.iter_mut().zip(last) {
                *sum += n;
            }
        }
        *lock(&self.socket) = Weak::new();
        let (rx, tx) = (lock(&self.rx).take(), lock(&self.tx).take());
        drop((rx, tx));
    }

    /// The same, for good: what is brought back later is closed too.
    pub(super) fn close(&self) {
        self.closed.store(true, Relaxed);
        self.retire();
    }

    /// Takes the receiver's half.
    pub(super) fn take_rx(&self) -> Option<RxSide> {
        lock(&self.rx).take()
    }

    /// Brings it back.
    pub(super) fn put_rx(&self, side: RxSide) {
        if !self.closed.load(Relaxed) {
            *lock(&self.rx) = Some(side);
        }
    }

    /// Drops what waits to be received, if nobody has the receiver's half.
    pub(super) fn drain(&self) {
        if let Some(side) = &mut *lock(&self.rx) {
            side.drain();
        }
    }

    /// Takes the transmitter's half.
    pub(super) fn take_tx(&self) -> Option<TxSide> {
        lock(&self.tx).take()
    }

    /// Brings it back.
    pub(super) fn put_tx(&self, side: TxSide) {
        if !self.closed.load(Relaxed) {
            *lock(&self.tx) = Some(side);
        }
    }

    /// Reads the kernel's counters; a reading that fails repeats the last one.
    fn read_kernel(&self) -> [u64; 6] {
        let now = self.socket().and_then(|s| kernel_counts(&s));
        let mut kernel = lock(&self.kernel);
        if let Some(now) = now {
            kernel.1 = now;
        }
        std::array::from_fn(|i| kernel.0[i] + kernel.1[i])
    }

    /// Frames that reached the socket, taken or dropped, as far as the kernel tells.
    pub(super) fn dropped_by_kernel(&self) -> u64 {
        let k = self.read_kernel();
        k[0] + k[3]
    }

    /// All counters by name, in a fixed order.
    pub(super) fn xstats(&self, queue: usize) -> Vec<Xstat> {
        let q = format!("q{queue}");
        let kernel = KERNEL.iter().zip(self.read_kernel()).map(|(n, v)| (n.replace("{}", &q), v));
        let (r, t) = (&self.rx_counts, &self.tx_counts);
        let own = [
            ("rx_{}_wakeups", &r.wakeups),
            ("rx_{}_busy_polls", &r.busy_polls),
            ("rx_{}_bad_descs", &r.bad),
            ("rx_{}_chains", &r.chains),
            ("rx_{}_last_progress_ns", &r.progress_ns),
            ("tx_{}_kicks", &t.kicks),
            ("tx_{}_kicks_eagain", &t.again),
            ("tx_{}_kicks_ebusy", &t.busy),
            ("tx_{}_kicks_enobufs", &t.no_memory),
            ("tx_{}_kicks_down", &t.down),
            ("tx_{}_bad_completions", &t.bad),
            ("tx_{}_chains", &t.chains),
            ("tx_{}_stalls", &t.stalls),
            ("tx_{}_last_progress_ns", &t.progress_ns),
        ];
        let own = own.into_iter().map(|(n, c)| (n.replace("{}", &q), c.get()));
        kernel.chain(own).map(|(name, value)| Xstat { name, value }).collect()
    }
}
