//! The packet port against the kernel: pairs of virtual interfaces in namespaces that the tests make.

mod kernel;

use kernel::*;
use linerate_drivers::netif::{NetIf, veth};
use linerate_mbuf::{Burst, OlFlags};
use linerate_port::{
    Frame, LinkCause, PortConfig, PortError, PortEvent, QueueId, RxOffloads, RxQueueConfig, TxOffloads,
    Verdict,
};
use std::{thread, time::Duration};

/// A pair of interfaces, up.
fn pair(a: &str, b: &str) -> (NetIf, NetIf) {
    let (x, y) = veth::create(a, b).expect("veth");
    x.set_up(true).expect("up");
    y.set_up(true).expect("up");
    (x, y)
}

#[test]
fn frames_pass_once_in_order_and_nothing_comes_back() {
    in_namespace("frames_pass", |_| {
        pair("a", "b");
        let pool = pool(4096);
        let (mut a, mut b) = (started("packet:a", &pool, 1).unwrap(), started("packet:b", &pool, 1).unwrap());
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
        assert_eq!(tx_a.reclaim(), 0);
        drop((rx_a, tx_a, rx_b, tx_b));
        let (sa, sb) = (a.stats(), b.stats());
        assert_eq!((sa.tx_packets, sb.rx_packets, sb.rx_missed), (number.into(), number.into(), 0));
        assert_eq!(sa.tx_bytes, sb.rx_bytes);
        assert!(xstat(&a, "tx_q0_kicks") > 0);
        a.stop().unwrap();
        b.stop().unwrap();
        assert_eq!(pool.counts().held, 0);
        pool.audit().unwrap();
    });
}

#[test]
fn a_full_ring_drops_counts_and_goes_on() {
    in_namespace("full_ring", |_| {
        pair("a", "b");
        let pool = pool(4096);
        let (mut a, mut b) =
            (started("packet:a", &pool, 1).unwrap(), started("packet:b,framecnt=64", &pool, 1).unwrap());
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        for round in 0..3 {
            let frames: Vec<_> = (0..200).map(|i| frame(i, 60)).collect();
            assert_eq!(send(&mut tx, &pool, &frames), 200);
            assert_eq!(receive(&mut rx, 200, 32), frames[..64]);
            assert_eq!(rx.rx_burst(&mut Burst::new(), 1), 0);
            assert_eq!(b.stats().rx_missed, 136 * (round + 1), "no later frame is needed to tell");
        }
        assert_eq!(send(&mut tx, &pool, &[frame(1, 60)]), 1);
        assert_eq!(receive(&mut rx, 1, 32).len(), 1);
    });
}

#[test]
fn an_empty_pool_puts_frames_off_and_recovers() {
    // Bug case 29.
    in_namespace("empty_pool", |_| {
        pair("a", "b");
        let (big, small) = (pool(2048), pool(16));
        let (mut a, mut b) = (started("packet:a", &big, 1).unwrap(), started("packet:b", &small, 1).unwrap());
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        let frames: Vec<_> = (0..40).map(|i| frame(i, 60)).collect();
        assert_eq!(send(&mut tx, &big, &frames), 40);
        let mut kept = Burst::new();
        eventually("the pool is used up", || {
            rx.rx_burst(&mut kept, 32);
            kept.len() == 16
        });
        assert_eq!(rx.rx_burst(&mut kept, 32), 0);
        assert!(b.stats().rx_nombuf > 0);
        kept.free_all();
        assert_eq!(rx.rx_burst(&mut kept, 32), 16, "within one poll");
        kept.free_all();
        assert_eq!(receive(&mut rx, 8, 32), frames[32..]);
        assert_eq!(b.stats().rx_missed, 0);
        drop((rx, tx));
        b.stop().unwrap();
        assert_eq!(small.counts().held, 0);
    });
}

