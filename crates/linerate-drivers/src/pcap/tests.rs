//! The port over real files: what comes in, what goes out, and what is refused.

use super::ENTRY;
use super::format::{CaptureFormat, CaptureReader, CaptureWriter, PcapError, WriterOptions};
use linerate_mbuf::{Burst, Mempool, SharedMbuf};
use linerate_mem::{Clock, VirtualClock};
use linerate_port::{
    Frame, Port, PortConfig, PortError, PortEvent, PortId, PortSpec, QueueId, RxOffloads, RxQueue,
    RxQueueConfig, TxOffloads, TxQueue, TxQueueConfig, Verdict,
};
use std::{fs, path::Path, sync::Arc};

const Q0: QueueId = QueueId(0);

pub(super) fn open_with(text: &str, clock: Clock) -> Result<Port, PortError> {
    let spec: PortSpec = text.parse()?;
    let entry = spec.resolve(&[ENTRY]).copied()?;
    Port::open(PortId(3), clock, |context| (entry.open)(&spec, context))
}

pub(super) fn open(text: &str) -> Port {
    open_with(text, Clock::real()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(super) fn pool(buffers: u64) -> Mempool {
    Mempool::builder("capture", buffers).cache(0).build().unwrap()
}

/// A port with one queue each way, started, and its queues.
pub(super) fn start(text: &str, pool: &Mempool, offloads: RxOffloads) -> (Port, RxQueue, TxQueue) {
    start_port(open(text), pool, offloads)
}

pub(super) fn start_port(
    mut port: Port,
    pool: &Mempool,
    rx_offloads: RxOffloads,
) -> (Port, RxQueue, TxQueue) {
    port.configure(PortConfig { rx_offloads, tx_offloads: TxOffloads::MULTI_SEGS, ..PortConfig::default() })
        .unwrap();
    port.rx_queue_setup(Q0, RxQueueConfig::new(pool)).unwrap();
    port.tx_queue_setup(Q0, TxQueueConfig::default()).unwrap();
    port.start().unwrap();
    let (rx, tx) = (port.take_rx(Q0).unwrap(), port.take_tx(Q0).unwrap());
    (port, rx, tx)
}

/// Packet number `n` of the files of these tests.
pub(super) fn frame(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n * 7 + i) as u8).collect()
}

/// A file of packets of these lengths; each was longer by 5 on the wire and came at second `n`.
pub(super) fn capture(dir: &Path, name: &str, lengths: &[usize]) -> String {
    let path = dir.join(name);
    let mut writer = CaptureWriter::create(&path, &WriterOptions::default()).unwrap();
    for (n, &len) in lengths.iter().enumerate() {
        writer.write_record(n as u64 * 1_000_000_000, len as u32 + 5, [&frame(n, len)[..]]).unwrap();
    }
    writer.finish().unwrap();
    path.into_os_string().into_string().unwrap()
}

/// All packets and times of a file.
pub(super) fn packets_of(path: impl AsRef<Path>) -> Vec<(Vec<u8>, u32, u64)> {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut all = Vec::new();
    while let Some(r) = reader.next_record().unwrap() {
        all.push((r.data.to_vec(), r.wire_len, r.timestamp_ns.unwrap()));
    }
    all
}

/// Receives until nothing comes, in bursts of all sizes; the bytes of each packet.
pub(super) fn receive_all(rx: &mut RxQueue) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for max in [0, 1, 32, 31, 512, 7].into_iter().cycle() {
        let mut burst = Burst::new();
        let got = rx.rx_burst(&mut burst, max);
        assert_eq!(got, burst.len());
        assert!(got <= max);
        all.extend(burst.drain().map(|m| m.segments().collect::<Vec<_>>().concat()));
        if max > 0 && got == 0 {
            return all;
        }
    }
    all
}

pub(super) fn error(text: &str) -> PortError {
    open_with(text, Clock::real()).err().unwrap_or_else(|| panic!("{text} was opened"))
}

