//! The AF_XDP port against the kernel: pairs of virtual interfaces in namespaces that the tests make.

mod kernel;

use kernel::*;
use linerate_drivers::{
    netif::{NetIf, veth},
    xsk::report,
};
use linerate_mbuf::{Burst, Mempool};
use linerate_port::{
    LinkCause, LinkState, Port, PortConfig, PortError, PortEvent, QueueId, RxOffloads, RxQueueConfig,
    TxOffloads, TxQueueConfig,
};
use std::{io::Write as _, process::Command, thread, time::Duration};

/// A pair of interfaces, up.
fn pair(a: &str, b: &str) -> (NetIf, NetIf) {
    let (x, y) = veth::create(a, b).expect("veth");
    x.set_up(true).expect("up");
    y.set_up(true).expect("up");
    (x, y)
}

/// The same with several queues; none, said aloud, without iproute2.
fn wide_pair(test: &str, a: &str, b: &str, queues: u16) -> bool {
    let n = queues.to_string();
    let end = |name| ["name", name, "numtxqueues", &n, "numrxqueues", &n].map(String::from);
    let mut c = Command::new("ip");
    let made = c.args(["link", "add"]).args(end(a)).args(["type", "veth", "peer"]).args(end(b)).status();
    if !made.is_ok_and(|s| s.success()) {
        skip(test, "no `ip` that makes interfaces of several queues (iproute2)");
        return false;
    }
    for name in [a, b] {
        NetIf::by_name(name).unwrap().set_up(true).unwrap();
    }
    true
}

fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// What a refusal says, with its hint.
fn refusal(spec: &str) -> String {
    let e = opened(spec).err().unwrap_or_else(|| panic!("{spec} was opened"));
    format!("{e}; {}", e.hint())
}

/// No program is attached and no queue taken: a port can be opened in every mode.
fn is_free(name: &str) {
    for mode in ["native", "generic"] {
        opened(&format!("xsk:{name},mode={mode}")).unwrap_or_else(|e| panic!("{mode}: {e}; {}", e.hint()));
    }
}

fn jumbo_config(mtu: u32) -> PortConfig {
    PortConfig {
        mtu,
        rx_offloads: RxOffloads::SCATTER,
        tx_offloads: TxOffloads::MULTI_SEGS,
        ..Default::default()
    }
}

#[test]
fn frames_pass_once_in_order_and_are_counted() {
    in_namespace("frames_pass", |_| {
        pair("a", "b");
        let pool = pool(4096);
        let (mut a, mut b) = (started("xsk:a", &pool, 1).unwrap(), started("xsk:b", &pool, 1).unwrap());
        assert!(a.link().oper_up && b.link().oper_up);
        let ((mut rx_a, mut tx_a), (mut rx_b, mut tx_b)) = (ends(&mut a), ends(&mut b));
        // Bug case 31: any number, with no further event, in requests of any size.
        let mut number = 0;
        for (n, size) in [(1, 1), (33, 32), (64, 3), (100, 1), (500, 512), (511, 7)] {
            let frames: Vec<_> = (0..n).map(|i| frame(number + i, 60 + (i as usize * 37) % 1440)).collect();
            number += n;
            assert_eq!(send(&mut tx_a, &pool, &frames), n as usize);
            assert_eq!(rx_b.pending(), Some(n as usize));
            assert_eq!(receive(&mut rx_b, n as usize, size), frames, "{n} by {size}");
        }
        assert_eq!(send(&mut tx_b, &pool, &[frame(7, 1514)]), 1);
        assert_eq!(receive(&mut rx_a, 2, 32), [frame(7, 1514)], "what a sent must not come back to a");
        // Too short to be frames: taken, not sent, counted.
        assert_eq!(send(&mut tx_a, &pool, &[vec![1; 13], frame(8, 14 + 4)]), 2);
        assert_eq!(receive(&mut rx_b, 2, 32), [frame(8, 18)]);
        assert_eq!(tx_a.reclaim(), 0);
        drop((rx_a, tx_a, rx_b, tx_b));
        let (sa, sb) = (a.stats(), b.stats());
        assert_eq!((sa.tx_packets, sa.tx_errors), (u64::from(number) + 1, 1));
        assert_eq!((sb.rx_packets, sb.rx_missed, sb.rx_errors), (u64::from(number) + 1, 0, 0));
        assert_eq!(sa.tx_bytes, sb.rx_bytes);
        assert!(xstat(&a, "tx_q0_kicks") > 0 && xstat(&b, "rx_q0_last_progress_ns") > 0);
        for none in ["rx_q0_bad_descs", "tx_q0_bad_completions", "tx_q0_xsk_invalid_descs", "tx_q0_stalls"] {
            assert_eq!((xstat(&a, none), xstat(&b, none)), (0, 0), "{none}");
        }
        a.stop().unwrap();
        b.stop().unwrap();
        assert_eq!(pool.counts().held, 0);
        pool.audit().unwrap();
    });
}

