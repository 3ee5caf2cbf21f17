//! Ring ports alone, in pairs and with a tester. What every driver does is in the conformance suite.

use super::{FarReceiver, FarSender, RingPortError, far_end};
use linerate_mbuf::{Burst, Mempool, OlFlags, SharedMbuf};
use linerate_mem::Clock;
use linerate_port::{
    Capabilities, Frame, Port, PortConfig, PortError, PortId, PortSpec, QueueId, RxQueue, RxQueueConfig,
    TxQueue, TxQueueConfig, Verdict,
};

const Q0: QueueId = QueueId(0);

fn pool(n: u64) -> Mempool {
    Mempool::builder("ring-tests", n).cache(0).build().unwrap()
}

fn open(spec: &str) -> Result<Port, PortError> {
    let spec: PortSpec = spec.parse().unwrap();
    crate::open(&spec, PortId(3), Clock::real())
}

fn set_up(port: &mut Port, pool: &Mempool, rx: u16, tx: u16) -> Result<(), PortError> {
    port.configure(PortConfig { rx_queues: rx, tx_queues: tx, ..Default::default() })?;
    for q in 0..rx {
        port.rx_queue_setup(QueueId(q), RxQueueConfig::new(pool))?;
    }
    for q in 0..tx {
        port.tx_queue_setup(QueueId(q), TxQueueConfig::default())?;
    }
    port.start()
}

fn started(spec: &str, pool: &Mempool) -> Port {
    let mut port = open(spec).unwrap();
    set_up(&mut port, pool, 1, 1).unwrap();
    port
}

fn ends(port: &mut Port) -> (RxQueue, TxQueue) {
    (port.take_rx(Q0).unwrap(), port.take_tx(Q0).unwrap())
}

/// `n` packets, the first byte of each counting up from `first`.
fn packets(pool: &Mempool, first: u8, n: u8) -> Burst {
    let mut burst = Burst::new();
    for i in 0..n {
        let mut m = pool.alloc().unwrap();
        m.append(60).unwrap().fill(first.wrapping_add(i));
        m.set_port(77);
        burst.push(m).unwrap();
    }
    burst
}

fn firsts(burst: &Burst) -> Vec<u8> {
    burst.as_slice().iter().map(|m| m.data()[0]).collect()
}

fn error_of(result: Result<Port, PortError>) -> (String, String) {
    let e = result.map(|_| ()).unwrap_err();
    (e.to_string(), e.hint())
}