#[test]
fn a_file_is_received_once_and_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let lengths: Vec<usize> = (0..1500).map(|n| 1 + n % 1400).collect();
    let (pool, wanted) = (pool(2048), (0..1500).map(|n| frame(n, lengths[n])).collect::<Vec<_>>());
    for name in ["a.pcap", "a.pcapng"] {
        let path = capture(dir.path(), name, &lengths);
        let (mut port, mut rx, tx) = start(&format!("pcap:rx_pcap={path}"), &pool, RxOffloads::empty());
        drop(tx);
        for round in 1..=3u64 {
            assert!(!rx.is_exhausted());
            assert_eq!(receive_all(&mut rx), wanted);
            assert!(rx.is_exhausted());
            let stats = port.stats();
            assert_eq!(stats.rx_packets, round * 1500);
            assert_eq!(stats.rx_bytes, Some(round * lengths.iter().sum::<usize>() as u64));
            assert_eq!((stats.rx_errors, stats.rx_nombuf), (0, 0));
            drop(rx);
            port.stop().unwrap();
            port.start().unwrap();
            rx = port.take_rx(Q0).unwrap();
        }
    }
    assert_eq!(pool.counts().held, 0);
}

/// Bug case 16: 60 captured bytes of 1514 are 60, also in the counter.
#[test]
fn captured_bytes_are_received_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.pcap");
    let mut writer = CaptureWriter::create(&path, &WriterOptions::default()).unwrap();
    writer.write_record(0, 1514, [&frame(0, 60)[..]]).unwrap();
    writer.finish().unwrap();
    let pool = pool(64);
    for more in ["", ",infinite_rx=1"] {
        let text = format!("pcap:rx_pcap={}{more}", path.display());
        let (port, mut rx, mut tx) = start(&text, &pool, RxOffloads::empty());
        let mut burst = Burst::new();
        assert_eq!(rx.rx_burst(&mut burst, 1), 1);
        assert_eq!(burst.as_slice()[0].data(), frame(0, 60));
        assert_eq!(burst.as_slice()[0].port(), 3);
        assert_eq!(port.stats().rx_bytes, Some(60));

        // A packet of two segments through the queue that drops: the whole packet counts.
        let mut second = pool.alloc().unwrap();
        second.append(40).unwrap().fill(1);
        burst.as_mut_slice()[0].chain(second).unwrap();
        assert_eq!(tx.tx_burst(&mut burst), 1);
        assert_eq!((port.stats().tx_packets, port.stats().tx_bytes), (1, Some(100)));
    }
    assert_eq!(pool.counts().held, 0);

    // Buffers of less than a frame, when nothing may be scattered.
    let small = Mempool::builder("small", 64).cache(0).headroom(128).data_room(100).build().unwrap();
    let mut port = open(&format!("pcap:rx_pcap={}", path.display()));
    port.configure(PortConfig::default()).unwrap();
    let e = port.rx_queue_setup(Q0, RxQueueConfig::new(&small)).unwrap_err();
    assert!(matches!(e, PortError::FrameTooLong { room: 100, .. }), "{e}");
}