/// A forwarder between two worlds that have nothing but the kernel's own stack.
#[test]
fn the_kernels_stacks_talk_through_a_forwarder() {
    in_namespace("kernel stacks", |_| {
        let worlds: Vec<_> = (0..2).map(|_| Namespace::new("kernel stacks").unwrap()).collect();
        for (i, w) in worlds.iter().enumerate() {
            let (outer, inner) = veth::create(&format!("p{i}"), &format!("h{i}")).unwrap();
            outer.set_up(true).unwrap();
            inner.move_to(w.fd()).unwrap();
            w.run(move || {
                let name = format!("h{i}");
                NetIf::by_name(&name).unwrap().set_up(true).unwrap();
                set_address(&name, [10, 9, 8, 1 + i as u8]);
                checksums_by_software(&name);
            });
        }
        let pool = pool(4096);
        let ports = ["xsk:p0", "xsk:p1"].map(|s| started(s, &pool, 1).unwrap());
        let forwarder = Forwarder::start(ports);
        match worlds[0].run(|| ping("10.9.8.2", 10)) {
            Some(answered) => assert!(answered, "no answer to ping"),
            None => skip("kernel stacks, ping", "no `ping`"),
        }
        // UDP: what is sent is what comes, datagram by datagram.
        let server = worlds[1].spawn(|| {
            let s = std::net::UdpSocket::bind("10.9.8.2:9999").unwrap();
            s.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut b = [0; 2000];
            (0..100u32).all(|i| {
                let (n, from) = s.recv_from(&mut b).unwrap();
                s.send_to(&b[..n], from).unwrap();
                b[..4] == i.to_be_bytes()
            })
        });
        let client = worlds[0].spawn(|| {
            let s = std::net::UdpSocket::bind("10.9.8.1:0").unwrap();
            s.connect("10.9.8.2:9999").unwrap();
            s.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            thread::sleep(Duration::from_millis(50));
            for i in 0..100u32 {
                let mut d = i.to_be_bytes().to_vec();
                d.resize(4 + (i as usize * 13) % 1400, i as u8);
                s.send(&d).unwrap();
                let mut b = [0; 2000];
                let n = s.recv(&mut b).unwrap();
                assert_eq!(b[..n], d);
            }
        });
        client.join().unwrap();
        assert!(server.join().unwrap());
        // TCP: a megabyte, whole and in order, whatever is lost on the way.
        let server = worlds[1].spawn(|| {
            let l = std::net::TcpListener::bind("10.9.8.2:9998").unwrap();
            let (mut s, _) = l.accept().unwrap();
            let mut all = Vec::new();
            std::io::Read::read_to_end(&mut s, &mut all).unwrap();
            all
        });
        let data: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let sent = data.clone();
        worlds[0].run(move || {
            thread::sleep(Duration::from_millis(100));
            let mut s = std::net::TcpStream::connect("10.9.8.2:9998").unwrap();
            s.write_all(&sent).unwrap();
        });
        assert!(server.join().unwrap() == data, "the transfer was damaged");
        let ports = forwarder.stop();
        let [a, b] = ports.each_ref().map(Port::stats);
        // A hundred datagrams each way, the pings, and what TCP made of its megabyte: at least its acknowledgements.
        assert!(a.rx_packets > 200 && b.rx_packets > 200, "{a:?} {b:?}");
        assert_eq!((a.rx_errors, b.rx_errors), (0, 0));
        drop(ports);
        assert_eq!(pool.counts().held, 0);
    });
}

