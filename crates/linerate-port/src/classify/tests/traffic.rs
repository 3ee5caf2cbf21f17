//! Inboxes, threads, changes under traffic, stops and starts.

use super::bench::*;
use crate::{FlowRule, QueueId, RssConfig, RssTypes};
use linerate_mbuf::{Burst, Mbuf};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
};

fn numbered(flow: u16, number: u64) -> Vec<u8> {
    let mut f = v4_udp([10, 0, 0, 1], [10, 0, 0, 2], (flow, 9));
    f[42..50].copy_from_slice(&number.to_be_bytes());
    f
}

fn number(m: &Mbuf) -> (u16, u64) {
    let d = m.data();
    (u16::from_be_bytes([d[34], d[35]]), u64::from_be_bytes(d[42..50].try_into().unwrap()))
}

#[test]
fn a_full_inbox_is_missed_by_its_queue() {
    let mut b = Bench::plain(3);
    b.rule("pattern end actions queue index 2 / end");
    let frames: Vec<_> = (0..100).map(|n| numbered(1, n)).collect();
    b.offer(0, &frames);
    b.offer(1, &frames);
    // Nobody polls queue 2: its inbox, as long as its descriptor ring, takes 64.
    for _ in 0..10 {
        assert!(b.poll(0, 32).is_empty());
    }
    assert_eq!(b.rx[2].pending(), Some(64));
    for _ in 0..10 {
        assert!(b.poll(1, 7).is_empty());
    }
    assert_eq!(b.port.stats().rx_missed, 36 + 70);
    assert_eq!(["rx_q0_missed", "rx_q1_missed", "rx_q2_missed"].map(|n| b.xstat(n)), [0, 0, 106]);
    assert_eq!(b.port.stats().rx_packets, 0, "nothing was delivered yet");
    let got: Vec<_> = [10, 32, 32].into_iter().flat_map(|n| b.poll(2, n)).collect();
    assert_eq!(got.iter().map(|m| number(m).1).collect::<Vec<_>>(), (0..64).collect::<Vec<_>>());
    drop(got);
    assert_eq!(b.receive().iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 30]);
    let s = b.port.stats();
    assert_eq!((s.rx_packets, s.rx_missed), (94, 106));
    b.end();
}

#[test]
fn neither_inbox_nor_device_starves() {
    let mut b = Bench::plain(2);
    b.rule("pattern ipv4 / udp src is 1 / end actions queue index 1 / end");
    let (mut own, mut other) = (0, 0);
    for n in 0..50 {
        b.offer(0, &vec![numbered(1, n); 32]);
        b.offer(1, &vec![numbered(2, n); 32]);
        assert!(b.poll(0, 32).is_empty());
        for m in b.poll(1, 32) {
            if number(&m).0 == 1 { other += 1 } else { own += 1 }
        }
    }
    assert!(own >= 32 * 24 && other >= 32 * 24, "{own} of its device, {other} of its inbox");
    b.end();
}

#[test]
fn limits_of_a_poll_hold() {
    let mut b = Bench::new(Device::default(), 2, Some(RssConfig::spread(2, 64, RssTypes::all())));
    let frames: Vec<_> = (0..300).map(|n| numbered(n as u16, n)).collect();
    b.offer(0, &frames);
    let mut seen = 0;
    while b.rx[0].pending() != Some(0) || b.rx[1].pending() != Some(0) {
        for max in [0, 1, 3, 17] {
            for q in [0, 1] {
                let got = b.poll(q, max);
                assert!(got.len() <= max);
                seen += got.len();
            }
        }
    }
    assert_eq!(seen, 300);
    // Behind what is in the burst already, and not more than fits.
    b.offer(0, &frames);
    let mut burst = Burst::new();
    while burst.room() > 5 {
        burst.push(b.pool.alloc().unwrap()).unwrap();
    }
    let n = b.rx[0].rx_burst(&mut burst, 32);
    assert!(n <= 5 && burst.as_slice()[..507].iter().all(|m| m.is_empty()));
    drop(burst);
    b.end();
}

#[test]
fn frames_in_inboxes_do_not_outlive_a_stop() {
    let mut b = Bench::plain(3);
    b.rule("pattern end actions queue index 1 / end");
    let frames: Vec<_> = (0..40).map(|n| numbered(1, n)).collect();
    for round in 0..5 {
        b.offer(0, &frames);
        while b.rx[0].pending() != Some(0) {
            b.poll(0, 32);
        }
        assert_eq!((b.rx[1].pending(), b.pool.counts().held), (Some(40), 40));
        match round % 3 {
            0 => b.stop(),
            1 => {
                // One queue alone, out and home.
                b.port.set_rx_queue_running(QueueId(1), false).unwrap();
                assert!(b.poll(1, 32).is_empty());
                assert_eq!((b.rx[1].pending(), b.pool.counts().held), (Some(0), 0));
                b.port.set_rx_queue_running(QueueId(1), true).unwrap();
                assert!(b.poll(1, 32).is_empty());
                b.stop();
            }
            _ => {
                b.rx.clear();
                assert_eq!(b.port.rx_pending(QueueId(1)), Some(40));
                b.port.stop().unwrap();
            }
        }
        assert_eq!(b.pool.audit().unwrap().counts.held, 0);
        b.start();
        assert!(b.receive().iter().all(Vec::is_empty));
    }
    // Set up anew, closed, and dropped under its owners, with frames in inboxes.
    b.offer(0, &frames);
    b.poll(0, 32);
    let Bench { rx, port, pool, .. } = b;
    drop(port);
    drop(rx);
    assert_eq!(pool.audit().unwrap().counts.held, 0);
}