#[test]
fn a_replay_goes_round_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool(1024);
    let cases: [&[usize]; 5] = [&[64; 3], &[60; 70], &[1514; 4], &[60, 1514, 1, 64, 128, 129, 31], &[65]];
    for lengths in cases {
        let path = capture(dir.path(), "replay.pcap", lengths);
        let text = format!("pcap:rx_pcap={path},infinite_rx=1");
        let (port, mut rx, _tx) = start(&text, &pool, RxOffloads::empty());
        let (mut n, mut bytes) = (0, 0);
        for max in [1, 32, 0, 31, 512, 2, 64, 512] {
            let mut burst = Burst::new();
            assert_eq!(rx.rx_burst(&mut burst, max), max);
            for m in burst.drain() {
                let at = n % lengths.len();
                assert_eq!(m.data(), frame(at, lengths[at]), "packet {n} of {lengths:?}");
                bytes += m.data().len() as u64;
                n += 1;
            }
        }
        assert!(!rx.is_exhausted());
        assert_eq!((port.stats().rx_packets, port.stats().rx_bytes), (n as u64, Some(bytes)));
    }
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn long_packets_are_scattered_or_dropped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let lengths = [60, 9000, 0, 2048, 2049, 262_144, 61];
    let path = capture(dir.path(), "jumbo.pcap", &lengths);
    let pool = pool(512);
    let wanted = |longest: usize| -> Vec<_> {
        let keep = |&n: &usize| (1..=longest).contains(&lengths[n]);
        (0..lengths.len()).filter(keep).map(|n| frame(n, lengths[n])).collect()
    };
    for (offloads, longest) in [(RxOffloads::SCATTER, usize::MAX), (RxOffloads::empty(), 2048)] {
        let (port, mut rx, _tx) = start(&format!("pcap:rx_pcap={path}"), &pool, offloads);
        let mut burst = Burst::new();
        rx.rx_burst(&mut burst, 2);
        if longest > 2048 {
            assert_eq!((burst.as_slice()[1].segment_count(), burst.as_slice()[1].len()), (5, 9000));
        }
        let mut all: Vec<_> = burst.drain().map(|m| m.segments().collect::<Vec<_>>().concat()).collect();
        all.extend(receive_all(&mut rx));
        assert_eq!(all, wanted(longest));
        assert_eq!(port.stats().rx_errors, (lengths.len() - all.len()) as u64);
        // Of the errors, those that a larger buffer or scatter would mend.
        let too_long = lengths.iter().filter(|&&len| len > longest).count() as u64;
        let counted =
            |port: &Port| port.xstats().into_iter().find(|x| x.name == "rx_too_long").unwrap().value;
        assert_eq!(counted(&port), too_long);

        let (port, mut rx, _tx) = start(&format!("pcap:rx_pcap={path},infinite_rx=1"), &pool, offloads);
        let errors = port.stats().rx_errors;
        assert_eq!(errors, (lengths.len() - all.len()) as u64);
        assert_eq!(counted(&port), too_long);
        let mut burst = Burst::new();
        assert_eq!(rx.rx_burst(&mut burst, 2 * all.len()), 2 * all.len());
        for (m, wanted) in burst.drain().zip(all.iter().cycle()) {
            assert_eq!(&m.segments().collect::<Vec<_>>().concat(), wanted);
        }
    }
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn an_empty_pool_puts_receives_off_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "a.pcap", &[64; 100]);
    for more in ["", ",infinite_rx=1"] {
        let pool = pool(40);
        let text = format!("pcap:rx_pcap={path}{more}");
        let (port, mut rx, _tx) = start(&text, &pool, RxOffloads::empty());
        let (mut first, mut second) = (Burst::new(), Burst::new());
        assert_eq!(rx.rx_burst(&mut first, 32), 32);
        assert_eq!(rx.rx_burst(&mut second, 32), 8);
        assert_eq!(port.stats().rx_nombuf, 24);
        assert_eq!(rx.rx_burst(&mut second, 32), 0);
        first.free_all();
        assert_eq!(rx.rx_burst(&mut second, 32), 32);
        for (n, m) in second.drain().enumerate() {
            assert_eq!(m.data(), frame(32 + n, 64));
        }
        drop(first);
        assert_eq!(pool.counts().held, 0);
    }
    // A chain that finds no further buffer: a replay shows the packet again.
    let path = capture(dir.path(), "b.pcap", &[60, 9000]);
    let pool = pool(4);
    let (port, mut rx, _tx) =
        start(&format!("pcap:rx_pcap={path},infinite_rx=1"), &pool, RxOffloads::SCATTER);
    let mut burst = Burst::new();
    assert_eq!(rx.rx_burst(&mut burst, 2), 1);
    assert_eq!(rx.rx_burst(&mut burst, 2), 0);
    assert!(port.stats().rx_nombuf >= 2);
    assert_eq!(pool.counts().held, 1);
}