/// Has the kernel fill checksums in itself: a virtual interface leaves them to the other end otherwise, and there a
/// program sees frames before anybody has.
fn checksums_by_software(name: &str) {
    const ETHTOOL_STXCSUM: u32 = 0x17;
    let mut value = [ETHTOOL_STXCSUM, 0];
    let mut r = [0u8; 40];
    r[..name.len()].copy_from_slice(name.as_bytes());
    r[16..24].copy_from_slice(&(value.as_mut_ptr().expose_provenance() as u64).to_ne_bytes());
    // SAFETY: a datagram socket, closed below; the request is a whole ifreq that points to an ethtool_value.
    let n = unsafe {
        let s = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let n = libc::ioctl(s, libc::SIOCETHTOOL as _, r.as_mut_ptr());
        libc::close(s);
        n
    };
    assert_eq!(n, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn the_mode_is_said_with_its_reason_and_what_cannot_be_had_is_refused() {
    in_namespace("modes", |_| {
        pair("ma", "mb");
        let pool = pool(1024);
        for (keys, said) in [
            ("", &["native XDP;", "driver veth", "zero-copy no", "copy mode as veth has no zero-copy"][..]),
            (",mode=generic,busy_budget=0", &["generic XDP", "no busy poll", "multi-buffer"]),
            (",mode=native,force_copy=1", &["native XDP", "copy mode as asked"]),
            (",frame_size=4096", &["frames of 4096 bytes", "rings rx 1024 tx 1024"]),
        ] {
            let p = started(&format!("xsk:ma{keys}"), &pool, 1).unwrap();
            let line = report("xsk:ma").unwrap();
            assert!(said.iter().all(|s| line.contains(s)) && line.lines().count() == 1, "{keys}: {line}");
            drop(p);
            assert_eq!(report("xsk:ma"), None);
        }
        // No driver of its own: the stack's place is taken, and why is said.
        NetIf::by_name("lo").unwrap();
        let lo = opened("xsk:lo").unwrap();
        let line = report("xsk:lo").unwrap();
        assert!(line.contains("generic") && line.contains("has no native XDP"), "{line}");
        drop(lo);
        assert!(refusal("xsk:lo,mode=native").contains("takes no XDP program in native mode"));
        match started("xsk:ma,mode=zero-copy", &pool, 1) {
            Err(e) => {
                let text = format!("{e}; {}", e.hint());
                assert!(
                    text.contains("has no zero-copy") && text.contains("veth") && text.contains("mode=auto"),
                    "{text}"
                );
                skip("zero-copy", "no interface here has it (veth does not)");
            }
            Ok(mut p) => {
                // A kernel whose veth has learned it.
                let (mut rx, _tx) = ends(&mut p);
                assert_eq!(rx.rx_burst(&mut Burst::new(), 1), 0);
            }
        }
        is_free("ma");
    });
}

#[test]
fn a_kept_or_empty_pool_never_starves_the_kernel() {
    // Bug case 29, and pools smaller than rings.
    in_namespace("empty_pool", |_| {
        pair("a", "b");
        let (big, small) = (pool(4096), pool(64));
        let (mut a, mut b) = (started("xsk:a", &big, 1).unwrap(), started("xsk:b", &small, 1).unwrap());
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        let frames: Vec<_> = (0..600).map(|i| frame(i, 60)).collect();
        assert_eq!(send(&mut tx, &big, &frames), 600);
        let mut kept = Burst::new();
        for _ in 0..100 {
            rx.rx_burst(&mut kept, 32);
        }
        assert_eq!(kept.len(), 64);
        assert!(b.stats().rx_nombuf > 0 && b.stats().rx_missed == 0);
        // Buffers are back: the very next poll goes on where it stopped, and nothing is lost.
        drop(kept);
        assert_eq!(receive(&mut rx, 536, 32), frames[64..]);
        // More than the ring holds: what does not fit is missed and counted, and it goes on.
        let frames: Vec<_> = (0..3000).map(|i| frame(i, 60)).collect();
        assert_eq!(send(&mut tx, &big, &frames), 3000);
        let got = receive(&mut rx, 3000, 32);
        assert_eq!(got, frames[..1024]);
        assert_eq!(b.stats().rx_missed, 3000 - 1024);
        assert_eq!(xstat(&b, "rx_q0_xsk_ring_full"), 3000 - 1024);
        assert_eq!(send(&mut tx, &big, &frames[..5]), 5);
        assert_eq!(receive(&mut rx, 5, 32), frames[..5]);
    });
}

#[test]
fn jumbo_frames_are_chains_and_never_cut() {
    in_namespace("jumbo", |_| {
        let (x, y) = pair("ja", "jb");
        x.set_mtu(9000).unwrap();
        y.set_mtu(9000).unwrap();
        let pool = Mempool::builder("jumbo", 4096).cache(0).data_room(2048).build().unwrap();
        let mut a = started_with("xsk:ja", &pool, jumbo_config(9000)).unwrap();
        let mut b = started_with("xsk:jb", &pool, jumbo_config(9000)).unwrap();
        assert!(report("xsk:ja").unwrap().contains("multi-buffer"));
        let ((mut rx_a, mut tx_a), (mut rx_b, mut tx_b)) = (ends(&mut a), ends(&mut b));
        let frames: Vec<_> = (0..40u32)
            .map(|i| frame(i, [60, 1514, 3840, 3841, 4096, 4097, 9014, 8193][i as usize % 8]))
            .collect();
        // In requests of one, too: no packet is cut between bursts.
        for size in [32, 1, 3] {
            assert_eq!(send(&mut tx_a, &pool, &frames), 40);
            assert_eq!(receive(&mut rx_b, 40, size), frames, "by {size}");
            assert_eq!(send(&mut tx_b, &pool, &frames), 40);
            assert_eq!(receive(&mut rx_a, 40, size), frames, "by {size}");
        }
        assert!(xstat(&a, "tx_q0_chains") > 0 && xstat(&b, "rx_q0_chains") > 0);
        drop((rx_a, tx_a, rx_b, tx_b));
        b.stop().unwrap();
        // Bug case 26: without scatter, a longer frame is dropped and counted, and its neighbours are whole.
        b.configure(PortConfig::default()).unwrap();
        b.rx_queue_setup(Q0, RxQueueConfig::new(&pool)).unwrap();
        b.tx_queue_setup(Q0, TxQueueConfig::default()).unwrap();
        b.start().unwrap();
        let (mut tx_a, mut rx_b) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        assert_eq!(send(&mut tx_a, &pool, &frames), 40);
        let fit: Vec<_> = frames.iter().filter(|f| f.len() <= 2048).cloned().collect();
        assert_eq!(receive(&mut rx_b, 40, 32), fit);
        assert_eq!(b.stats().rx_errors, (40 - fit.len()) as u64);
        drop((tx_a, rx_b, a, b));
        assert_eq!(pool.counts().held, 0);
        pool.audit().unwrap();
    });
}

#[test]
fn the_mtu_is_raised_set_and_given_back() {
    in_namespace("mtu", |_| {
        let (x, y) = pair("a", "b");
        let pool = pool(4096);
        let mut a = started_with("xsk:a", &pool, jumbo_config(4000)).unwrap();
        assert_eq!(x.info().unwrap().mtu, 4000);
        a.stop().unwrap();
        a.set_mtu(2000).unwrap();
        assert_eq!(x.info().unwrap().mtu, 2000);
        assert!(matches!(a.set_mtu(70_000), Err(PortError::Range { .. })));
        a.start().unwrap();
        // Changed by another, under the port: longer frames go out at once, and are refused at once.
        let mut b = started_with("xsk:b", &pool, jumbo_config(1500)).unwrap();
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        y.set_mtu(3000).unwrap();
        assert_eq!(send(&mut tx, &pool, &[frame(1, 2022), frame(2, 2023)]), 2);
        assert_eq!(receive(&mut rx, 2, 32), [frame(1, 2022)]);
        assert_eq!(a.stats().tx_errors, 1);
        x.set_mtu(3000).unwrap();
        a.events();
        assert_eq!(send(&mut tx, &pool, &[frame(3, 3014)]), 1);
        assert_eq!(receive(&mut rx, 1, 32), [frame(3, 3014)]);
        drop((tx, rx));
        drop(a);
        assert_eq!(x.info().unwrap().mtu, 1500, "the MTU that it had before");
    });
}

#[test]
fn several_queues_are_checked_against_those_there_are() {
    in_namespace("queues", |_| {
        if !wide_pair("queues", "qa", "qb", 4) {
            return;
        }
        let pool = pool(4096);
        let mut a = started("xsk:qa,queues=4", &pool, 4).unwrap();
        // Two ports on one interface, each with queues of its own; the others' traffic stays the others'.
        let mut low = started("xsk:qb,queues=1", &pool, 1).unwrap();
        let line = report("xsk:qb").unwrap();
        assert!(line.contains("queues 0 to 0 of 4; WARNING"), "{line}");
        assert!(refusal("xsk:qb,queues=2").contains("queue 0 of qb belongs to another port"));
        let mut high = started("xsk:qb,start_queue=2,queue_count=2", &pool, 2).unwrap();
        assert!(refusal("xsk:qa,start_queue=3,queues=2").contains("qa has 4 receive queues"));
        assert!(!report("xsk:qa").unwrap().contains("WARNING"));
        for q in 0..4u16 {
            let mut tx = a.take_tx(QueueId(q)).unwrap();
            assert_eq!(send(&mut tx, &pool, &[frame(q.into(), 60)]), 1);
        }
        let got = |p: &mut Port, q| receive(&mut p.take_rx(QueueId(q)).unwrap(), 2, 8);
        assert_eq!(got(&mut low, 0), [frame(0, 60)]);
        assert_eq!(got(&mut high, 0), [frame(2, 60)]);
        assert_eq!(got(&mut high, 1), [frame(3, 60)]);
        // One goes; the program stays for the other.
        drop(low);
        let mut tx = a.take_tx(QueueId(3)).unwrap();
        assert_eq!(send(&mut tx, &pool, &[frame(9, 60)]), 1);
        assert_eq!(got(&mut high, 1), [frame(9, 60)]);
        drop((tx, a, high));
        is_free("qb");
    });
}

#[test]
fn unaligned_frames_need_huge_pages() {
    in_namespace("unaligned", |_| {
        pair("ua", "ub");
        let pool = pool(2048);
        assert!(refusal("xsk:ua,frame_size=3008").contains("2048, 4096"));
        assert!(refusal("xsk:ua,frame_size=9728,unaligned=1").contains("multiples of 64"));
        let mut a = match started_with("xsk:ua,frame_size=3008,unaligned=1", &pool, jumbo_config(1500)) {
            Ok(a) => a,
            Err(e) => {
                let text = format!("{e}; {}", e.hint());
                assert!(text.contains("unaligned frames need huge pages"), "{text}");
                return skip("unaligned", "no huge pages are reserved");
            }
        };
        let mut b = started("xsk:ub", &pool, 1).unwrap();
        assert!(report("xsk:ua").unwrap().contains("frames of 3008 bytes in 2 MiB pages"));
        let ((mut rx_a, mut tx_a), (mut rx_b, mut tx_b)) = (ends(&mut a), ends(&mut b));
        // More than there are frames, so that each is used, and given back by its base.
        for round in 0..8 {
            let frames: Vec<_> =
                (0..400).map(|i| frame(round * 400 + i, 60 + (i as usize * 7) % 1400)).collect();
            assert_eq!(send(&mut tx_b, &pool, &frames), 400);
            assert_eq!(receive(&mut rx_a, 400, 32), frames);
            assert_eq!(send(&mut tx_a, &pool, &frames), 400);
            assert_eq!(receive(&mut rx_b, 400, 32), frames);
        }
        drop((rx_a, tx_a, rx_b, tx_b));
        assert_eq!(xstat(&a, "rx_q0_bad_descs") + xstat(&a, "tx_q0_bad_completions"), 0);
    });
}

#[test]
fn a_stopped_port_leaves_the_traffic_to_the_kernel() {
    in_namespace("stopped", |_| {
        let (x, _) = pair("a", "b");
        set_address("a", [10, 9, 8, 1]);
        let pool = pool(1024);
        let (mut a, mut b) = (started("xsk:a", &pool, 1).unwrap(), started("xsk:b", &pool, 1).unwrap());
        // A question that the kernel's stack answers, and we do not.
        let mut arp = vec![0xff; 6];
        arp.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 9, 8, 9]);
        arp.extend([0, 0, 0, 0, 0, 0, 10, 9, 8, 1]);
        arp.resize(60, 0);
        let (mut rx, mut tx) = ends(&mut b);
        assert_eq!(send(&mut tx, &pool, std::slice::from_ref(&arp)), 1);
        let mut rx_a = a.take_rx(Q0).unwrap();
        assert_eq!(receive(&mut rx_a, 1, 8), [arp.clone()]);
        assert_eq!(receive(&mut rx, 1, 8), Vec::<Vec<u8>>::new());
        // A queue that is stopped keeps its traffic from the kernel as well.
        a.set_rx_queue_running(Q0, false).unwrap();
        rx_a.rx_burst(&mut Burst::new(), 1);
        assert_eq!(send(&mut tx, &pool, std::slice::from_ref(&arp)), 1);
        assert_eq!(receive(&mut rx, 1, 8), Vec::<Vec<u8>>::new());
        drop(rx_a);
        a.stop().unwrap();
        assert_eq!(send(&mut tx, &pool, std::slice::from_ref(&arp)), 1);
        let answer = receive(&mut rx, 1, 8);
        assert_eq!(answer.len(), 1, "the kernel answers for the stopped port");
        assert_eq!(answer[0][6..12], x.info().unwrap().mac.unwrap().0);
        // And after that nothing old comes.
        a.start().unwrap();
        assert_eq!(receive(&mut a.take_rx(Q0).unwrap(), 1, 8), Vec::<Vec<u8>>::new());
    });
}

