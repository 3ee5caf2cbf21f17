//! The conformance suite over AF_XDP ports, each on one end of a pair of virtual interfaces; what is at the other end
//! is an AF_XDP port as well, or the kernel's own stack.

mod kernel;

use kernel::*;
use linerate_drivers::netif::{NetIf, veth};
use linerate_mbuf::{Burst, Mempool};
use linerate_mem::Clock;
use linerate_port::{
    Port, PortConfig, PortError, PortId, QueueId, RxQueueConfig, TxQueueConfig,
    conformance::{Harness, Input, Output, Rig, run_some},
};
use std::{
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::Duration,
};

/// A pair of interfaces with names of their own, up, with so many queues.
fn pair(queues: u16) -> (String, String, NetIf) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Relaxed);
    let (a, b) = (format!("a{n}"), format!("b{n}"));
    if queues > 1 {
        let n = queues.to_string();
        let end =
            |name: &str| ["name", name, "numtxqueues", &n, "numrxqueues", &n].map(String::from).to_vec();
        let mut c = Command::new("ip");
        c.args(["link", "add"]).args(end(&a)).args(["type", "veth", "peer"]).args(end(&b));
        assert!(c.status().expect("iproute2").success());
    } else {
        veth::create(&a, &b).expect("veth");
    }
    let mut ends = [&a, &b].map(|name| {
        let i = NetIf::by_name(name).expect("just made");
        i.set_up(true).expect("up");
        Some(i)
    });
    (a, b, ends[0].take().expect("two"))
}

fn port(spec: &str, clock: Clock) -> Result<Port, PortError> {
    linerate_drivers::open(&spec.parse().map_err(PortError::Spec)?, PortId(7), clock)
}

/// An AF_XDP port at the other end too.
struct Xsk {
    keys: &'static str,
}

struct XskRig {
    port: Option<Port>,
    peer: Port,
    pool: Mempool,
    interface: NetIf,
}

impl Harness for Xsk {
    fn name(&self) -> String {
        format!("xsk:VETH{} beside another", self.keys)
    }

    fn open(&self, clock: Clock, queues: u16) -> Result<Box<dyn Rig>, PortError> {
        let (a, b, interface) = pair(queues);
        let under_test = port(&format!("xsk:{a}{}", self.keys), clock.clone())?;
        let mut peer = port(&format!("xsk:{b}"), clock)?;
        let pool = Mempool::builder(format!("peer-{b}"), 2048).cache(0).build().expect("memory");
        let queues = queues.min(peer.info().limits.max_rx_queues);
        peer.configure(PortConfig { rx_queues: queues, tx_queues: queues, ..Default::default() })?;
        for q in (0..queues).map(QueueId) {
            peer.rx_queue_setup(q, RxQueueConfig { descriptors: 4096, ..RxQueueConfig::new(&pool) })?;
            peer.tx_queue_setup(q, TxQueueConfig::default())?;
        }
        peer.start()?;
        Ok(Box::new(XskRig { port: Some(under_test), peer, pool, interface }))
    }
}

impl Rig for XskRig {
    fn port(&mut self) -> &mut Port {
        self.port.as_mut().expect("there until drop")
    }
    fn input(&self) -> Input {
        Input::Injected
    }
    fn output(&self) -> Output {
        Output::Collected
    }
    fn inject(&mut self, queue: QueueId, frames: &[Vec<u8>]) -> usize {
        let mut tx = self.peer.take_tx(queue).expect("configured");
        let mut sent = 0;
        for some in frames.chunks(256) {
            let mut burst = Burst::new();
            for f in some {
                let m = self.pool.alloc_filled(f).expect("the peer's pool is large enough");
                burst.push(m).expect("at most 256");
            }
            sent += tx.tx_burst(&mut burst);
            tx.end_of_poll();
        }
        sent
    }
    fn collect(&mut self, queue: QueueId) -> Vec<Vec<u8>> {
        let mut rx = self.peer.take_rx(queue).expect("configured");
        let mut burst = Burst::new();
        let mut got = Vec::new();
        while rx.rx_burst(&mut burst, 512) > 0 {
            got.extend(burst.as_slice().iter().map(|m| m.segments().flatten().copied().collect()));
            burst.free_all();
        }
        got
    }
    fn settle(&mut self) {
        thread::sleep(Duration::from_micros(20));
    }
    fn pools(&self) -> Vec<Mempool> {
        vec![self.pool.clone()]
    }
}

