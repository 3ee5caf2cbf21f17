//! Worlds for the tests of ports that are made of the kernel's interfaces: network namespaces, addresses, peers.
//!
//! Everything is made by the tests themselves and goes with the last thread or interface in it.

#![allow(dead_code)] // each test binary uses its part

use linerate_drivers::netif::NetIf;
use linerate_drivers::open;
use linerate_mbuf::{Burst, Mempool};
use linerate_mem::Clock;
use linerate_port::{
    Port, PortConfig, PortError, PortId, QueueId, RxQueue, RxQueueConfig, TxQueue, TxQueueConfig,
};
use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

pub const Q0: QueueId = QueueId(0);

/// A network namespace of its own, kept by a descriptor.
#[derive(Clone)]
pub struct Namespace(Arc<File>);

impl Namespace {
    /// Makes one without touching that of the caller; `None`, said aloud, without the right to.
    pub fn new(test: &str) -> Option<Namespace> {
        let made = thread::spawn(|| {
            // SAFETY: changes only this thread's namespace.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // No router solicitations among the frames that tests count.
            let _ = std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
            let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            if let Ok(lo) = NetIf::by_name("lo") {
                let _ = lo.set_up(true);
            }
            File::open("/proc/thread-self/ns/net")
        });
        match made.join().expect("no panic") {
            Ok(file) => Some(Namespace(Arc::new(file))),
            Err(e) => {
                eprintln!("SKIPPED {test}: no network namespace: {e} (run as root)");
                None
            }
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Brings the calling thread into it.
    pub fn enter(&self) {
        // SAFETY: changes only this thread's namespace.
        let n = unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(n, 0, "{}", std::io::Error::last_os_error());
    }

    /// Runs something in it, on a thread of its own.
    pub fn spawn<R: Send + 'static>(&self, f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        let ns = self.clone();
        thread::spawn(move || {
            ns.enter();
            f()
        })
    }

    /// Runs something in it and waits.
    pub fn run<R: Send + 'static>(&self, f: impl FnOnce() -> R + Send + 'static) -> R {
        self.spawn(f).join().expect("no panic")
    }
}

/// Runs a test in a namespace of its own, or says that it is skipped.
pub fn in_namespace(test: &'static str, f: impl FnOnce(Namespace) + Send + 'static) {
    let Some(ns) = Namespace::new(test) else { return };
    let inner = ns.clone();
    if let Err(e) = ns.spawn(move || f(inner)).join() {
        std::panic::resume_unwind(e);
    }
}

/// Gives the interface of the calling thread's namespace an IPv4 address with 24 bits of network.
pub fn set_address(name: &str, address: [u8; 4]) {
    let set = |request: libc::c_ulong, value: [u8; 4]| {
        let mut r = [0u8; 40];
        r[..name.len()].copy_from_slice(name.as_bytes());
        r[16..18].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        r[20..24].copy_from_slice(&value);
        // SAFETY: a datagram socket, closed below; the request is a whole ifreq.
        let n = unsafe {
            let s = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
            let n = libc::ioctl(s, request as _, r.as_mut_ptr());
            libc::close(s);
            n
        };
        assert_eq!(n, 0, "{}", std::io::Error::last_os_error());
    };
    set(libc::SIOCSIFADDR, address);
    set(libc::SIOCSIFNETMASK, [255, 255, 255, 0]);
}

/// Says where a neighbour on an interface of the calling thread's namespace is to be found.
pub fn set_neighbour(name: &str, address: [u8; 4], mac: [u8; 6]) {
    // struct arpreq: protocol and hardware address as sockaddrs, flags, netmask, device.
    let mut r = [0u8; 68];
    r[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    r[4..8].copy_from_slice(&address);
    r[16..18].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
    r[18..24].copy_from_slice(&mac);
    const COMPLETE_PERMANENT: i32 = 2 | 4;
    r[32..36].copy_from_slice(&COMPLETE_PERMANENT.to_ne_bytes());
    r[52..52 + name.len()].copy_from_slice(name.as_bytes());
    const SIOCSARP: u64 = 0x8955;
    // SAFETY: a datagram socket, closed below; the request is a whole arpreq.
    let n = unsafe {
        let s = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let n = libc::ioctl(s, SIOCSARP as _, r.as_mut_ptr());
        libc::close(s);
        n
    };
    assert_eq!(n, 0, "{}", std::io::Error::last_os_error());
}

pub fn pool(buffers: u64) -> Mempool {
    Mempool::builder("kernel", buffers).cache(0).build().expect("memory")
}

/// A port of `queues` queue pairs, started.
pub fn started(spec: &str, pool: &Mempool, queues: u16) -> Result<Port, PortError> {
    started_with(spec, pool, PortConfig { rx_queues: queues, tx_queues: queues, ..Default::default() })
}

pub fn started_with(spec: &str, pool: &Mempool, config: PortConfig) -> Result<Port, PortError> {
    let mut port = opened(spec)?;
    let (rx, tx) = (config.rx_queues, config.tx_queues);
    port.configure(config)?;
    for q in (0..rx).map(QueueId) {
        port.rx_queue_setup(q, RxQueueConfig::new(pool))?;
    }
    for q in (0..tx).map(QueueId) {
        port.tx_queue_setup(q, TxQueueConfig::default())?;
    }
    port.start()?;
    Ok(port)
}

pub fn opened(spec: &str) -> Result<Port, PortError> {
    open(&spec.parse()?, PortId(1), Clock::real())
}

pub fn ends(port: &mut Port) -> (RxQueue, TxQueue) {
    (port.take_rx(Q0).expect("an rx queue"), port.take_tx(Q0).expect("a tx queue"))
}

/// A frame of an experimental type with a number in it.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    f.extend(number.to_be_bytes());
    f.extend((f.len()..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(number as u8)));
    f
}