#[test]
fn frames_longer_than_a_buffer_are_dropped_or_scattered() {
    // Bug case 26: the peer's MTU is raised afterwards.
    in_namespace("long_frames", |_| {
        let (_, b_if) = pair("a", "b");
        let big = linerate_mbuf::Mempool::builder("big", 512).cache(0).data_room(10_000).build().unwrap();
        let pool = pool(2048);
        let jumbo = PortConfig { mtu: 9000, ..Default::default() };
        let mut a = started_with("packet:a", &big, jumbo.clone()).unwrap();
        assert_eq!(NetIf::by_name("a").unwrap().info().unwrap().mtu, 9000, "raised for the port");
        let mut b = started("packet:b", &pool, 1).unwrap();
        b_if.set_mtu(9000).unwrap();
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        let frames = [frame(1, 1514), frame(2, 9014), frame(3, 2048), frame(4, 2049), frame(5, 60)];
        assert_eq!(send(&mut tx, &big, &frames), 5);
        assert_eq!(receive(&mut rx, 5, 32), [frame(1, 1514), frame(3, 2048), frame(5, 60)]);
        assert_eq!((xstat(&b, "rx_q0_too_long"), b.stats().rx_errors), (2, 2));
        assert_eq!(xstat(&b, "rx_q0_through_socket"), 3, "longer than a slot, and whole all the same");
        drop(rx);
        b.stop().unwrap();
        b.configure(PortConfig { rx_offloads: RxOffloads::SCATTER, ..Default::default() }).unwrap();
        b.rx_queue_setup(Q0, RxQueueConfig::new(&pool)).unwrap();
        b.tx_queue_setup(Q0, Default::default()).unwrap();
        b.start().unwrap();
        let mut rx = b.take_rx(Q0).unwrap();
        assert_eq!(send(&mut tx, &big, &frames), 5);
        assert_eq!(receive(&mut rx, 5, 32), frames);
        // Longer than the sender's own MTU allows.
        assert_eq!(send(&mut tx, &big, &[frame(1, 9018), frame(2, 9019), vec![1; 13]]), 3);
        assert_eq!((a.stats().tx_errors, xstat(&a, "tx_q0_bad_length")), (2, 2));
        drop((rx, tx));
        a.stop().unwrap();
        b.stop().unwrap();
        a.close().unwrap();
        assert_eq!(NetIf::by_name("a").unwrap().info().unwrap().mtu, 1500, "and put back");
        assert_eq!((pool.counts().held, big.counts().held), (0, 0));
    });
}

#[test]
fn vlan_tags_that_the_kernel_takes_out_are_put_back_or_reported() {
    in_namespace("vlan", |_| {
        pair("a", "b");
        let pool = pool(512);
        let tx_config = PortConfig { tx_offloads: TxOffloads::VLAN_INSERT, ..Default::default() };
        let rx_config = |o| PortConfig { rx_offloads: RxOffloads::TIMESTAMP | o, ..Default::default() };
        let mut a = started_with("packet:a", &pool, tx_config).unwrap();
        let mut tagged = frame(9, 100);
        tagged.splice(12..12, [0x81, 0, 0x20, 5]);
        let mut service = frame(9, 100);
        service.splice(12..12, [0x88, 0xa8, 0x20, 6, 0x81, 0, 0, 7]);
        let mut tx = a.take_tx(Q0).unwrap();
        for strip in [false, true] {
            let o = if strip { RxOffloads::VLAN_STRIP } else { RxOffloads::empty() };
            let mut b = started_with("packet:b", &pool, rx_config(o)).unwrap();
            let mut rx = b.take_rx(Q0).unwrap();
            assert_eq!(send(&mut tx, &pool, &[tagged.clone(), service.clone(), frame(1, 60)]), 3);
            let mut asked = pool.alloc_filled(&frame(9, 100)).unwrap();
            asked.set_vlan_tci(0x2005);
            asked.set_ol_flags(OlFlags::TX_VLAN);
            let mut burst = Burst::new();
            burst.push(asked).unwrap();
            assert_eq!(tx.tx_burst(&mut burst), 1);
            let mut got = Burst::new();
            eventually("four frames", || {
                rx.rx_burst(&mut got, 32);
                got.len() == 4
            });
            let got = got.as_slice();
            assert!(got.iter().all(|m| m.timestamp().is_some_and(|t| t > 1_500_000_000_000_000_000)));
            assert_eq!(got[2].data(), frame(1, 60));
            assert!(!got[2].ol_flags().contains(OlFlags::RX_VLAN));
            if strip {
                assert_eq!((got[0].data(), got[0].vlan_tci()), (frame(9, 100).as_slice(), 0x2005));
                assert_eq!((got[3].data(), got[3].vlan_tci()), (frame(9, 100).as_slice(), 0x2005));
                assert!(got[0].ol_flags().contains(OlFlags::RX_VLAN | OlFlags::RX_VLAN_STRIPPED));
                assert_eq!(got[1].vlan_tci(), 0x2006);
            } else {
                assert_eq!(got[0].data(), tagged);
                assert_eq!(got[1].data(), service);
                assert_eq!(got[3].data(), tagged);
            }
        }
    });
}

