//! The tap port against the kernel, in namespaces that the tests make.

mod kernel;

use kernel::*;
use linerate_drivers::netif::{NetIf, veth};
use linerate_mbuf::Burst;
use linerate_port::{Frame, PortConfig, PortError, PortEvent, QueueId, RxOffloads, Verdict};
use std::{
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// A UDP datagram from a socket in this namespace to 10.9.0.2.
fn datagram(n: u8) -> Vec<u8> {
    vec![n; 100]
}

/// Gives the interface an address, and a neighbour 10.9.0.2 that need not be asked for.
fn addressed(name: &str) {
    set_address(name, [10, 9, 0, 1]);
    set_neighbour(name, [10, 9, 0, 2], [2, 0, 0, 0, 0, 2]);
}

fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 1), 0)).expect("an address")
}

/// Runs a test in a namespace of its own where there are TAP devices.
fn with_taps(test: &'static str, f: impl FnOnce(Namespace) + Send + 'static) {
    if !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED {test}: there is no /dev/net/tun (modprobe tun)");
        return;
    }
    in_namespace(test, f);
}

const FAR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 2), 9);

#[test]
fn datagrams_pass_between_a_socket_and_the_port() {
    for vnet in [0, 1] {
        with_taps("datagrams", move |_| {
            let pool = pool(1024);
            let mut port =
                started(&format!("tap:t,vnet_hdr={vnet},mac=02:00:00:00:00:01"), &pool, 1).unwrap();
            assert!(port.link().oper_up);
            let t = NetIf::by_name("t").unwrap();
            assert_eq!(port.info().mac, "02:00:00:00:00:01".parse().unwrap());
            assert_eq!(t.info().unwrap().mac, Some(port.info().mac));
            addressed("t");
            let (mut rx, mut tx) = ends(&mut port);
            let s = socket();
            // Bug case 31: any number, with no further event, in requests of any size.
            for (n, size) in [(1, 1), (33, 32), (100, 7), (200, 512)] {
                for i in 0..n {
                    s.send_to(&datagram(i as u8), FAR).unwrap();
                }
                let got = receive(&mut rx, n, size);
                assert_eq!(got.len(), n);
                for (i, f) in got.iter().enumerate() {
                    assert_eq!(f[42..], datagram(i as u8));
                    assert_eq!(linerate_net::checksum::checksum(&f[14..34]), 0);
                    let mut pseudo = f[26..34].to_vec();
                    pseudo.extend([0, 17, 0, 108]);
                    pseudo.extend_from_slice(&f[34..]);
                    assert_eq!(linerate_net::checksum::checksum(&pseudo), 0, "the UDP checksum is whole");
                }
                // Turned round, they reach the socket.
                let back: Vec<_> = got.into_iter().map(turned).collect();
                assert_eq!(send(&mut tx, &pool, &back), n);
                s.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                for i in 0..n {
                    let mut b = [0; 200];
                    let (len, from) = s.recv_from(&mut b).expect("it came back");
                    assert_eq!((&b[..len], from), (&datagram(i as u8)[..], FAR.into()));
                }
            }
            if vnet == 1 {
                assert!(xstat(&port, "rx_q0_checksums_completed") > 0);
            }
            assert!(xstat(&port, "rx_q0_empty_reads") > 0);
            drop((rx, tx));
            port.stop().unwrap();
            assert!(!t.info().unwrap().carrier, "nobody is at this end");
            assert_eq!(pool.counts().held, 0);
            // Nothing from while it was stopped.
            let _ = s.send_to(&datagram(1), FAR);
            port.start().unwrap();
            let mut rx = port.take_rx(Q0).unwrap();
            assert_eq!(rx.rx_burst(&mut Burst::new(), 32), 0);
            s.send_to(&datagram(2), FAR).unwrap();
            assert_eq!(receive(&mut rx, 1, 32)[0][42..], datagram(2));
            drop(rx);
            drop(port);
            assert!(NetIf::by_name("t").is_err(), "the interface goes with the port");
            pool.audit().unwrap();
        });
    }
}

/// Leaves out what a bridge says by itself.
fn ours(frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.into_iter().filter(|f| f[12..14] == [0x88, 0xb5]).collect()
}

fn receive_ours(rx: &mut linerate_port::RxQueue, n: usize) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    while got.len() < n {
        let some = receive(rx, 1, 32);
        if some.is_empty() {
            break;
        }
        got.extend(ours(some));
    }
    got
}

/// Sends a UDP datagram back where it came from.
fn turned(mut f: Vec<u8>) -> Vec<u8> {
    for (a, b, n) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        for i in 0..n {
            f.swap(a + i, b + i);
        }
    }
    f
}