#[test]
fn a_damaged_file_delivers_what_is_whole_and_tells() {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "a.pcap", &[60; 10]);
    let pool = pool(64);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let (mut port, mut rx, tx) = start(&format!("pcap:rx_pcap={path}"), &pool, RxOffloads::empty());
    port.events();
    assert_eq!(receive_all(&mut rx).len(), 9);
    assert!(rx.is_exhausted());
    assert_eq!(port.stats().rx_errors, 1);
    let events = port.events();
    let [PortEvent::QueueError { kind: "rx", queue: Q0, what }] = &events[..] else { panic!("{events:?}") };
    assert!(
        what.contains("a.pcap") && what.contains("after 9 whole packets") && what.contains("editcap"),
        "{what}"
    );
    drop((rx, tx));

    // A replay is loaded whole, so that it is refused whole.
    let mut port = open(&format!("pcap:rx_pcap={path},infinite_rx=1"));
    port.configure(PortConfig::default()).unwrap();
    let e = port.rx_queue_setup(Q0, RxQueueConfig::new(&pool)).unwrap_err();
    assert!(e.to_string().contains("cut short") && e.hint().contains("editcap"), "{e}");

    for lengths in [&[][..], &[0, 0]] {
        let path = capture(dir.path(), "empty.pcap", lengths);
        let mut port = open(&format!("pcap:rx_pcap={path},infinite_rx=1"));
        port.configure(PortConfig::default()).unwrap();
        let e = port.rx_queue_setup(Q0, RxQueueConfig::new(&pool)).unwrap_err();
        assert!(e.to_string().contains("nothing to replay"), "{e}");
    }
}

#[test]
fn a_program_decides_before_a_buffer_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "a.pcap", &[64; 100]);
    for more in ["", ",infinite_rx=1"] {
        let pool = pool(200);
        let (_port, mut rx, _tx) = start(&format!("pcap:rx_pcap={path}{more}"), &pool, RxOffloads::empty());
        let mut seen = 0;
        let program = move |f: &mut Frame<'_>| {
            seen += 1;
            // The original must not have been changed by an earlier round.
            assert_eq!(f.data()[1], f.data()[0].wrapping_add(1));
            if seen % 2 == 0 {
                return Verdict::Drop;
            }
            assert!(f.adjust_head(-4));
            f.data_mut()[..4].fill(0xee);
            f.data_mut()[5] = 0;
            Verdict::Pass
        };
        rx.set_program(Some(Box::new(program))).unwrap();
        for _ in 0..if more.is_empty() { 1 } else { 3 } {
            let mut burst = Burst::new();
            assert_eq!(rx.rx_burst(&mut burst, 100), 50);
            for (n, m) in burst.drain().enumerate() {
                let mut wanted = frame(2 * n, 64);
                wanted[1] = 0;
                assert_eq!(m.data(), [&[0xee; 4][..], &wanted].concat());
            }
        }
        rx.set_program(None).unwrap();
        assert_eq!(receive_few(&mut rx), if more.is_empty() { 0 } else { 5 });
        assert_eq!(pool.counts().held, 0);
    }
}

fn receive_few(rx: &mut RxQueue) -> usize {
    rx.rx_burst(&mut Burst::new(), 5)
}

#[test]
fn capture_times_are_stamped_when_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "a.pcap", &[64; 3]);
    let pool = pool(64);
    for more in ["", ",infinite_rx=1"] {
        for offloads in [RxOffloads::TIMESTAMP, RxOffloads::empty()] {
            let (_port, mut rx, _tx) = start(&format!("pcap:rx_pcap={path}{more}"), &pool, offloads);
            let mut burst = Burst::new();
            assert_eq!(rx.rx_burst(&mut burst, 3), 3);
            for (n, m) in burst.as_slice().iter().enumerate() {
                let wanted = (!offloads.is_empty()).then_some(n as u64 * 1_000_000_000);
                assert_eq!(m.timestamp(), wanted);
            }
        }
    }
}