#[test]
fn a_program_decides_before_there_is_a_buffer() {
    in_namespace("program", |_| {
        pair("a", "b");
        let pool = pool(512);
        let (mut a, mut b) = (started("packet:a", &pool, 1).unwrap(), started("packet:b", &pool, 1).unwrap());
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        rx.set_program(Some(Box::new(|f: &mut Frame<'_>| match f.data()[17] % 3 {
            0 => Verdict::Drop,
            1 => Verdict::Pass,
            _ => {
                assert!(f.adjust_head(-4) && f.adjust_tail(-6));
                Verdict::Pass
            }
        })))
        .unwrap();
        let frames: Vec<_> = (0..90).map(|i| frame(i, 60)).collect();
        assert_eq!(send(&mut tx, &pool, &frames), 90);
        let got = receive(&mut rx, 60, 32);
        assert_eq!(got.len(), 60);
        assert!(got.iter().step_by(2).eq(frames.iter().skip(1).step_by(3)));
        assert_eq!((got[1].len(), &got[1][4..20]), (58, &frames[2][..16]));
        assert_eq!(xstat(&b, "rx_program_drop"), 30);
    });
}

#[test]
fn a_link_that_flaps_loses_nothing_that_was_accepted() {
    // Bug case 34.
    in_namespace("flap", |_| {
        let (a_if, _b_if) = pair("a", "b");
        let pool = pool(4096);
        let (mut a, mut b) =
            (started("packet:a,framecnt=32", &pool, 1).unwrap(), started("packet:b", &pool, 1).unwrap());
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        a.events();
        assert_eq!(send(&mut tx, &pool, &[frame(0, 60)]), 1);
        a_if.set_up(false).unwrap();
        // The ring takes what it holds, then nothing more.
        let mut burst = Burst::new();
        for i in 1..101 {
            burst.push(pool.alloc_filled(&frame(i, 60)).unwrap()).unwrap();
        }
        let accepted = (0..50).map(|_| tx.tx_burst(&mut burst)).sum::<usize>();
        assert_eq!((accepted, burst.len()), (32, 68));
        assert_eq!(tx.reclaim(), 32);
        assert!(xstat(&a, "tx_q0_link_down") > 0 && xstat(&a, "tx_q0_ring_full") > 0);
        let link = a.link();
        assert!(!link.oper_up && !link.admin_up && link.cause == LinkCause::Admin);
        a_if.set_up(true).unwrap();
        eventually("the link is up", || a.link().oper_up);
        let went = |e: &PortEvent| matches!(e, PortEvent::Link(l) if l.oper_up);
        assert_eq!(a.events().iter().filter(|e| went(e)).count(), 1, "one event a change");
        // An idle turn of the loop sends what waits.
        tx.end_of_poll();
        let mut got = receive(&mut rx, 33, 32);
        while !burst.is_empty() {
            tx.tx_burst(&mut burst);
            got.extend(receive(&mut rx, 32.min(101 - got.len()), 32));
        }
        let want: Vec<_> = (0..101).map(|i| frame(i, 60)).collect();
        assert_eq!(got, want, "each once, in order");
        assert_eq!((a.stats().tx_packets, a.stats().tx_errors), (101, 0));
        // What waits at a stop is thrown away, and the ring is in step afterwards.
        a_if.set_up(false).unwrap();
        let mut burst = Burst::new();
        for i in 0..5 {
            burst.push(pool.alloc_filled(&frame(i, 60)).unwrap()).unwrap();
        }
        assert_eq!(tx.tx_burst(&mut burst), 5);
        drop(tx);
        a.stop().unwrap();
        assert_eq!(xstat(&a, "tx_q0_discarded_at_stop"), 5);
        a_if.set_up(true).unwrap();
        eventually("the interface runs", || a_if.info().unwrap().is_running());
        a.start().unwrap();
        let mut tx = a.take_tx(Q0).unwrap();
        let frames: Vec<_> = (200..300).map(|i| frame(i, 60)).collect();
        assert_eq!(send(&mut tx, &pool, &frames), 100);
        assert_eq!(receive(&mut rx, 100, 32), frames);
    });
}