#[test]
fn frames_of_any_shape_cross_a_bridge() {
    with_taps("bridge", |_| {
        let big = linerate_mbuf::Mempool::builder("big", 1024).cache(0).data_room(10_000).build().unwrap();
        let small = pool(2048);
        let jumbo = PortConfig { mtu: 9000, ..Default::default() };
        let scatter = PortConfig { mtu: 9000, rx_offloads: RxOffloads::SCATTER, ..Default::default() };
        let mut a = started_with("tap:ta", &big, jumbo).unwrap();
        let mut b = started_with("tap:tb", &small, scatter).unwrap();
        let (ta, tb) = (NetIf::by_name("ta").unwrap(), NetIf::by_name("tb").unwrap());
        let br = veth::create_bridge("br", &[&ta, &tb]).unwrap();
        br.set_mtu(9000).unwrap();
        br.set_up(true).unwrap();
        let ((mut rx_a, mut tx_a), (mut rx_b, mut tx_b)) = (ends(&mut a), ends(&mut b));
        let hello = frame(0, 60);
        eventually("the bridge forwards", || {
            send(&mut tx_a, &big, std::slice::from_ref(&hello));
            !ours(receive(&mut rx_b, 1, 32)).is_empty()
        });
        while !ours(receive(&mut rx_b, 32, 32)).is_empty() {}
        let frames: Vec<_> = (0..200).map(|i| frame(i, 60 + (i as usize * 977) % 8900)).collect();
        for some in frames.chunks(50) {
            assert_eq!(send(&mut tx_a, &big, some), some.len());
            assert_eq!(receive_ours(&mut rx_b, some.len()), some);
        }
        // Of several segments, the other way.
        let mut m = small.alloc_filled(&frame(9, 700)).unwrap();
        m.chain(small.alloc_filled(&[7; 800]).unwrap()).unwrap();
        let mut want = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
        m.data_mut()[..12].copy_from_slice(&want);
        want.extend_from_slice(&m.data()[12..]);
        want.extend([7; 800]);
        let mut burst = Burst::new();
        burst.push(m).unwrap();
        assert_eq!(tx_b.tx_burst(&mut burst), 1);
        assert_eq!(receive_ours(&mut rx_a, 1), [want]);
        // Too long and too short ones are dropped and counted.
        assert_eq!(send(&mut tx_a, &big, &[frame(1, 9023), vec![1; 13], frame(2, 60)]), 3);
        assert_eq!(receive_ours(&mut rx_b, 1), [frame(2, 60)]);
        assert_eq!((a.stats().tx_errors, xstat(&a, "tx_q0_bad_length")), (2, 2));
        drop((rx_a, tx_a, rx_b, tx_b));
        a.stop().unwrap();
        b.stop().unwrap();
        assert_eq!((big.counts().held, small.counts().held), (0, 0));
    });
}

#[test]
fn a_raised_mtu_and_an_empty_pool_are_survived() {
    with_taps("mtu_pool", |_| {
        let small = pool(8);
        let mut port = started("tap:t", &small, 1).unwrap();
        let t = NetIf::by_name("t").unwrap();
        addressed("t");
        let mut rx = port.take_rx(Q0).unwrap();
        let s = socket();
        let mut kept = Burst::new();
        // Bug case 29.
        for i in 0..20 {
            s.send_to(&datagram(i), FAR).unwrap();
        }
        eventually("the pool is used up", || {
            rx.rx_burst(&mut kept, 32);
            kept.len() == 8
        });
        assert_eq!(rx.rx_burst(&mut kept, 32), 0);
        assert!(port.stats().rx_nombuf > 0);
        kept.free_all();
        assert_eq!(rx.rx_burst(&mut kept, 32), 8, "within one poll");
        kept.free_all();
        let rest = receive(&mut rx, 4, 32);
        assert_eq!((rest.len(), rest[3][42]), (4, 19));
        // Bug case 26: raised behind the port's back; heard of or not.
        t.set_mtu(4000).unwrap();
        for heard in [false, true] {
            if heard {
                port.events();
            }
            let lost = port.stats().rx_errors;
            s.send_to(&[1; 3000], FAR).unwrap();
            s.send_to(&datagram(7), FAR).unwrap();
            assert_eq!(receive(&mut rx, 1, 32)[0][42..], datagram(7));
            assert_eq!(port.stats().rx_errors, lost + 1, "heard of: {heard}");
        }
        assert_eq!(xstat(&port, "rx_q0_too_long"), 2);
        drop(rx);
        port.stop().unwrap();
        assert_eq!(small.counts().held, 0);
    });
}