#[test]
fn what_is_sent_comes_back_as_it_was_and_the_rest_stays() {
    let pool = pool(64);
    let mut port = started("ring:loop,size=8", &pool);
    assert!(port.info().capabilities.contains(Capabilities::LOOPBACK));
    let (mut rx, mut tx) = ends(&mut port);
    let mut burst = packets(&pool, 0, 12);
    burst.as_mut_slice()[0].set_ol_flags(OlFlags::TX_IPV4);
    assert_eq!(tx.tx_burst(&mut burst), 8);
    assert_eq!(firsts(&burst), [8, 9, 10, 11]);
    assert_eq!(tx.tx_burst(&mut burst), 0);
    assert_eq!((burst.len(), rx.pending()), (4, Some(8)));
    let mut got = Burst::new();
    assert_eq!(rx.rx_burst(&mut got, 3), 3);
    assert_eq!(rx.rx_burst(&mut got, 512), 5);
    assert_eq!(firsts(&got), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((got.as_slice()[0].port(), got.as_slice()[0].ol_flags()), (77, OlFlags::TX_IPV4));
    assert_eq!(tx.tx_burst(&mut burst), 4);
    let s = port.stats();
    assert_eq!((s.rx_packets, s.tx_packets, s.rx_bytes, s.tx_bytes), (8, 12, None, None));
    drop((rx, tx, got));
    port.stop().unwrap();
    assert_eq!(pool.counts().held, 0);
    pool.audit().unwrap();
}

#[test]
fn bytes_are_counted_when_asked_for() {
    let pool = pool(64);
    let mut port = started("ring:bytes,bytes=1,size=4", &pool);
    let (mut rx, mut tx) = ends(&mut port);
    let mut burst = packets(&pool, 0, 6);
    assert_eq!(tx.tx_burst(&mut burst), 4);
    let mut got = Burst::new();
    assert_eq!(rx.rx_burst(&mut got, 3), 3);
    let s = port.stats();
    assert_eq!((s.rx_packets, s.rx_bytes, s.tx_packets, s.tx_bytes), (3, Some(180), 4, Some(240)));
}

#[test]
fn two_ports_are_connected_queue_by_queue() {
    let pool = pool(256);
    let (mut a, mut b) = (open("ring:xa,peer=xb,size=16").unwrap(), open("ring:xb,peer=xa").unwrap());
    set_up(&mut a, &pool, 2, 2).unwrap();
    assert!(!a.link().oper_up, "nobody at the other end yet");
    set_up(&mut b, &pool, 2, 2).unwrap();
    assert!(a.link().oper_up && b.link().oper_up);
    for (q, base) in [(QueueId(0), 10), (QueueId(1), 50)] {
        let (mut to_b, mut to_a) = (a.take_tx(q).unwrap(), b.take_tx(q).unwrap());
        assert_eq!(to_b.tx_burst(&mut packets(&pool, base, 3)), 3);
        assert_eq!(to_a.tx_burst(&mut packets(&pool, base + 20, 2)), 2);
    }
    for (q, base) in [(QueueId(1), 50), (QueueId(0), 10)] {
        let (mut from_b, mut from_a) = (a.take_rx(q).unwrap(), b.take_rx(q).unwrap());
        let (mut at_a, mut at_b) = (Burst::new(), Burst::new());
        assert_eq!((from_b.rx_burst(&mut at_a, 32), from_a.rx_burst(&mut at_b, 32)), (2, 3));
        assert_eq!(
            (firsts(&at_a), firsts(&at_b)),
            (vec![base + 20, base + 21], vec![base, base + 1, base + 2])
        );
    }
    // What is sent to a port that does not receive any more is freed when the sender stops as well.
    b.stop().unwrap();
    assert!(!a.link().oper_up);
    assert_eq!(a.take_tx(Q0).unwrap().tx_burst(&mut packets(&pool, 0, 9)), 9);
    assert_eq!(pool.counts().held, 9);
    a.stop().unwrap();
    assert_eq!(pool.counts().held, 0);
    // One end may be opened anew while the other stays.
    b.close().unwrap();
    let mut b = open("ring:xb,peer=xa,size=16").unwrap();
    a.start().unwrap();
    set_up(&mut b, &pool, 2, 2).unwrap();
    assert_eq!(b.take_tx(Q0).unwrap().tx_burst(&mut packets(&pool, 7, 1)), 1);
    let mut got = Burst::new();
    assert_eq!(a.take_rx(Q0).unwrap().rx_burst(&mut got, 32), 1);
}

#[test]
fn a_wrong_connection_is_refused_by_name() {
    let pool = pool(64);
    let mut a = open("ring:wa,peer=wb").unwrap();
    let e = set_up(&mut a, &pool, 1, 1).unwrap_err();
    assert_eq!(e.to_string(), "port 3: ring:wa is connected to ring:wb, and there is no such port");
    assert_eq!(e.hint(), "add --port ring:wb,peer=wa");
    for (spec, what, hint) in [
        ("ring:wa", "port ring:wa is open already", "give it another name"),
        ("ring:wb", "ring:wa is connected to ring:wb, which must name it", "write ring:wb,peer=wa"),
        ("ring:wb,peer=wc", "ring:wa is connected to ring:wb, which must name it", "write ring:wb,peer=wa"),
        ("ring:wc,peer=wa", "ring:wa is connected to ring:wb", "write ring:wa,peer=wc there"),
        ("ring:wd,peer=wd", "no peer of itself", "write ring:wd: that loops back"),
        ("ring:wd,peer=we,far=1", "not both", "leave far= or peer= out"),
        ("ring:wb,peer=wa,size=7", "ring:wa has size=1024", "write size=1024"),
        ("ring:wd,size=0", "wanted a number from 1", "write size=1024"),
        ("ring:wd,size=1048577", "wanted a number from 1", "write size=1024"),
        ("ring:wd,peer=", "names no port", "write peer=NAME"),
        ("ring", "needs a device", "write ring:NAME"),
    ] {
        let e = error_of(open(spec));
        assert!(e.0.contains(what), "{spec}: {}", e.0);
        assert_eq!(e.1, hint, "{spec}");
    }
    // A refused port leaves nothing behind.
    let mut b = open("ring:wb,peer=wa").unwrap();
    set_up(&mut b, &pool, 1, 1).unwrap();
    a.start().unwrap();
    a.stop().unwrap();
    let e = set_up(&mut a, &pool, 2, 2).unwrap_err();
    assert_eq!(e.to_string(), "port 3: ring:wa sends on 2 queues, ring:wb receives on 1");
    assert_eq!(e.hint(), "configure ring:wb with 2 receive queues");
    let mut alone = open("ring:wl").unwrap();
    let e = set_up(&mut alone, &pool, 1, 2).unwrap_err();
    assert_eq!(e.to_string(), "port 3: ring:wl sends on 2 queues, ring:wl receives on 1");
    assert_eq!(far_end("wl", 0).unwrap_err().hint(), "open it as ring:wl,far=1");
    assert_eq!(far_end("no-such", 0).unwrap_err(), RingPortError::NotOpen { name: "no-such".into() });
}

#[test]
fn a_tester_holds_the_far_end_on_another_thread() {
    const N: u64 = 100_000;
    let pool = Mempool::builder("far", 2048).build().unwrap();
    let mut port = started("ring:far,far=1,size=256", &pool);
    assert!(!port.info().capabilities.contains(Capabilities::LOOPBACK));
    let (to_port, from_port) = far_end("far", 0).unwrap();
    let taken = far_end("far", 0).unwrap_err();
    assert_eq!(taken.to_string(), "the sending end of queue 0 of ring:far is in use elsewhere");
    assert!(matches!(far_end("far", 64), Err(RingPortError::NoQueue { count: 64, .. })));
    let tester = std::thread::spawn({
        let pool = pool.clone();
        move || exchange(to_port, from_port, &pool, N)
    });
    let (mut rx, mut tx) = ends(&mut port);
    let mut burst = Burst::new();
    while !tester.is_finished() {
        rx.rx_burst(&mut burst, 32);
        if tx.tx_burst(&mut burst) == 0 {
            std::thread::yield_now();
        }
    }
    assert_eq!(tester.join().unwrap(), N);
    drop((rx, tx, burst));
    assert_eq!((port.stats().rx_packets, port.stats().tx_packets), (N, N));
    port.close().unwrap_err();
    port.stop().unwrap();
    assert_eq!(pool.counts().held, 0);
    drop(far_end("far", 0).unwrap());
    port.close().unwrap();
    assert!(far_end("far", 0).is_err());
}

/// Sends `n` numbered packets and takes them back in order.
fn exchange(mut to_port: FarSender, mut from_port: FarReceiver, pool: &Mempool, n: u64) -> u64 {
    let (mut sent, mut back) = (0u64, 0u64);
    let (mut out, mut got) = (Burst::new(), Burst::new());
    while back < n {
        while out.len() < 32 && sent < n {
            let Some(mut m) = pool.alloc() else { break };
            m.append(8).unwrap().copy_from_slice(&sent.to_le_bytes());
            out.push(m).unwrap();
            sent += 1;
        }
        to_port.send(&mut out);
        if from_port.receive(&mut got, 64) == 0 {
            std::thread::yield_now();
        }
        for m in got.drain() {
            assert_eq!(m.data(), back.to_le_bytes());
            back += 1;
        }
    }
    assert_eq!((to_port.waiting(), from_port.waiting(), to_port.free()), (0, 0, 256));
    back
}

#[test]
fn a_shared_packet_is_passed_on_or_copied() {
    let (pool, small) = (pool(64), Mempool::builder("small", 2).cache(0).build().unwrap());
    let mut port = open("ring:shared,size=16").unwrap();
    set_up(&mut port, &small, 1, 1).unwrap();
    let (mut rx, mut tx) = ends(&mut port);
    let mut shared: Burst<SharedMbuf> = Burst::new();
    let mut kept = Vec::new();
    for m in packets(&pool, 0, 5).drain() {
        let m = m.share();
        if m.data()[0] > 0 {
            kept.push(m.clone());
        }
        shared.push(m).unwrap();
    }
    // One is ours alone; of the others two can be copied; two stay.
    assert_eq!(tx.tx_burst_shared(&mut shared), 3);
    assert_eq!(shared.as_slice().iter().map(|m| m.data()[0]).collect::<Vec<_>>(), [3, 4]);
    let mut got = Burst::new();
    assert_eq!(rx.rx_burst(&mut got, 32), 3);
    assert_eq!(firsts(&got), [0, 1, 2]);
    assert_eq!(
        got.as_slice().iter().map(|m| m.pool_name()).collect::<Vec<_>>(),
        ["ring-tests", "small", "small"]
    );
    assert_eq!(got.as_slice()[1].port(), 77);
    got.as_mut_slice()[1].data_mut()[0] = 99;
    assert_eq!(kept[0].data()[0], 1, "a copy is one's own");
    got.free_all();
    drop(kept);
    assert_eq!(tx.tx_burst_shared(&mut shared), 2);
    let failures = port.xstats().into_iter().find(|x| x.name == "tx_q0_copy_failures").unwrap();
    assert_eq!((failures.value, port.stats().tx_packets), (1, 5));
    assert_eq!((rx.rx_burst(&mut got, 32), tx.tx_burst_shared(&mut shared)), (2, 0));
    drop(got);
    assert_eq!((pool.counts().held, small.counts().held), (0, 0));
}

#[test]
fn a_program_drops_passes_and_changes() {
    let pool = pool(64);
    let mut port = started("ring:prog,bytes=1", &pool);
    let (mut rx, mut tx) = ends(&mut port);
    rx.set_program(Some(Box::new(|f: &mut Frame<'_>| {
        let first = f.data()[0];
        match first {
            0 => Verdict::Drop,
            1 => Verdict::Tx,
            2 => Verdict::Pass,
            3 => {
                assert!(f.adjust_head(-20));
                f.data_mut().fill(0x33);
                Verdict::Pass
            }
            _ => {
                assert!(f.adjust_head(8) && f.adjust_tail(-2));
                Verdict::Pass
            }
        }
    })))
    .unwrap();
    let mut burst = packets(&pool, 0, 5);
    // Two segments, and full buffers: what grows does not fit any more.
    let mut tail = pool.alloc().unwrap();
    tail.append(40).unwrap().fill(5);
    burst.as_mut_slice()[4].chain(tail).unwrap();
    let m = &mut burst.as_mut_slice()[3];
    m.append(2048 - 60).unwrap().fill(3);
    m.prepend(128).unwrap().fill(3);
    assert_eq!(tx.tx_burst(&mut burst), 5);
    let mut got = packets(&pool, 100, 1);
    assert_eq!(rx.rx_burst(&mut got, 32), 3);
    assert_eq!(firsts(&got), [100, 2, 0x33, 4]);
    let lengths: Vec<_> = got.as_slice().iter().map(|m| m.len()).collect();
    assert_eq!(lengths, [60, 60, 2048 + 128 + 20, 90]);
    let last: Vec<u8> = got.as_slice()[3].segments().flatten().copied().collect();
    assert_eq!(last, [[4u8; 52].as_slice(), &[5; 38]].concat());
    assert_eq!(port.stats().rx_packets, 3);
    assert_eq!(port.stats().rx_bytes, Some(60 + 2196 + 90));
    rx.set_program(None).unwrap();
    got.free_all();
    assert_eq!(tx.tx_burst(&mut packets(&pool, 0, 2)), 2);
    assert_eq!(rx.rx_burst(&mut got, 32), 2);
    let x = port.xstats();
    let of = |n: &str| x.iter().find(|x| x.name == n).unwrap().value;
    assert_eq!(["drop", "pass", "aborted"].map(|n| of(&format!("rx_program_{n}"))), [1, 3, 1]);
    drop(got);
    assert_eq!(pool.counts().held, 0);
}