#[test]
fn a_port_follows_a_rename_and_hears_of_a_removal() {
    in_namespace("rename", |_| {
        let (a_if, b_if) = pair("a", "b");
        let pool = pool(512);
        let (mut a, mut b) = (started("packet:a", &pool, 1).unwrap(), started("packet:b", &pool, 1).unwrap());
        let ((mut rx_a, mut tx_a), (mut rx_b, mut tx_b)) = (ends(&mut a), ends(&mut b));
        b_if.set_name("renamed").unwrap();
        assert_eq!(send(&mut tx_a, &pool, &[frame(1, 60)]), 1);
        assert_eq!(receive(&mut rx_b, 1, 32), [frame(1, 60)]);
        assert_eq!(send(&mut tx_b, &pool, &[frame(2, 60)]), 1);
        assert_eq!(receive(&mut rx_a, 1, 32), [frame(2, 60)]);
        assert!(b.link().oper_up);
        // Another interface with the old name is not ours.
        pair("b", "c");
        b.set_link(false).unwrap();
        assert!(NetIf::by_name("b").unwrap().info().unwrap().up && !b_if.info().unwrap().up);
        b.set_link(true).unwrap();
        eventually("the link is up", || b.link().oper_up);
        // Deleting one end takes the other with it, under traffic.
        send(&mut tx_a, &pool, &[frame(3, 60)]);
        a_if.delete().unwrap();
        let mut burst = Burst::new();
        for i in 0..600 {
            if let Some(m) = pool.alloc_filled(&frame(i, 60)) {
                let _ = burst.push(m);
            }
            tx_a.tx_burst(&mut burst);
            tx_b.tx_burst(&mut burst);
        }
        burst.free_all();
        let _ = receive(&mut rx_b, 2, 32);
        for port in [&mut a, &mut b] {
            let events = port.events();
            assert!(events.contains(&PortEvent::Removed), "{events:?}");
            assert!(!port.link().oper_up);
            assert!(matches!(port.set_promiscuous(true, false), Err(PortError::Removed { .. })));
        }
        drop((rx_a, tx_a, rx_b, tx_b));
        for port in [&mut a, &mut b] {
            port.stop().unwrap();
            port.close().unwrap();
            assert!(port.events().is_empty());
        }
        assert_eq!(pool.counts().held, 0);
        pool.audit().unwrap();
    });
}

#[test]
fn an_mtu_that_changes_under_traffic_is_followed() {
    in_namespace("mtu", |_| {
        let (a_if, b_if) = pair("a", "b");
        let pool = pool(2048);
        let (mut a, mut b) = (started("packet:a", &pool, 1).unwrap(), started("packet:b", &pool, 1).unwrap());
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        for mtu in [1000, 1500, 600, 1400] {
            a_if.set_mtu(mtu).unwrap();
            b_if.set_mtu(mtu).unwrap();
            a.events();
            let before = a.stats().tx_errors;
            let fits = mtu as usize + 14;
            let frames = [frame(1, fits), frame(2, fits + 5), frame(3, 60)];
            assert_eq!(send(&mut tx, &pool, &frames), 3);
            assert_eq!(receive(&mut rx, 2, 32), [frame(1, fits), frame(3, 60)], "MTU {mtu}");
            assert_eq!(a.stats().tx_errors - before, 1);
        }
        drop((tx, rx));
        a.stop().unwrap();
        a.set_mtu(1200).unwrap();
        assert_eq!(a_if.info().unwrap().mtu, 1200);
        a.close().unwrap();
        assert_eq!(a_if.info().unwrap().mtu, 1400, "as it was before the port changed it");
    });
}

