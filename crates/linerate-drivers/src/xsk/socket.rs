//! One AF_XDP socket: made, given its packet memory and rings, bound to a queue, and taken apart into what the
//! receiver and the transmitter need.
//!
//! A bind that fails leaves its packet memory busy for a while, so every attempt starts with a fresh socket. A queue
//! whose former socket was closed a moment ago is still busy too (the kernel tears it down later): such a bind is
//! repeated until a deadline.
//!
//! Follows `Documentation/networking/af_xdp.rst` and `net/xdp/xsk.c`.

use super::{
    XskError,
    mapped::{Descriptor, Mapped},
    napi::{self, Tuning},
    netdev::Netdev,
    ring::{Consumer, Producer},
    sys,
    umem::Umem,
};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType,
        sockopt::{
            self, set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
            set_xdp_umem_fill_ring_size, set_xdp_umem_reg,
        },
        xdp::{
            self, SocketAddrXdp, SocketAddrXdpFlags as Flags, SocketAddrXdpWithSharedUmem, XdpOptionsFlags,
            XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
        },
    },
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a queue may be busy with a socket that was closed already.
const BUSY_DEADLINE: Duration = Duration::from_secs(2);
/// Microseconds that a call may poll the driver.
const BUSY_POLL_US: u32 = 20;

/// Whether packets may be copied by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroCopy {
    /// They are.
    No,
    /// If they must.
    Try,
    /// They may not.
    Must,
}

/// What a socket is to be like.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    pub(super) index: u32,
    pub(super) queue: u32,
    /// Receive descriptors; a power of two.
    pub(super) rx: Option<u32>,
    /// Transmit descriptors; a power of two.
    pub(super) tx: Option<u32>,
    pub(super) zero_copy: ZeroCopy,
    /// The program takes frames in several pieces.
    pub(super) pieces: bool,
    pub(super) umem: &'a Arc<Umem>,
    /// Number of its first frame in the packet memory: those to receive come first, then those to send.
    pub(super) first_frame: u32,
    /// The socket that has registered the packet memory, if it is shared.
    pub(super) shared_with: Option<&'a Arc<Socket>>,
    /// Packets of a busy poll; 0 = none.
    pub(super) busy_budget: u32,
    /// Through whom, and for how many microseconds, interrupts are put off after a busy poll.
    pub(super) deferral: Option<(&'a Arc<Netdev>, u32)>,
}

/// Frames that a socket needs: the fill ring has twice the slots of the receive ring, so that it never runs dry while
/// the receive ring is full, and never has fewer slots than there are frames: giving one back cannot fail. Each
/// transmit descriptor has a frame of its own, so that the completion ring cannot overflow.
pub(super) fn frames_for(rx: Option<u32>, tx: Option<u32>) -> (u32, u32) {
    (rx.map_or(FILL_WITHOUT_RX, |n| 2 * n), tx.unwrap_or(0))
}

/// A socket that only sends has a filled fill ring too: some drivers leak buffers or stop without.
const FILL_WITHOUT_RX: u32 = 64;
/// The kernel wants a completion ring of every socket.
const COMPLETION_WITHOUT_TX: u32 = 2;

/// A bound socket.
#[derive(Debug)]
pub(super) struct Socket {
    /// Its interrupts' settings, which go back before the socket goes.
    pub(super) tuning: Option<Tuning>,
    fd: OwnedFd,
    /// The kernel does not copy.
    pub(super) zero_copy: bool,
    /// Packets may be chains of descriptors.
    pub(super) pieces: bool,
    /// The kernel says when it wants to be called.
    pub(super) wakeup: bool,
    /// Polling the driver was asked for, and the kernel allows it.
    may_poll: bool,
    /// The driver is polled from our calls.
    busy: AtomicBool,
}

impl Socket {
    /// One without a kernel behind it.
    #[cfg(test)]
    pub(super) fn played(fd: OwnedFd) -> Self {
        let busy = AtomicBool::new(false);
        Socket { tuning: None, fd, zero_copy: false, pieces: true, wakeup: true, may_poll: false, busy }
    }

    /// Whether the driver is polled from our calls.
    #[inline(always)]
    pub(super) fn is_busy_polled(&self) -> bool {
        self.busy.load(Relaxed)
    }