#[test]
fn a_program_decides_before_there_is_a_buffer() {
    with_taps("program", |_| {
        let pool = pool(512);
        let mut port = started("tap:t", &pool, 1).unwrap();
        addressed("t");
        let mut rx = port.take_rx(Q0).unwrap();
        rx.set_program(Some(Box::new(|f: &mut Frame<'_>| match f.data()[42] % 2 {
            0 => Verdict::Drop,
            _ => Verdict::Pass,
        })))
        .unwrap();
        let s = socket();
        for i in 0..20 {
            s.send_to(&datagram(i), FAR).unwrap();
        }
        let got = receive(&mut rx, 10, 32);
        assert_eq!(got.iter().map(|f| f[42]).collect::<Vec<_>>(), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
        assert_eq!(xstat(&port, "rx_program_drop"), 10);
    });
}

#[test]
fn several_queues_get_several_flows() {
    with_taps("queues", |_| {
        let pool = pool(2048);
        let mut port = started("tap:t,queues=4", &pool, 4).unwrap();
        addressed("t");
        let mut queues: Vec<_> =
            (0..4).map(|q| (port.take_rx(QueueId(q)).unwrap(), port.take_tx(QueueId(q)).unwrap())).collect();
        let sockets: Vec<_> = (0..32).map(|_| socket()).collect();
        for (i, s) in sockets.iter().enumerate() {
            for _ in 0..4 {
                s.send_to(&datagram(i as u8), FAR).unwrap();
            }
        }
        let (mut all, mut used) = (0, 0);
        for (rx, tx) in &mut queues {
            let got = receive(rx, 128, 32);
            used += usize::from(!got.is_empty());
            all += got.len();
            let n = got.len();
            let back: Vec<_> = got.into_iter().map(turned).collect();
            assert_eq!(send(tx, &pool, &back), n);
        }
        assert_eq!(all, 128);
        assert!(used >= 2, "{used} queues were used");
        for (i, s) in sockets.iter().enumerate() {
            s.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            for _ in 0..4 {
                let mut b = [0; 200];
                assert_eq!(s.recv(&mut b).expect("it came back"), 100);
                assert_eq!(b[0], i as u8);
            }
        }
        drop(queues);
        port.stop().unwrap();
        // With fewer queues the kernel uses only those.
        port.configure(PortConfig { rx_queues: 1, tx_queues: 4, ..Default::default() }).unwrap();
        port.rx_queue_setup(Q0, linerate_port::RxQueueConfig::new(&pool)).unwrap();
        for q in 0..4 {
            port.tx_queue_setup(QueueId(q), Default::default()).unwrap();
        }
        port.start().unwrap();
        let mut rx = port.take_rx(Q0).unwrap();
        for s in &sockets {
            s.send_to(&datagram(1), FAR).unwrap();
        }
        let got = receive(&mut rx, 32, 32);
        assert_eq!(got.len(), 32);
        for (q, f) in got.into_iter().take(4).enumerate() {
            let mut tx = port.take_tx(QueueId(q as u16)).unwrap();
            assert_eq!(send(&mut tx, &pool, &[turned(f)]), 1);
        }
    });
}

#[test]
fn a_link_that_goes_down_and_an_interface_that_goes_away() {
    with_taps("flap", |_| {
        let pool = pool(1024);
        let mut port = started("tap:t", &pool, 1).unwrap();
        let t = NetIf::by_name("t").unwrap();
        addressed("t");
        let (mut rx, mut tx) = ends(&mut port);
        port.events();
        t.set_up(false).unwrap();
        let mut burst = Burst::new();
        burst.push(pool.alloc_filled(&frame(1, 60)).unwrap()).unwrap();
        assert_eq!((tx.tx_burst(&mut burst), burst.len()), (0, 1), "nothing is accepted");
        assert!(!port.link().oper_up && xstat(&port, "tx_q0_link_down") == 1);
        port.set_link(true).unwrap();
        eventually("the link is up", || port.link().oper_up);
        assert_eq!(port.events().len(), 2, "one event a change");
        assert_eq!(tx.tx_burst(&mut burst), 1);
        // A neighbour is forgotten when its interface goes down.
        addressed("t");
        let s = socket();
        t.set_name("renamed").unwrap();
        s.send_to(&datagram(3), FAR).unwrap();
        assert_eq!(receive(&mut rx, 1, 32)[0][42..], datagram(3), "the port follows a rename");
        t.delete().unwrap();
        burst.push(pool.alloc_filled(&frame(1, 60)).unwrap()).unwrap();
        for _ in 0..50 {
            tx.tx_burst(&mut burst);
            rx.rx_burst(&mut Burst::new(), 32);
        }
        burst.free_all();
        let events = port.events();
        assert!(events.contains(&PortEvent::Removed), "{events:?}");
        assert!(!port.link().oper_up);
        drop((rx, tx));
        port.stop().unwrap();
        port.close().unwrap();
        assert_eq!(pool.counts().held, 0);
    });
}