#[test]
fn a_finite_input_ends_when_all_of_it_is_delivered() {
    let rss = RssConfig::spread(4, 64, RssTypes::all());
    for queues in [1, 4] {
        let mut b = Bench::new(Device { queues, ..Default::default() }, 4, Some(rss.clone()));
        for q in 0..usize::from(queues) {
            b.offer(q, &(0..50).map(|n| numbered(n as u16, n)).collect::<Vec<_>>());
        }
        let mut left: Vec<usize> = (0..4).collect();
        let mut seen = 0;
        while !left.is_empty() {
            left.retain(|q| {
                let n = b.poll(*q, 5).len();
                seen += n;
                // As an application asks: after a poll that found nothing.
                n != 0 || !b.rx[*q].is_exhausted()
            });
        }
        assert_eq!(seen, 50 * usize::from(queues));
        b.end();
    }
}

/// Four owners on threads of their own, the table and the rules changing all the while: every frame comes out once,
/// in the order of its flow on every queue, and the books are right.
#[test]
fn changes_under_traffic() {
    const FRAMES: u64 = 12_000;
    let mut b = Bench::new(Device::default(), 4, Some(RssConfig::spread(4, 128, RssTypes::all())));
    let end = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = std::mem::take(&mut b.rx)
        .into_iter()
        .map(|mut rx| {
            let (end, seen) = (end.clone(), seen.clone());
            thread::spawn(move || {
                let (mut burst, mut n, mut marked) = (Burst::new(), 0u64, 0u64);
                let mut last = std::collections::HashMap::new();
                while !end.load(Relaxed) || rx.rx_burst(&mut burst, 32) != 0 {
                    rx.rx_burst(&mut burst, 32);
                    for m in burst.drain() {
                        let (flow, number) = number(&m);
                        // A flow comes in on one device queue, and is in order on each queue that it is sent to.
                        let before = last.insert(flow, number);
                        assert!(before.is_none_or(|b| b < number), "flow {flow}: {number} after {before:?}");
                        assert!(m.mark().is_none_or(|k| k == 5) && m.packet_type().0 == 0x211);
                        marked += u64::from(m.mark().is_some());
                        n += 1;
                        seen.fetch_add(1, Relaxed);
                    }
                    thread::yield_now();
                }
                (rx, n, marked)
            })
        })
        .collect();
    let rule = |i: u64| -> FlowRule {
        let what =
            if i.is_multiple_of(3) { "drop".into() } else { format!("queue index {} / mark id 5", i % 4) };
        format!("pattern ipv4 / udp src spec {} src mask 3 / end actions {what} / count / end", i % 4)
            .parse()
            .unwrap()
    };
    let mut before = b.port.stats();
    let mut hits = Vec::new();
    let mut standing = Vec::new();
    for i in 0..FRAMES / 40 {
        for q in 0..4u64 {
            let frames: Vec<_> = (0..10).map(|k| numbered((q * 16 + k % 5) as u16, i * 10 + k)).collect();
            b.offer(q as usize, &frames);
        }
        if i % 3 == 0 {
            standing.push(b.port.create_flow(rule(i / 3)).unwrap());
        } else if i % 3 == 1 && standing.len() > 2 {
            let id = standing.remove(0);
            hits.push(b.port.flow_hits(id).unwrap().packets);
            b.port.destroy_flow(id).unwrap();
        } else {
            b.port.set_rss(RssConfig::spread(1 + i as u16 % 4, 64, RssTypes::all())).unwrap();
        }
        let now = b.port.stats();
        assert!(now.rx_packets >= before.rx_packets && now.rx_bytes >= before.rx_bytes, "{before:?} {now:?}");
        before = now;
        thread::yield_now();
    }
    for _ in 0..20_000 {
        if b.wire.frames.lock().unwrap().iter().all(|q| q.is_empty()) {
            break;
        }
        thread::sleep(std::time::Duration::from_micros(200));
    }
    // One that has seen the end polls on until it finds nothing, and others may still hand over to it then.
    thread::sleep(std::time::Duration::from_millis(20));
    end.store(true, Relaxed);
    let (mut n, mut marked) = (0, 0);
    for w in workers {
        let (rx, received, with_mark) = w.join().unwrap();
        b.rx.push(rx);
        n += received;
        marked += with_mark;
    }
    let left: usize = b.receive().iter().map(Vec::len).sum();
    n += left as u64;
    let (s, dropped) = (b.port.stats(), b.xstat("rx_flow_drop_packets"));
    assert_eq!(s.rx_packets, n);
    assert_eq!(n + dropped + s.rx_missed, FRAMES);
    assert!(marked > 0 && dropped > 0);
    b.end();
}

#[test]
fn without_anything_to_do_there_is_no_stage() {
    let mut b = Bench::plain(2);
    assert!(!b.rx[0].is_staged());
    b.offer(0, [&numbered(1, 1)]);
    assert_eq!(b.poll(0, 1)[0].packet_type().0, 0);
    let id = b.rule("pattern end actions queue index 1 / end");
    assert!(b.rx[0].is_staged() && b.rx[1].is_staged());
    b.offer(0, [&numbered(1, 1)]);
    assert!(b.poll(0, 1).is_empty());
    // The rule goes; what is in the inbox does not.
    b.port.destroy_flow(id).unwrap();
    assert_eq!(b.poll(1, 1)[0].packet_type().0, 0x211);
    b.offer(0, [&numbered(1, 1)]);
    assert_eq!(b.poll(0, 1)[0].packet_type().0, 0);
    assert!(b.rx[0].is_staged());
    b.stop();
    b.start();
    assert!(!b.rx[0].is_staged());
    b.end();
}
