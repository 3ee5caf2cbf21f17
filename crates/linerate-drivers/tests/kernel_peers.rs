//! The kernel's own stack as the peer: pings, UDP and TCP transfers from one namespace to another through a
//! forwarder that is made of two ports.

mod kernel;

use kernel::*;
use linerate_drivers::netif::{NetIf, veth};
use linerate_port::Port;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream, UdpSocket},
    time::Duration,
};

/// Bytes of a TCP transfer each way.
const BYTES: usize = 8 << 20;

/// Two hosts, 10.7.0.1 and 10.7.0.2, each with one interface, and the middle, in which the forwarder stands.
struct Hosts {
    left: Namespace,
    right: Namespace,
}

/// What the middle has towards a host.
#[derive(Clone, Copy, PartialEq)]
enum Towards {
    /// The other end of its interface.
    Packet,
    /// Its interface itself, made by the port and moved there.
    Tap { vnet: bool },
}

fn hosts(test: &str) -> Option<Hosts> {
    Some(Hosts { left: Namespace::new(test)?, right: Namespace::new(test)? })
}

/// Makes the middle's port towards a host, and the host's interface with its address.
fn port_to(
    host: &Namespace,
    side: &str,
    towards: Towards,
    address: [u8; 4],
    pool: &linerate_mbuf::Mempool,
) -> Port {
    let (near, far) = (format!("m{side}"), format!("h{side}"));
    let port = match towards {
        Towards::Packet => {
            let (near_if, far_if) = veth::create(&near, &far).expect("veth");
            far_if.move_to(host.fd()).expect("moved");
            near_if.set_up(true).expect("up");
            started(&format!("packet:{near}"), pool, 1)
        }
        Towards::Tap { vnet } => {
            let port = started(&format!("tap:{far},vnet_hdr={}", u8::from(vnet)), pool, 1);
            NetIf::by_name(&far).expect("made").move_to(host.fd()).expect("moved");
            port
        }
    };
    host.run(move || {
        NetIf::by_name(&far).expect("moved here").set_up(true).expect("up");
        set_address(&far, address);
    });
    port.unwrap_or_else(|e| panic!("{e} ({})", e.hint()))
}

fn exchange(test: &'static str, left: Towards, right: Towards) {
    let taps = [left, right].iter().any(|t| matches!(t, Towards::Tap { .. }));
    if taps && !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED {test}: there is no /dev/net/tun (modprobe tun)");
        return;
    }
    in_namespace(test, move |_| {
        let Some(hosts) = hosts(test) else { return };
        let pool = pool(8192);
        let a = port_to(&hosts.left, "l", left, [10, 7, 0, 1], &pool);
        let b = port_to(&hosts.right, "r", right, [10, 7, 0, 2], &pool);
        let forwarder = Forwarder::start([a, b]);
        assert_eq!(hosts.left.run(|| ping("10.7.0.2", 40)), Some(true), "every ping is answered");
        udp(&hosts);
        tcp(&hosts);
        let [mut a, mut b] = forwarder.stop();
        for (port, towards) in [(&mut a, left), (&mut b, right)] {
            let cut = xstat(port, "rx_q0_long_frames_cut");
            match towards {
                Towards::Tap { vnet: false } => assert_eq!(cut, 0),
                _ => assert!(cut > 0, "the kernel's long frames were cut"),
            }
            assert_eq!(xstat(port, "rx_q0_unfit"), 0);
            port.stop().unwrap();
        }
        assert_eq!(pool.counts().held, 0);
        pool.audit().unwrap();
    });
}

/// Datagrams of many lengths, each answered with the same.
fn udp(hosts: &Hosts) {
    let right = hosts.right.clone();
    let (ready, go) = std::sync::mpsc::channel();
    let echo = right.spawn(move || {
        let s = UdpSocket::bind("10.7.0.2:7000").expect("bound");
        s.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
        ready.send(()).expect("they wait");
        let mut b = vec![0; 65536];
        for _ in 0..200 {
            let (n, from) = s.recv_from(&mut b).expect("a datagram");
            s.send_to(&b[..n], from).expect("sent");
        }
    });
    go.recv().expect("bound");
    hosts.left.run(|| {
        let s = UdpSocket::bind("10.7.0.1:0").expect("bound");
        s.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
        for i in 0..200usize {
            // Up to several fragments.
            let data: Vec<u8> = (0..(i * 37) % 4000).map(|b| (b * i) as u8).collect();
            s.send_to(&data, "10.7.0.2:7000").expect("sent");
            let mut b = vec![0; 65536];
            let n = s.recv(&mut b).expect("an answer");
            assert_eq!(b[..n], data);
        }
    });
    echo.join().expect("no panic");
}

/// A stream each way at once.
fn tcp(hosts: &Hosts) {
    let byte = |i: usize| (i ^ (i >> 8) ^ (i >> 16)) as u8;
    let (ready, go) = std::sync::mpsc::channel();
    let talk = move |mut s: TcpStream| {
        s.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        let mut out = s.try_clone().expect("cloned");
        let writer = std::thread::spawn(move || {
            let data: Vec<u8> = (0..BYTES).map(byte).collect();
            out.write_all(&data).expect("written");
            out.shutdown(Shutdown::Write).expect("shut");
        });
        let mut got = Vec::with_capacity(BYTES);
        s.read_to_end(&mut got).expect("read");
        writer.join().expect("no panic");
        assert_eq!(got.len(), BYTES);
        assert!(got.iter().enumerate().all(|(i, b)| *b == byte(i)), "the bytes are those that were sent");
    };
    let server = hosts.right.spawn(move || {
        let l = TcpListener::bind("10.7.0.2:7001").expect("bound");
        ready.send(()).expect("they wait");
        talk(l.accept().expect("a client").0);
    });
    go.recv().expect("bound");
    hosts.left.run(move || talk(TcpStream::connect("10.7.0.2:7001").expect("connected")));
    server.join().expect("no panic");
}

#[test]
fn through_two_packet_ports() {
    exchange("packet_packet", Towards::Packet, Towards::Packet);
}

#[test]
fn through_a_tap_and_a_packet_port() {
    exchange("tap_packet", Towards::Tap { vnet: false }, Towards::Packet);
}

#[test]
fn through_two_taps_with_offload_header() {
    exchange("tap_tap", Towards::Tap { vnet: true }, Towards::Tap { vnet: true });
}