#[test]
fn promiscuous_mode_and_addresses_go_with_the_port() {
    in_namespace("promiscuous", |_| {
        let (a_if, _) = pair("a", "b");
        let pool = pool(512);
        let mut a = started("packet:a", &pool, 1).unwrap();
        assert_eq!(a.info().mac, a_if.info().unwrap().mac.unwrap());
        a.set_promiscuous(true, true).unwrap();
        assert_eq!(a_if.info().unwrap().promiscuity, 1);
        a.set_promiscuous(true, false).unwrap();
        a.set_mac("02:00:00:00:00:77".parse().unwrap(), true).unwrap();
        a.set_mac("01:00:5e:00:00:01".parse().unwrap(), true).unwrap();
        // An interface that cannot filter by address turns promiscuous for it as well.
        assert!(a_if.info().unwrap().promiscuity >= 1);
        drop(a);
        assert_eq!(a_if.info().unwrap().promiscuity, 0);
    });
}

#[test]
fn several_queues_share_the_frames_by_flow() {
    in_namespace("fanout", |_| {
        pair("a", "b");
        let pool = pool(4096);
        let mut a = started("packet:a", &pool, 2).unwrap();
        let mut b = started("packet:b", &pool, 4).unwrap();
        let mut other = started("packet:b,fanout_mode=lb", &pool, 2).unwrap();
        let mut rx: Vec<_> = (0..4).map(|q| b.take_rx(QueueId(q)).unwrap()).collect();
        let mut tx: Vec<_> = (0..2).map(|q| a.take_tx(QueueId(q)).unwrap()).collect();
        let udp = |flow: u16| {
            let mut f =
                vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
            f.extend([10, 0, 0, 1, 10, 0, 0, 2, (flow >> 8) as u8, flow as u8, 0, 9, 0, 26, 0, 0]);
            f.resize(60, 0);
            f
        };
        let frames: Vec<_> = (0..256).map(|i| udp(i % 64)).collect();
        assert_eq!(send(&mut tx[0], &pool, &frames[..128]), 128);
        assert_eq!(send(&mut tx[1], &pool, &frames[128..]), 128);
        let mut flows_of = Vec::new();
        let mut all = 0;
        for rx in &mut rx {
            let got = receive(rx, 256, 32);
            all += got.len();
            let mut flows: Vec<_> = got.iter().map(|f| f[35]).collect();
            flows.sort_unstable();
            assert!(flows.chunk_by(|a, b| a == b).all(|c| c.len() == 4), "a flow keeps to its queue");
            flows_of.push(flows);
        }
        assert_eq!(all, 256);
        assert!(flows_of.iter().filter(|f| !f.is_empty()).count() >= 2, "more than one queue is used");
        // Another port's group gets its own copies.
        let mut total = 0;
        for q in 0..2 {
            let n = receive(&mut other.take_rx(QueueId(q)).unwrap(), 256, 32).len();
            assert_eq!(n, 128, "in turn");
            total += n;
        }
        assert_eq!(total, 256);
    });
}