    /// Looks for the receive context; once known, the driver is polled from our calls, if that was asked for.
    pub(super) fn settle(&self) {
        if self.may_poll
            && let Some(context) = napi::context_of(&self.fd)
        {
            self.busy.store(true, Relaxed);
            if let Some(t) = &self.tuning {
                t.apply(context);
            }
        }
    }

    /// Interrupts as they were, until the next [`settle`](Self::settle).
    pub(super) fn restore(&self) {
        if let Some(t) = &self.tuning {
            t.restore();
        }
    }

    /// Lets the driver work by interrupts again.
    pub(super) fn leave_busy_poll(&self) {
        if self.busy.swap(false, Relaxed) {
            self.restore();
            // What cannot be set was not set before.
            let _ = sys::set_option(&self.fd, libc::SOL_SOCKET, sys::SO_PREFER_BUSY_POLL, &0u32);
            let _ = sys::set_option(&self.fd, libc::SOL_SOCKET, sys::SO_BUSY_POLL, &0u32);
        }
    }

    /// What the kernel has counted.
    pub(super) fn statistics(&self) -> Option<XdpStatistics> {
        sockopt::xdp_statistics(&self.fd).ok()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What the receiver of a queue has.
#[derive(Debug)]
pub(super) struct RxSide {
    // In the order in which they go: mappings, memory, socket.
    pub(super) rx: Consumer<Mapped<Descriptor>>,
    pub(super) fill: Producer<Mapped<u64>>,
    pub(super) umem: Arc<Umem>,
    pub(super) socket: Arc<Socket>,
    /// Packets that the kernel says it dropped, as far as they were counted.
    pub(super) missed_seen: u64,
}

/// What the transmitter of a queue has.
#[derive(Debug)]
pub(super) struct TxSide {
    pub(super) tx: Producer<Mapped<Descriptor>>,
    pub(super) completion: Consumer<Mapped<u64>>,
    /// Kept filled and never looked at again, on a queue that only sends.
    fill: Option<Producer<Mapped<u64>>>,
    pub(super) umem: Arc<Umem>,
    pub(super) socket: Arc<Socket>,
    /// Frames at hand, by number.
    pub(super) free: Vec<u32>,
    /// For each frame from the first on: whether the kernel has it.
    pub(super) sent: Vec<bool>,
    pub(super) first_frame: u32,
}

impl TxSide {
    /// With `frames` frames at hand, numbered from `first_frame` on.
    pub(super) fn new(
        tx: Producer<Mapped<Descriptor>>,
        completion: Consumer<Mapped<u64>>,
        umem: Arc<Umem>,
        socket: Arc<Socket>,
        first_frame: u32,
        frames: u32,
    ) -> Self {
        let free = (first_frame..first_frame + frames).rev().collect();
        TxSide {
            tx,
            completion,
            fill: None,
            umem,
            socket,
            free,
            sent: vec![false; frames as usize],
            first_frame,
        }
    }
}

/// Both ends of a bound socket.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) socket: Arc<Socket>,
    pub(super) rx: Option<RxSide>,
    pub(super) tx: Option<TxSide>,
}

/// How an attempt failed.
enum Failed {
    /// Another way of binding may work.
    Way(io::Error),
    /// No other way will.
    For(XskError),
}

/// Binds a socket in the best way there is.
///
/// # Errors
///
/// No way works, the queue stays busy, or memory may not be locked.
pub(super) fn bind(wish: &Wish<'_>, name: &dyn Fn() -> Names) -> Result<Bound, XskError> {
    let mut last = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    let zero_copies: &[bool] = match wish.zero_copy {
        ZeroCopy::No => &[false],
        ZeroCopy::Try => &[true, false],
        ZeroCopy::Must => &[true],
    };
    // Multi-buffer is of Linux 6.6, the wake-up flag of 5.4.
    for &zero_copy in zero_copies {
        for (pieces, wakeup) in [(true, true), (false, true), (false, false)] {
            if pieces && !wish.pieces {
                continue;
            }
            let mut flags = if zero_copy { Flags::XDP_ZEROCOPY } else { Flags::XDP_COPY };
            flags.set(Flags::XDP_USE_SG, pieces);
            flags.set(Flags::XDP_USE_NEED_WAKEUP, wakeup);
            match until_free(wish, flags, name) {
                Ok(bound) => return Ok(bound),
                Err(Failed::For(e)) => return Err(e),
                Err(Failed::Way(e)) => last = e,
            }
        }
    }
    let Names { name, driver, kernel } = name();
    Err(match wish.zero_copy {
        ZeroCopy::Must => XskError::NoZeroCopy { name, driver, kernel, source: last },
        _ => XskError::system(format!("binding a socket to queue {} of {name}", wish.queue))(last),
    })
}

/// How an interface is called in messages.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) name: String,
    pub(super) driver: String,
    pub(super) kernel: String,
}