/// Bug case 17: times by a settable clock of 2.5 GHz; 1500 packets; chains; shared packets.
#[test]
fn what_is_sent_is_in_the_file() {
    const HZ: u64 = 2_500_000_000;
    let dir = tempfile::tempdir().unwrap();
    let pool = pool(4096);
    for (name, more, unit) in [("a.pcap", "", 1), ("b.pcap", ",tx_time=us", 1000), ("c.pcapng", "", 1)] {
        let path = dir.path().join(name);
        let clock = Arc::new(VirtualClock::new(HZ, u64::MAX - 5));
        let text = format!("pcap:tx_pcap={}{more}", path.display());
        let port = open_with(&text, Clock::Virtual(clock.clone())).unwrap();
        let (mut port, rx, mut tx) = start_port(port, &pool, RxOffloads::empty());
        let mut wanted = Vec::new();
        let mut last = 0;
        for (n, cycles) in [(0, 0), (1, HZ / 4), (2, 9 * HZ - HZ / 4), (3, 100)] {
            clock.advance_cycles(cycles);
            last += cycles;
            let mut burst = Burst::new();
            for k in 0..375 {
                let mut m = pool.alloc().unwrap();
                m.append(1000).unwrap().copy_from_slice(&frame(n * 375 + k, 1000));
                if k % 3 == 0 {
                    let mut second = pool.alloc().unwrap();
                    second.append(1000).unwrap().copy_from_slice(&frame(k, 1000));
                    m.chain(second).unwrap();
                }
                wanted.push((m.segments().collect::<Vec<_>>().concat(), last));
                assert!(burst.push(m).is_ok());
            }
            if n % 2 == 0 {
                assert_eq!(tx.tx_burst(&mut burst), 375);
            } else {
                let mut shared = Burst::<SharedMbuf>::new();
                for m in burst.drain() {
                    assert!(shared.push(m.share()).is_ok());
                }
                assert_eq!(tx.tx_burst_shared(&mut shared), 375);
            }
        }
        drop((rx, tx));
        port.stop().unwrap();
        let stats = port.stats();
        assert_eq!((stats.tx_packets, stats.tx_errors), (1500, 0));
        assert_eq!(stats.tx_bytes, Some(wanted.iter().map(|(p, _)| p.len() as u64).sum()));
        let got = packets_of(&path);
        assert_eq!(got.len(), 1500);
        let mut before = 0;
        for ((data, wire, at), (wanted, cycles)) in got.iter().zip(&wanted) {
            assert_eq!(data, wanted);
            assert_eq!(*wire as usize, wanted.len());
            // The clock's zero is at cycle 0, and it began 6 cycles before a wrap of its counter.
            let passed = at - got[0].2;
            assert!(passed.abs_diff(cycles * 2 / 5) <= unit, "{passed} after {cycles} cycles");
            assert!(*at >= before);
            before = *at;
        }
        assert_eq!(pool.counts().held, 0);
    }
}

#[test]
fn a_restart_appends_and_a_port_that_never_starts_empties_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "old.pcap", &[64; 5]);
    let pool = pool(64);
    drop(open(&format!("pcap:tx_pcap={path}")));
    assert_eq!(packets_of(&path).len(), 5);

    let (mut port, rx, mut tx) =
        start(&format!("pcap:tx_pcap={path},tx_snaplen=50"), &pool, RxOffloads::empty());
    drop(rx);
    for round in 1..=3 {
        let mut burst = Burst::new();
        let mut m = pool.alloc().unwrap();
        m.append(60).unwrap().copy_from_slice(&frame(round, 60));
        assert!(burst.push(m).is_ok());
        assert_eq!(tx.tx_burst(&mut burst), 1);
        drop(tx);
        port.stop().unwrap();
        // What was sent before a stop is in the file after it, cut at the snap length.
        let got = packets_of(&path);
        assert_eq!(got.len(), round);
        assert_eq!((&got[round - 1].0[..], got[round - 1].1), (&frame(round, 50)[..], 60));
        port.start().unwrap();
        tx = port.take_tx(Q0).unwrap();
    }
}