/// Waits for a change of the link, which the kernel may tell a second later, and for it alone.
fn one_link_event(port: &mut Port) -> LinkState {
    let mut heard = Vec::new();
    eventually("a link event", || {
        heard.extend(port.events());
        !heard.is_empty()
    });
    match &heard[..] {
        [PortEvent::Link(l)] => *l,
        other => panic!("{other:?}"),
    }
}

/// Interface events while packets move: each change is told once, nothing panics, and traffic goes on.
#[test]
fn flapped_renamed_and_deleted_under_traffic() {
    in_namespace("flaps", |_| {
        let (x, y) = pair("a", "b");
        let pool = pool(4096);
        let (mut a, mut b) = (started("xsk:a", &pool, 1).unwrap(), started("xsk:b", &pool, 1).unwrap());
        let ((mut rx_a, mut tx_a), (mut rx_b, mut tx_b)) = (ends(&mut a), ends(&mut b));
        a.events();
        for round in 0..3u32 {
            // Bug case 34: the peer goes down and comes up; what was accepted leaves once each, in order.
            y.set_up(false).unwrap();
            let down = one_link_event(&mut a);
            assert!(!down.oper_up && down.admin_up && down.cause == LinkCause::Carrier, "{down:?}");
            let lost = [frame(1000 + round, 60)];
            send(&mut tx_a, &pool, &lost);
            y.set_up(true).unwrap();
            let up = one_link_event(&mut a);
            assert!(up.oper_up, "{up:?}");
            eventually("frames pass again", || {
                send(&mut tx_a, &pool, &[frame(round, 60)]);
                receive(&mut rx_b, 1, 32).contains(&frame(round, 60))
            });
            receive(&mut rx_b, 32, 32);
        }
        // Our own interface down: the ring takes what it holds and no more; up again, it all leaves, in order.
        x.set_up(false).unwrap();
        let frames: Vec<_> = (0..3000).map(|i| frame(i, 60)).collect();
        let mut burst = Burst::new();
        for f in &frames[..512] {
            burst.push(pool.alloc_filled(f).unwrap()).unwrap();
        }
        let mut took = 0;
        for _ in 0..5 {
            took += tx_a.tx_burst(&mut burst);
            tx_a.end_of_poll();
            if !burst.is_empty() {
                break;
            }
            for f in &frames[took..took + 512] {
                burst.push(pool.alloc_filled(f).unwrap()).unwrap();
            }
        }
        assert_eq!(took, 1024, "as many as the ring has descriptors");
        assert_eq!(tx_a.tx_burst(&mut burst), 0);
        assert!(xstat(&a, "tx_q0_kicks_down") > 0);
        let down = one_link_event(&mut a);
        assert!(!down.oper_up && !down.admin_up, "{down:?}");
        x.set_up(true).unwrap();
        burst.free_all();
        let mut got = Vec::new();
        eventually("all that was taken leaves", || {
            tx_a.end_of_poll();
            got.extend(receive(&mut rx_b, 256, 32));
            got.len() >= took
        });
        assert_eq!(got, frames[..took]);
        assert_eq!(tx_a.reclaim(), 0);
        // Renamed: the same interface.
        a.events();
        x.set_up(false).unwrap();
        x.set_name("other").unwrap();
        x.set_up(true).unwrap();
        eventually("frames pass under the new name", || {
            send(&mut tx_b, &pool, &[frame(5, 60)]);
            receive(&mut rx_a, 1, 8) == [frame(5, 60)]
        });
        // Deleted: an event, and an orderly end.
        x.delete().unwrap();
        let mut none = Burst::new();
        for _ in 0..10 {
            rx_a.rx_burst(&mut none, 32);
            send_once(&mut tx_a, &pool, &frame(1, 60));
            tx_a.end_of_poll();
        }
        let gone = a.events();
        assert!(gone.contains(&PortEvent::Removed), "{gone:?}");
        assert_eq!(a.events(), [], "told once");
        assert!(b.events().contains(&PortEvent::Removed));
        drop((rx_a, tx_a, rx_b, tx_b));
        a.stop().unwrap();
        assert!(matches!(a.start(), Err(PortError::Removed { .. })));
        a.close().unwrap();
        drop(b);
        assert_eq!(pool.counts().held, 0);
        pool.audit().unwrap();
    });
}