fn until_free(wish: &Wish<'_>, flags: Flags, name: &dyn Fn() -> Names) -> Result<Bound, Failed> {
    let deadline = Instant::now() + BUSY_DEADLINE;
    let mut pause = Duration::from_millis(1);
    loop {
        match attempt(wish, flags, name) {
            Err(Failed::Way(e)) if e.raw_os_error() == Some(libc::EBUSY) => {
                if Instant::now() >= deadline {
                    let holder = super::holder::of_sockets();
                    let (name, queue) = (name().name, wish.queue);
                    return Err(Failed::For(XskError::QueueBusy { name, queue, holder }));
                }
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            other => return other,
        }
    }
}

fn attempt(wish: &Wish<'_>, flags: Flags, name: &dyn Fn() -> Names) -> Result<Bound, Failed> {
    let way = |e: Errno| Failed::Way(e.into());
    let cloexec = SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, cloexec, None).map_err(way)?;
    let (to_receive, to_send) = frames_for(wish.rx, wish.tx);
    if wish.shared_with.is_none() {
        register(&fd, wish.umem).map_err(Failed::For)?;
    }
    let completions = wish.tx.unwrap_or(COMPLETION_WITHOUT_TX);
    set_xdp_umem_fill_ring_size(&fd, to_receive).map_err(way)?;
    set_xdp_umem_completion_ring_size(&fd, completions).map_err(way)?;
    if let Some(n) = wish.rx {
        set_xdp_rx_ring_size(&fd, n).map_err(way)?;
    }
    if let Some(n) = wish.tx {
        set_xdp_tx_ring_size(&fd, n).map_err(way)?;
    }
    let at = sockopt::xdp_mmap_offsets(&fd).map_err(way)?;
    let map = |e: io::Error| Failed::For(XskError::system("mapping a socket's rings")(e));
    let fill = Mapped::new(fd.as_fd(), xdp::XDP_UMEM_PGOFF_FILL_RING, &at.fr, to_receive).map_err(map)?;
    let completion = Mapped::new(fd.as_fd(), xdp::XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, completions);
    let completion = completion.map_err(map)?;
    let rx = wish.rx.map(|n| Mapped::new(fd.as_fd(), xdp::XDP_PGOFF_RX_RING, &at.rx, n));
    let rx = rx.transpose().map_err(map)?;
    let tx = wish.tx.map(|n| Mapped::new(fd.as_fd(), xdp::XDP_PGOFF_TX_RING, &at.tx, n));
    let tx = tx.transpose().map_err(map)?;

    // Filled before it is bound: no packet finds it empty.
    let mut fill = Producer::new(fill);
    for n in 0..to_receive {
        fill.push(wish.umem.geometry().frame(wish.first_frame + n).base());
    }
    fill.publish();

    match wish.shared_with {
        None => rustix::net::bind(&fd, &SocketAddrXdp::new(flags, wish.index, wish.queue)),
        Some(first) => {
            // The flags are the first socket's.
            let addr = SocketAddrXdp::new(Flags::XDP_SHARED_UMEM, wish.index, wish.queue);
            rustix::net::bind(&fd, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first.as_fd() })
        }
    }
    .map_err(|e| match e {
        Errno::PERM | Errno::ACCESS => {
            let (name, what, source) = (name().name, "binding an AF_XDP socket to a queue", e.into());
            Failed::For(XskError::NoRights { name, what, source })
        }
        Errno::NODEV => Failed::For(XskError::system("binding a socket")(e.into())),
        e => Failed::Way(e.into()),
    })?;

    let may_poll = wish.busy_budget > 0 && busy_poll(&fd, wish.busy_budget).is_ok();
    if let Some(n) = wish.tx {
        make_room(&fd, n, wish.umem.geometry().chunk);
    }
    let of_first = |own: bool, first: fn(&Socket) -> bool| wish.shared_with.map_or(own, |s| first(s));
    let socket = Arc::new(Socket {
        tuning: wish.deferral.filter(|_| may_poll).map(|(netdev, us)| Tuning::new(netdev.clone(), us)),
        zero_copy: sockopt::xdp_options(&fd).is_ok_and(|o| o.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY)),
        pieces: of_first(flags.contains(Flags::XDP_USE_SG), |s| s.pieces),
        wakeup: of_first(flags.contains(Flags::XDP_USE_NEED_WAKEUP), |s| s.wakeup),
        may_poll,
        busy: AtomicBool::new(false),
        fd,
    });
    socket.settle();
    let (mut fill, umem) = (Some(fill), wish.umem);
    let rx = rx.and_then(|rx| {
        let (fill, rx) = (fill.take()?, Consumer::new(rx));
        Some(RxSide { rx, fill, umem: umem.clone(), socket: socket.clone(), missed_seen: 0 })
    });
    let first_frame = wish.first_frame + to_receive;
    let tx = tx.map(|tx| {
        let (tx, completion) = (Producer::new(tx), Consumer::new(completion));
        let mut side = TxSide::new(tx, completion, umem.clone(), socket.clone(), first_frame, to_send);
        side.fill = fill;
        side
    });
    Ok(Bound { socket, rx, tx })
}