#[test]
fn several_files_are_several_queues() {
    let dir = tempfile::tempdir().unwrap();
    let a = capture(dir.path(), "a.pcap", &[64; 3]);
    let b = capture(dir.path(), "b.pcap", &[100; 4]);
    let pool = pool(64);
    let mut port = open(&format!("pcap:rx_pcap={a},rx_pcap={b}"));
    assert_eq!((port.info().limits.max_rx_queues, port.info().limits.max_tx_queues), (2, 64));
    let three = PortConfig { rx_queues: 3, ..PortConfig::default() };
    assert!(matches!(port.configure(three), Err(PortError::Range { max: 2, .. })));
    port.configure(PortConfig { rx_queues: 2, ..PortConfig::default() }).unwrap();
    for q in 0..2 {
        port.rx_queue_setup(QueueId(q), RxQueueConfig::new(&pool)).unwrap();
    }
    port.tx_queue_setup(Q0, TxQueueConfig::default()).unwrap();
    port.start().unwrap();
    for (q, count, len) in [(0, 3, 64), (1, 4, 100)] {
        let mut rx = port.take_rx(QueueId(q)).unwrap();
        assert_eq!(receive_all(&mut rx), (0..count).map(|n| frame(n, len)).collect::<Vec<_>>());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_counted_and_told() {
    let pool = pool(1024);
    let (mut port, rx, mut tx) = start("pcap:tx_pcap=/dev/full", &pool, RxOffloads::empty());
    port.events();
    for _ in 0..20 {
        let mut burst = Burst::new();
        assert!(pool.alloc_bulk(&mut burst, 512));
        for m in burst.as_mut_slice() {
            m.append(1000).unwrap();
        }
        assert_eq!(tx.tx_burst(&mut burst), 512);
    }
    let stats = port.stats();
    assert_eq!(stats.tx_packets + stats.tx_errors, 20 * 512);
    assert!(stats.tx_errors > 9_000, "{stats:?}");
    drop((rx, tx));
    port.stop().unwrap();
    // At the latest now every packet is an error.
    assert!(port.stats().tx_errors >= 20 * 512);
    let events = port.events();
    let told: Vec<_> =
        events.iter().filter(|e| matches!(e, PortEvent::QueueError { kind: "tx", .. })).collect();
    assert_eq!(told.len(), 1, "{events:?}");
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn what_cannot_be_a_port_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let a = capture(dir.path(), "a.pcap", &[64; 3]);
    let at = |name: &str| dir.path().join(name).into_os_string().into_string().unwrap();
    fs::write(
        at("raw.pcap"),
        [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 12], &[101, 0, 0, 0]].concat(),
    )
    .unwrap();
    fs::write(at("text"), "hello").unwrap();
    let (raw, text, none) = (at("raw.pcap"), at("text"), at("none/b.pcap"));
    for (spec, what) in [
        ("pcap:infinite_rx=1".into(), "needs a file"),
        (format!("pcap:rx_pcap={none}"), "none/b.pcap"),
        (format!("pcap:rx_pcap={a},tx_pcap={none}"), "cannot create"),
        (format!("pcap:rx_pcap={a},tx_pcap={a}"), "same file"),
        (format!("pcap:tx_pcap={a},tx_pcap={a}"), "same file"),
        (format!("pcap:tx_pcap={a},infinite_rx=1"), "needs a capture"),
        (format!("pcap:rx_pcap={raw}"), "link type 101"),
        (format!("pcap:rx_pcap={text}"), "not a capture"),
        (format!("pcap:rx_pcap={a},infinite_rx=2"), "wanted 0 or 1"),
        (format!("pcap:rx_pcap={a},tx_time=ms"), "wanted ns or us"),
        (format!("pcap:rx_pcap={a},tx_snaplen=0"), "1 to 262144"),
        ("pcap:rx_pcap=".into(), "names no file"),
        ("pcap:rx_pcap=-,rx_pcap=-".into(), "used once"),
        (format!("pcap:rxpcap={a}"), "no key"),
        (format!("pcap:{a}"), "no device"),
    ] {
        let e = error(&spec);
        assert!(e.to_string().contains(what), "{spec}: {e}");
        assert!(!e.hint().is_empty());
    }
    // Nothing of the refused ones was emptied or created.
    assert_eq!(packets_of(&a).len(), 3);
    assert!(!Path::new(&none).exists());
}

/// A port of a file that is not there any more when its queue is made again.
#[test]
fn a_file_that_went_away_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "a.pcap", &[64; 3]);
    let pool = pool(64);
    let (mut port, mut rx, tx) = start(&format!("pcap:rx_pcap={path}"), &pool, RxOffloads::empty());
    assert_eq!(receive_all(&mut rx).len(), 3);
    fs::remove_file(&path).unwrap();
    drop((rx, tx));
    port.stop().unwrap();
    let e = port.start().unwrap_err();
    assert!(e.to_string().contains("a.pcap"), "{e}");
    assert!(matches!(CaptureReader::open(&path), Err(PcapError::Open { .. })));
    assert_eq!(CaptureFormat::of_name(Path::new(&path)), CaptureFormat::Classic);
}