/// Sends frames, with patience but not for ever; how many went.
pub fn send(tx: &mut TxQueue, pool: &Mempool, frames: &[Vec<u8>]) -> usize {
    let mut sent = 0;
    for some in frames.chunks(512) {
        let mut burst = Burst::new();
        for f in some {
            let m = pool.alloc_filled(f).expect("the pool is large enough");
            assert!(burst.push(m).is_ok());
        }
        let end = Instant::now() + Duration::from_secs(2);
        while !burst.is_empty() && Instant::now() < end {
            sent += tx.tx_burst(&mut burst);
        }
        if !burst.is_empty() {
            return sent;
        }
    }
    sent
}

/// Receives until `n` frames are there or nothing has come for a while.
pub fn receive(rx: &mut RxQueue, n: usize, burst_size: usize) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    let mut last = Instant::now();
    while got.len() < n && last.elapsed() < Duration::from_millis(500) {
        let mut burst = Burst::new();
        if rx.rx_burst(&mut burst, burst_size) > 0 {
            last = Instant::now();
            got.extend(burst.as_slice().iter().map(|m| m.segments().flatten().copied().collect::<Vec<u8>>()));
        } else {
            thread::sleep(Duration::from_micros(200));
        }
    }
    got
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < end, "not within five seconds: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

pub fn xstat(port: &Port, name: &str) -> u64 {
    port.xstats().into_iter().find(|x| x.name == name).unwrap_or_else(|| panic!("no xstat {name}")).value
}

/// Two ports that are forwarded into each other on a thread, as it is done by an application.
pub struct Forwarder {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<[Port; 2]>,
}

impl Forwarder {
    /// Takes the queues of two started ports.
    pub fn start(mut ports: [Port; 2]) -> Forwarder {
        let stop = Arc::new(AtomicBool::new(false));
        let end = stop.clone();
        let thread = thread::spawn(move || {
            let [a, b] = &mut ports;
            let ((mut rx_a, mut tx_a), (mut rx_b, mut tx_b)) = (ends(a), ends(b));
            while !end.load(Relaxed) {
                let moved = pass(&mut rx_a, &mut tx_b) + pass(&mut rx_b, &mut tx_a);
                if moved == 0 {
                    // The tests share their cores with the peers.
                    thread::yield_now();
                }
            }
            drop((rx_a, tx_a, rx_b, tx_b));
            ports
        });
        Forwarder { stop, thread }
    }

    /// Stops, and gives the ports back, their queues home.
    pub fn stop(self) -> [Port; 2] {
        self.stop.store(true, Relaxed);
        self.thread.join().expect("the forwarder does not panic")
    }
}

/// Moves a burst on; what is not accepted after some tries is dropped.
fn pass(rx: &mut RxQueue, tx: &mut TxQueue) -> usize {
    let mut burst = Burst::new();
    let n = rx.rx_burst(&mut burst, 32);
    for _ in 0..100 {
        if burst.is_empty() {
            break;
        }
        tx.tx_burst(&mut burst);
    }
    tx.end_of_poll();
    n
}

/// Pings an address from the calling thread's namespace: whether all of `count` requests were answered.
pub fn ping(address: &str, count: u16) -> Option<bool> {
    let address: std::net::Ipv4Addr = address.parse().expect("an address");
    Some(pings(address.octets(), count) == count)
}

/// Sends so many requests of growing length, each after the answer to the former; how many were answered.
fn pings(address: [u8; 4], count: u16) -> u16 {
    // SAFETY: a raw socket, closed with its file; addresses and buffers are passed with their lengths.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_ICMP);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        let s = File::from_raw_fd(fd);
        let wait = libc::timeval { tv_sec: 2, tv_usec: 0 };
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const wait).cast(), 16);
        let mut to: libc::sockaddr_in = std::mem::zeroed();
        to.sin_family = libc::AF_INET as u16;
        to.sin_addr.s_addr = u32::from_ne_bytes(address);
        let mut answered = 0;
        for seq in 0..count {
            let mut request = [8, 0, 0, 0, 0x4c, 0x52, (seq >> 8) as u8, seq as u8].to_vec();
            request.extend((0..usize::from(seq) * 70).map(|i| i as u8));
            let sum = linerate_net::checksum::checksum(&request).to_be_bytes();
            request[2..4].copy_from_slice(&sum);
            libc::sendto(fd, request.as_ptr().cast(), request.len(), 0, (&raw const to).cast(), 16);
            let mut b = [0u8; 4096];
            loop {
                let n = libc::recv(fd, b.as_mut_ptr().cast(), b.len(), 0);
                let Ok(n) = usize::try_from(n) else { break };
                // Behind an IPv4 header: an answer to this very request.
                if n == 20 + request.len() && b[20] == 0 && b[24..n] == request[4..] {
                    answered += 1;
                    break;
                }
            }
        }
        drop(s);
        answered
    }
}

/// Numbers of this process's descriptors, and of its mappings of sockets and TAP devices.
pub fn holdings() -> (usize, usize) {
    let fds = std::fs::read_dir("/proc/self/fd").expect("procfs").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    (fds, maps.lines().filter(|l| l.contains("socket:")).count())
}