#[test]
fn an_interface_is_left_behind_only_when_asked_for() {
    with_taps("persist", |_| {
        let pool = pool(64);
        drop(started("tap:p,persist=1", &pool, 1).unwrap());
        assert!(NetIf::by_name("p").is_ok());
        // Taken over, and not left behind the second time.
        drop(started("tap:p", &pool, 1).unwrap());
        assert!(NetIf::by_name("p").is_err());
        let before = holdings();
        for i in 0..100 {
            let mut port = started("tap:p", &pool, 1).unwrap();
            let mut tx = port.take_tx(Q0).unwrap();
            assert_eq!(send(&mut tx, &pool, &[frame(i, 60)]), 1);
            drop(tx);
            drop(port);
        }
        let after = holdings();
        assert!(after.0 < before.0 + 50, "{before:?} {after:?}");
        assert_eq!(pool.counts().held, 0);
    });
}

#[test]
fn what_cannot_be_is_said_with_what_mends_it() {
    with_taps("errors", |ns| {
        let pool = pool(64);
        let _taken = started("tap:taken", &pool, 1).unwrap();
        veth::create("v", "w").unwrap();
        for (spec, what, hint) in [
            ("tap:a-name-of-sixteen", "longer than 15 bytes", "1 to 15"),
            ("tap:taken", "making the TAP interface taken", "another process has it"),
            ("tap:v", "making the TAP interface v", "is no TAP device"),
            ("tap", "needs a device", "tap:NAME"),
            ("tap:x,mak=1", "no key \"mak\"", "did you mean `mac`?"),
        ] {
            let e = opened(spec).map(drop).expect_err(spec);
            assert!(e.to_string().contains(what), "{spec}: {e}");
            assert!(e.hint().contains(hint), "{spec}: {}", e.hint());
        }
        let e = ns.run(|| {
            drop_rights();
            opened("tap:x").map(drop).unwrap_err()
        });
        assert!(e.to_string().contains("tap") || e.to_string().contains("TAP"), "{e}");
        assert!(matches!(e, PortError::Driver { .. }) && e.hint().contains("cap_net_admin"), "{}", e.hint());
    });
}

/// Takes all capabilities from the calling thread.
fn drop_rights() {
    let (header, none) = ([0x2008_0522u32, 0], [0u32; 6]);
    // SAFETY: version 3 of the call: a header of two words and six words of sets, both ours.
    let n = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(n, 0, "{}", std::io::Error::last_os_error());
}

/// Says which spec a child of [`a_killed_process_leaves_nothing`] is to open.
const CHILD: &str = "LINERATE_TEST_CHILD_OPENS";

#[test]
fn a_killed_process_leaves_nothing() {
    if let Ok(specs) = std::env::var(CHILD) {
        let pool = pool(256);
        let mut ports: Vec<_> = specs.split(' ').map(|s| started(s, &pool, 1).unwrap()).collect();
        for p in &mut ports {
            if p.info().driver == "packet" {
                p.set_promiscuous(true, true).unwrap();
            }
        }
        loop {
            for p in &mut ports {
                let (mut rx, mut tx) = ends(p);
                send(&mut tx, &pool, &[frame(1, 60)]);
                rx.rx_burst(&mut Burst::new(), 32);
            }
        }
    }
    with_taps("killed", |_| {
        let (v, w) = veth::create("v", "w").unwrap();
        v.set_up(true).unwrap();
        w.set_up(true).unwrap();
        // Killed at many points between its first step and full traffic.
        for wait_ms in [0, 1, 2, 4, 6, 8, 10, 12, 15, 20, 30, 50, 100, 200] {
            let mut c = Command::new(std::env::current_exe().unwrap());
            c.args(["--exact", "a_killed_process_leaves_nothing"]);
            c.env(CHILD, "tap:k packet:v packet:w").stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = c.spawn().unwrap();
            if wait_ms == 200 {
                eventually("the child is at work", || {
                    NetIf::by_name("k").is_ok() && w.info().unwrap().promiscuity == 1
                });
            } else {
                thread::sleep(Duration::from_millis(wait_ms));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            eventually("nothing is left", || NetIf::by_name("k").is_err());
            assert_eq!((v.info().unwrap().promiscuity, w.info().unwrap().promiscuity), (0, 0));
        }
    });
}
