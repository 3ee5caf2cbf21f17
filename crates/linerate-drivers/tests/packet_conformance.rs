//! The conformance suite over packet and tap ports. At the other end is a plain packet socket, with nothing of
//! ours in it.

mod kernel;

use kernel::*;
use linerate_drivers::netif::{NetIf, veth};
use linerate_mem::Clock;
use linerate_port::{
    Port, PortError, PortId, QueueId,
    conformance::{Harness, Input, Output, Rig, run_some},
};
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::Duration,
};

fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// A packet socket without a ring on an interface.
struct Peer {
    socket: OwnedFd,
}

impl Peer {
    fn on(interface: &NetIf) -> Peer {
        // SAFETY: a new descriptor, then options and an address whose lengths are told.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(fd);
            let set = |level, option, value: i32| {
                let n = libc::setsockopt(fd, level, option, (&raw const value).cast(), 4);
                assert_eq!(n, 0, "{}", io::Error::last_os_error());
            };
            const PACKET_IGNORE_OUTGOING: i32 = 23;
            set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
            set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 256 << 20);
            set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 64 << 20);
            let mut a: libc::sockaddr_ll = std::mem::zeroed();
            a.sll_family = libc::AF_PACKET as u16;
            a.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            a.sll_ifindex = interface.index() as i32;
            let n = libc::bind(fd, (&raw const a).cast(), size_of_val(&a) as u32);
            assert_eq!(n, 0, "{}", io::Error::last_os_error());
            Peer { socket }
        }
    }

    /// How many of the frames went out.
    fn send(&self, frames: &[Vec<u8>]) -> usize {
        let one = |f: &Vec<u8>| {
            // SAFETY: the frame is borrowed for the call.
            unsafe { libc::send(self.socket.as_raw_fd(), f.as_ptr().cast(), f.len(), 0) == f.len() as isize }
        };
        // That the interface was down once is told by the first call afterwards.
        let one = |f: &Vec<u8>| {
            one(f) || (io::Error::last_os_error().raw_os_error() == Some(libc::ENETDOWN) && one(f))
        };
        frames.iter().take_while(|f| one(f)).count()
    }

    /// What has come, of the suite's kind.
    fn receive(&self) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        let mut b = vec![0u8; 70_000];
        loop {
            // SAFETY: at most the buffer's length is written.
            let n = unsafe {
                libc::recv(self.socket.as_raw_fd(), b.as_mut_ptr().cast(), b.len(), libc::MSG_DONTWAIT)
            };
            match usize::try_from(n) {
                Ok(n) if n >= 14 && b[12..14] == [0x88, 0xb5] => got.push(b[..n].to_vec()),
                Ok(_) => {}
                Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::ENETDOWN) => {}
                Err(_) => return got,
            }
        }
    }
}

struct KernelRig {
    // Dropped before its interfaces.
    port: Port,
    peer: Peer,
    pair: Option<NetIf>,
}

impl Rig for KernelRig {
    fn port(&mut self) -> &mut Port {
        &mut self.port
    }
    fn input(&self) -> Input {
        Input::Injected
    }
    fn output(&self) -> Output {
        Output::Collected
    }
    fn inject(&mut self, _: QueueId, frames: &[Vec<u8>]) -> usize {
        self.peer.send(frames)
    }
    fn collect(&mut self, _: QueueId) -> Vec<Vec<u8>> {
        self.peer.receive()
    }
    fn settle(&mut self) {
        thread::sleep(Duration::from_micros(20));
    }
}

impl Drop for KernelRig {
    fn drop(&mut self) {
        if let Some(pair) = &self.pair {
            pair.delete().expect("ours");
        }
    }
}

/// A packet port on one end of a pair, of one queue: over several the kernel spreads frames as it likes.
struct Packet {
    keys: &'static str,
}

impl Harness for Packet {
    fn name(&self) -> String {
        format!("packet:a{}", self.keys)
    }

    fn open(&self, clock: Clock, _queues: u16) -> Result<Box<dyn Rig>, PortError> {
        let n = unique();
        let (near, far) = veth::create(&format!("a{n}"), &format!("b{n}")).expect("veth");
        far.set_mtu(16384).expect("a larger MTU");
        near.set_up(true).expect("up");
        far.set_up(true).expect("up");
        let peer = Peer::on(&far);
        let spec = format!("packet:a{n},qpairs=1{}", self.keys);
        let port = linerate_drivers::open(&spec.parse()?, PortId(5), clock)?;
        Ok(Box::new(KernelRig { port, peer, pair: Some(near) }))
    }
}

struct Tap {
    keys: &'static str,
}

impl Harness for Tap {
    fn name(&self) -> String {
        format!("tap:t{}", self.keys)
    }

    fn open(&self, clock: Clock, _queues: u16) -> Result<Box<dyn Rig>, PortError> {
        let name = format!("t{}", unique());
        let port = linerate_drivers::open(&format!("tap:{name}{}", self.keys).parse()?, PortId(6), clock)?;
        let interface = NetIf::by_name(&name).expect("just made");
        set_queue_len(&name, 8192);
        Ok(Box::new(KernelRig { port, peer: Peer::on(&interface), pair: None }))
    }
}

/// Frames that the kernel keeps for a TAP device that is not read.
fn set_queue_len(name: &str, n: i32) {
    let mut r = [0u8; 40];
    r[..name.len()].copy_from_slice(name.as_bytes());
    r[16..20].copy_from_slice(&n.to_ne_bytes());
    const SIOCSIFTXQLEN: u64 = 0x8943;
    // SAFETY: a datagram socket, closed below; the request is a whole ifreq.
    let n = unsafe {
        let s = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let n = libc::ioctl(s, SIOCSIFTXQLEN as _, r.as_mut_ptr());
        libc::close(s);
        n
    };
    assert_eq!(n, 0, "{}", io::Error::last_os_error());
}

fn suite(test: &'static str, harness: impl Harness + Send + 'static) {
    if test.starts_with("tap") && !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED {test}: there is no /dev/net/tun (modprobe tun)");
        return;
    }
    in_namespace(test, move |_| {
        // Frames wait in memory of the kernel's while the pool is empty, and come afterwards; the suite takes them
        // for lost. What holds instead is in the tests of each port.
        let report = run_some(&harness, |case| case != "a pool runs empty and is refilled");
        println!("{report}");
        report.assert_passed();
    });
}

#[test]
fn packet_ports() {
    suite("packet", Packet { keys: "" });
}

#[test]
fn packet_ports_of_small_slots_past_the_queueing_discipline() {
    suite("packet, small slots", Packet { keys: ",framesz=512,blocksz=4096,qdisc_bypass=1" });
}

#[test]
fn tap_ports() {
    suite("tap", Tap { keys: "" });
}

#[test]
fn tap_ports_with_offload_header() {
    suite("tap, offload header", Tap { keys: ",vnet_hdr=1" });
}