#[test]
fn one_queue_can_be_stopped_alone() {
    in_namespace("stop_queue", |_| {
        pair("a", "b");
        let pool = pool(512);
        let (mut a, mut b) = (started("packet:a", &pool, 1).unwrap(), started("packet:b", &pool, 1).unwrap());
        let (mut tx, mut rx) = (a.take_tx(Q0).unwrap(), b.take_rx(Q0).unwrap());
        b.set_rx_queue_running(Q0, false).unwrap();
        let mut burst = Burst::new();
        assert_eq!(rx.rx_burst(&mut burst, 32), 0);
        assert_eq!(send(&mut tx, &pool, &[frame(1, 60)]), 1);
        b.set_rx_queue_running(Q0, true).unwrap();
        assert_eq!(receive(&mut rx, 1, 32), [frame(1, 60)], "kept while only the queue was stopped");
        assert_eq!(send(&mut tx, &pool, &[frame(2, 60)]), 1);
        drop(rx);
        b.stop().unwrap();
        assert_eq!(send(&mut tx, &pool, &[frame(3, 60)]), 1);
        b.start().unwrap();
        let mut rx = b.take_rx(Q0).unwrap();
        assert_eq!(rx.rx_burst(&mut burst, 32), 0, "nothing from before the port's start");
        assert_eq!(send(&mut tx, &pool, &[frame(4, 60)]), 1);
        assert_eq!(receive(&mut rx, 1, 32), [frame(4, 60)]);
    });
}

#[test]
fn nothing_is_left_after_a_hundred_ports() {
    in_namespace("hundred", |_| {
        let (a_if, _) = pair("a", "b");
        let pool = pool(512);
        let mut before = None;
        for i in 0..100 {
            let mut a = started("packet:a,framecnt=16", &pool, 1 + i % 2).unwrap();
            a.set_promiscuous(true, false).unwrap();
            let mut tx = a.take_tx(Q0).unwrap();
            send(&mut tx, &pool, &[frame(1, 60)]);
            drop(tx);
            drop(a);
            // Other tests of this process open and close as well: the least of several looks counts.
            if i == 2 {
                before = Some(least_holdings());
            }
        }
        let (fds, maps) = least_holdings();
        let (fds_before, maps_before) = before.unwrap();
        assert!(fds < fds_before + 50 && maps < maps_before + 50, "{fds_before} {fds} {maps_before} {maps}");
        assert_eq!(a_if.info().unwrap().promiscuity, 0);
        assert_eq!(pool.counts().held, 0);
    });
}

fn least_holdings() -> (usize, usize) {
    (0..20)
        .map(|_| {
            thread::sleep(Duration::from_millis(1));
            holdings()
        })
        .min()
        .unwrap()
}

#[test]
fn what_cannot_be_is_said_with_what_mends_it() {
    in_namespace("errors", |ns| {
        pair("a", "b");
        for (spec, what, hint) in [
            ("packet:nope", "no network interface \"nope\"", "there are: "),
            ("packet:", "nothing follows", "write driver:device"),
            ("packet", "needs a device", "packet:INTERFACE"),
            ("packet:a-name-of-sixteen", "longer than 15 bytes", "1 to 15"),
            ("packet:a,blocksize=4096", "no key \"blocksize\"", "did you mean `blocksz`?"),
            ("packet:a,framesz=1", "wanted a number", "framesz"),
        ] {
            let e = opened(spec).map(drop).expect_err(spec);
            assert!(e.to_string().contains(what), "{spec}: {e}");
            assert!(e.hint().contains(hint), "{spec}: {}", e.hint());
        }
        // A queue that is set up by a thread in another namespace would be bound to another interface.
        let mut a = opened("packet:a").unwrap();
        a.configure(PortConfig::default()).unwrap();
        let pool = pool(64);
        let other = Namespace::new("errors").expect("as before");
        let e = other.run(move || a.rx_queue_setup(Q0, RxQueueConfig::new(&pool)).unwrap_err().to_string());
        assert!(e.contains("another network namespace"), "{e}");
        // Without rights.
        let e = ns.run(|| {
            drop_rights();
            opened("packet:a").map(drop).unwrap_err()
        });
        assert!(e.to_string().contains("AF_PACKET"), "{e}");
        assert!(e.hint().contains("cap_net_raw"), "{}", e.hint());
    });
}

/// Takes all capabilities from the calling thread.
fn drop_rights() {
    let (header, none) = ([0x2008_0522u32, 0], [0u32; 6]);
    // SAFETY: version 3 of the call: a header of two words and six words of sets, both ours.
    let n = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(n, 0, "{}", std::io::Error::last_os_error());
}