/// Registers packet memory. If too much of it would be locked, raises the limit by what is needed and not by more.
fn register(fd: &OwnedFd, umem: &Umem) -> Result<(), XskError> {
    let g = umem.geometry();
    let mut flags = XdpUmemRegFlags::empty();
    flags.set(XdpUmemRegFlags::XDP_UMEM_UNALIGNED_CHUNK_FLAG, g.unaligned);
    let reg = || XdpUmemReg {
        addr: umem.address(),
        len: g.bytes(),
        chunk_size: g.chunk,
        headroom: 0,
        flags,
        tx_metadata_len: 0,
    };
    match set_xdp_umem_reg(fd, reg()) {
        Err(Errno::NOBUFS) => {
            raise_locked(g.bytes())?;
            set_xdp_umem_reg(fd, reg()).map_err(|_| locked(g.bytes()))
        }
        Err(Errno::INVAL) if g.unaligned => {
            let (why, mend) = ("the kernel refuses this memory".into(), "use a newer kernel".into());
            Err(XskError::Unaligned { why, mend })
        }
        other => other.map_err(|e| XskError::system("registering packet memory")(e.into())),
    }
}

fn locked(need: u64) -> XskError {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).maximum.unwrap_or(u64::MAX);
    XskError::LockedMemory { need, limit }
}

fn raise_locked(need: u64) -> Result<(), XskError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Memlock);
    let Some(soft) = now.current else { return Err(locked(need)) };
    let current = soft.saturating_add(need);
    let maximum = now.maximum.map(|m| m.max(current));
    setrlimit(Resource::Memlock, Rlimit { current: Some(current), maximum }).map_err(|_| locked(need))
}

fn busy_poll(fd: &OwnedFd, budget: u32) -> io::Result<()> {
    sys::set_option(fd, libc::SOL_SOCKET, sys::SO_PREFER_BUSY_POLL, &1u32)?;
    sys::set_option(fd, libc::SOL_SOCKET, sys::SO_BUSY_POLL, &BUSY_POLL_US)?;
    sys::set_option(fd, libc::SOL_SOCKET, sys::SO_BUSY_POLL_BUDGET, &budget)
}

/// Lets one call send a whole ring, where the kernel would stop after 32 frames or when its own buffers of these
/// frames reach the socket's limit. Where either is refused, more calls do the same.
fn make_room(fd: &OwnedFd, descriptors: u32, chunk: u32) {
    let _ = sys::set_option(fd, libc::SOL_XDP, sys::XDP_MAX_TX_SKB_BUDGET, &descriptors);
    let bytes = descriptors.saturating_mul(chunk + 1024).min(i32::MAX as u32 / 2);
    let _ = sys::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes);
}