impl Drop for XskRig {
    fn drop(&mut self) {
        self.port = None;
        // Many interfaces make everything slow.
        let _ = self.interface.delete();
    }
}

/// The kernel's stack at the other end, heard and spoken to by a packet socket.
struct Stack {
    keys: &'static str,
}

struct StackRig {
    port: Option<Port>,
    socket: OwnedFd,
    interface: NetIf,
}

/// A packet socket on an interface that hears what comes in and nothing that goes out.
fn packet_socket(of: &NetIf) -> OwnedFd {
    // SAFETY: a new descriptor, owned from here on.
    let fd = unsafe {
        let n = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0);
        assert!(n >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(n)
    };
    let set = |level, name, value: i32| {
        let at = (&raw const value).cast();
        // SAFETY: an int of ours.
        let n = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, at, 4) };
        assert_eq!(n, 0, "{}", std::io::Error::last_os_error());
    };
    set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20);
    set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
    set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1);
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: of.index() as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: a whole sockaddr_ll.
    let n = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    assert_eq!(n, 0, "{}", std::io::Error::last_os_error());
    fd
}

impl Harness for Stack {
    fn name(&self) -> String {
        format!("xsk:VETH{} beside the kernel's stack", self.keys)
    }

    fn open(&self, clock: Clock, _queues: u16) -> Result<Box<dyn Rig>, PortError> {
        let (a, b, interface) = pair(1);
        let socket = packet_socket(&NetIf::by_name(&b).expect("just made"));
        let port = Some(port(&format!("xsk:{a}{}", self.keys), clock)?);
        Ok(Box::new(StackRig { port, socket, interface }))
    }
}

impl Rig for StackRig {
    fn port(&mut self) -> &mut Port {
        self.port.as_mut().expect("there until drop")
    }
    fn input(&self) -> Input {
        Input::Injected
    }
    fn output(&self) -> Output {
        Output::Collected
    }
    fn inject(&mut self, _queue: QueueId, frames: &[Vec<u8>]) -> usize {
        let fd = self.socket.as_fd().as_raw_fd();
        let send = |f: &&Vec<u8>| {
            // SAFETY: reads the bytes of a slice of ours.
            unsafe { libc::send(fd, f.as_ptr().cast(), f.len(), 0) == f.len() as isize }
        };
        frames.iter().take_while(send).count()
    }
    fn collect(&mut self, _queue: QueueId) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        let mut buffer = vec![0u8; 65536];
        loop {
            let fd = self.socket.as_raw_fd();
            // SAFETY: writes at most the buffer's length into it.
            let n = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            if n < 0 {
                return got;
            }
            got.push(buffer[..n as usize].to_vec());
        }
    }
    fn settle(&mut self) {
        thread::sleep(Duration::from_micros(20));
    }
}

impl Drop for StackRig {
    fn drop(&mut self) {
        self.port = None;
        let _ = self.interface.delete();
    }
}

fn run(test: &'static str, harness: impl Harness + Send + 'static) {
    in_namespace(test, move |_| {
        // With an empty pool frames wait in the ring, whole and in order, and come when there are buffers again; the
        // suite takes them for lost. `xsk.rs` tests that.
        let report = run_some(&harness, |case| case != "a pool runs empty and is refilled");
        println!("{report}");
        report.assert_passed();
    });
}

#[test]
fn beside_another_port() {
    run("beside_another_port", Xsk { keys: "" });
}

#[test]
fn beside_another_port_with_one_packet_memory_for_all_queues() {
    run("shared packet memory", Xsk { keys: ",shared_umem=1,busy_budget=0" });
}

#[test]
fn beside_the_kernels_stack() {
    run("beside_the_kernels_stack", Stack { keys: "" });
}

#[test]
fn beside_the_kernels_stack_in_generic_mode() {
    run("generic mode", Stack { keys: ",mode=generic" });
}