fn send_once(tx: &mut linerate_port::TxQueue, pool: &Mempool, f: &[u8]) {
    let mut burst = Burst::new();
    burst.push(pool.alloc_filled(f).unwrap()).unwrap();
    tx.tx_burst(&mut burst);
}

#[test]
fn promiscuous_mode_and_addresses_go_with_the_port() {
    in_namespace("promiscuous", |_| {
        let (x, _) = pair("a", "b");
        let pool = pool(512);
        let mut a = started("xsk:a", &pool, 1).unwrap();
        a.set_promiscuous(true, true).unwrap();
        a.set_promiscuous(true, false).unwrap();
        assert_eq!(x.info().unwrap().promiscuity, 1);
        a.set_promiscuous(false, false).unwrap();
        assert_eq!(x.info().unwrap().promiscuity, 0);
        a.set_promiscuous(true, false).unwrap();
        a.set_mac("02:00:00:00:00:77".parse().unwrap(), true).unwrap();
        a.set_mac("01:00:5e:00:00:01".parse().unwrap(), true).unwrap();
        a.set_mac("02:00:00:00:00:77".parse().unwrap(), false).unwrap();
        drop(a);
        assert_eq!(x.info().unwrap().promiscuity, 0);
    });
}

#[test]
fn a_first_frame_for_a_test_leaves() {
    in_namespace("selftest", |_| {
        let (x, _) = pair("a", "b");
        let pool = pool(512);
        let mut b = started("xsk:b", &pool, 1).unwrap();
        let a = started("xsk:a,tx_selftest=1", &pool, 1).unwrap();
        let got = receive(&mut b.take_rx(Q0).unwrap(), 1, 8);
        assert_eq!((got.len(), &got[0][12..14]), (1, &[0x88, 0xb5][..]));
        drop(a);
        // With the interface down it cannot: the start says so, in time, and all is given back.
        x.set_up(false).unwrap();
        let mut a = opened("xsk:a,tx_selftest=1").unwrap();
        a.configure(PortConfig::default()).unwrap();
        a.rx_queue_setup(Q0, RxQueueConfig::new(&pool)).unwrap();
        a.tx_queue_setup(Q0, TxQueueConfig::default()).unwrap();
        let e = a.start().unwrap_err();
        assert!(e.to_string().contains("a first frame was not sent within 100 ms"), "{e}");
        x.set_up(true).unwrap();
        a.start().unwrap();
    });
}

#[test]
fn only_sending_or_only_receiving() {
    in_namespace("one way", |_| {
        pair("a", "b");
        let pool = pool(2048);
        let only = |rx, tx| PortConfig { rx_queues: rx, tx_queues: tx, ..Default::default() };
        let mut a = started_with("xsk:a", &pool, only(0, 1)).unwrap();
        let mut b = started_with("xsk:b", &pool, only(1, 0)).unwrap();
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        for round in 0..10 {
            let frames: Vec<_> = (0..300).map(|i| frame(round * 300 + i, 64)).collect();
            assert_eq!(send(&mut tx, &pool, &frames), 300);
            assert_eq!(receive(&mut rx, 300, 32), frames);
        }
        assert_eq!(tx.reclaim(), 0);
    });
}

#[test]
fn traffic_that_reaches_no_queue_is_told_with_the_first_failing_check() {
    in_namespace("silence", |_| {
        if !wide_pair("silence", "a", "b", 2) {
            return;
        }
        let pool = pool(1024);
        let mut a = started("xsk:a,queues=1", &pool, 1).unwrap();
        let mut b = started("xsk:b", &pool, 2).unwrap();
        a.events();
        let mut tx = b.take_tx(QueueId(1)).unwrap();
        let frames: Vec<_> = (0..50).map(|i| frame(i, 60)).collect();
        send(&mut tx, &pool, &frames);
        thread::sleep(Duration::from_millis(1100));
        let told = a.events();
        let right = |e: &PortEvent| matches!(e, PortEvent::QueueError { what, .. } if what.contains("other queues: it takes 0 to 0 of 2"));
        assert!(told.iter().any(right), "{told:?}");
        thread::sleep(Duration::from_millis(1100));
        send(&mut tx, &pool, &frames);
        assert_eq!(a.events(), [], "told once");
    });
}
