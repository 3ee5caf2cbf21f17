//! Pipes: nothing in them is waited for without end.

use super::format::{CaptureReader, CaptureWriter, PcapError, WriterOptions};
use super::packets::{Packets, memory_limit};
use super::tests::*;
use linerate_mbuf::Burst;
use linerate_port::{Frame, PortEvent, RxOffloads, Verdict};
use std::{
    fs::{self, OpenOptions},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

fn pipe(dir: &Path) -> String {
    let path = dir.join("pipe").into_os_string().into_string().unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

/// A capture of packets in memory.
fn bytes(count: usize) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new(), &WriterOptions::default()).unwrap();
    for n in 0..count {
        writer.write_record(n as u64, 60, [&frame(n, 60)[..]]).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_pipe_without_a_writer_is_an_error_after_two_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let path = pipe(dir.path());
    let begin = Instant::now();
    let e = error(&format!("pcap:rx_pcap={path}"));
    assert!(e.to_string().contains("nobody writes to the pipe"), "{e}");
    assert!(e.hint().contains("tcpdump"), "{}", e.hint());
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(8), "{took:?}");
}

/// A writer that stops within a record: each poll comes back, nothing is lost, the end is the writer's end.
#[test]
fn a_writer_that_stalls_stops_no_poll() {
    let dir = tempfile::tempdir().unwrap();
    let (path, all) = (pipe(dir.path()), bytes(3));
    let at = path.clone();
    // Blocks until the port opens the other end.
    let writer = thread::spawn(move || {
        let mut file = OpenOptions::new().write(true).open(at).unwrap();
        file.write_all(&bytes(3)[..24 + 76 + 30]).unwrap();
        file
    });
    let pool = pool(64);
    let (port, mut rx, _tx) = start(&format!("pcap:rx_pcap={path}"), &pool, RxOffloads::empty());
    let mut file = writer.join().unwrap();
    assert_eq!(receive_all(&mut rx), [frame(0, 60)]);
    for _ in 0..3 {
        assert_eq!(rx.rx_burst(&mut Burst::new(), 32), 0);
        assert!(!rx.is_exhausted());
    }
    // Also while a program looks at what comes.
    file.write_all(&all[24 + 76 + 30..24 + 2 * 76 + 5]).unwrap();
    rx.set_program(Some(Box::new(|_: &mut Frame<'_>| Verdict::Pass))).unwrap();
    assert_eq!(receive_all(&mut rx), [frame(1, 60)]);
    rx.set_program(None).unwrap();
    file.write_all(&all[24 + 2 * 76 + 5..]).unwrap();
    assert_eq!(receive_all(&mut rx), [frame(2, 60)]);
    assert!(!rx.is_exhausted());
    drop(file);
    assert!(receive_all(&mut rx).is_empty());
    assert!(rx.is_exhausted());
    assert_eq!(port.stats().rx_errors, 0);
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn a_pipe_that_nobody_reads_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let e = error(&format!("pcap:tx_pcap={}", pipe(dir.path())));
    assert!(e.to_string().contains("cannot create capture"), "{e}");
    assert!(e.hint().contains("nobody reads the pipe"), "{}", e.hint());
}

#[test]
fn a_full_pipe_is_waited_for_once_and_then_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = pipe(dir.path());
    let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
    let pool = pool(1024);
    let (mut port, _rx, mut tx) = start(&format!("pcap:tx_pcap={path}"), &pool, RxOffloads::empty());
    port.events();
    let begin = Instant::now();
    let mut send = || {
        let mut burst = Burst::new();
        assert!(pool.alloc_bulk(&mut burst, 512));
        for m in burst.as_mut_slice() {
            m.append(1000).unwrap();
        }
        assert_eq!(tx.tx_burst(&mut burst), 512);
    };
    for _ in 0..6 {
        send();
    }
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(6), "{took:?}");
    assert!(port.stats().tx_errors > 512);
    let told: Vec<_> = port.events();
    let [PortEvent::QueueError { kind: "tx", what, .. }] = &told[..] else { panic!("{told:?}") };
    assert!(what.contains("its reader takes nothing"), "{what}");
    // What the reader gets when it wakes up is a capture without a gap.
    let (errors, mut got, mut piece) = (port.stats().tx_errors, Vec::new(), vec![0; 1 << 20]);
    for _ in 0..20 {
        while let Ok(n @ 1..) = reader.read(&mut piece) {
            got.extend_from_slice(&piece[..n]);
        }
        tx.tx_burst(&mut Burst::new());
    }
    let mut capture = CaptureReader::new(&got[..]).unwrap();
    while let Ok(Some(r)) = capture.next_record() {
        assert_eq!(r.data.len(), 1000);
    }
    assert!(capture.packets() > 0);
    assert_eq!(port.stats().tx_errors, errors);
}

#[test]
fn a_file_too_large_for_memory_is_not_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "a.pcap", &[60; 100]);
    // In memory a short packet takes more than in the file.
    for limit in [100, 100 * 64] {
        let mut reader = CaptureReader::open(&path).unwrap();
        let e = Packets::load(Path::new(&path), &mut reader, limit, 2048, false).unwrap_err();
        assert!(e.to_string().contains("half of what is available"), "{e}");
        assert!(e.hint().contains("infinite_rx"));
    }
    let mut reader = CaptureReader::open(&path).unwrap();
    assert!(Packets::load(Path::new(&path), &mut reader, 100 * 100, 2048, false).is_ok());

    // A file of holes, as large as it may not be.
    let limit = memory_limit();
    assert!(limit > 1 << 20 && limit < u64::MAX);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(2 * limit).unwrap();
    let pool = pool(64);
    let mut port = open(&format!("pcap:rx_pcap={path},infinite_rx=1"));
    port.configure(linerate_port::PortConfig::default()).unwrap();
    let e =
        port.rx_queue_setup(linerate_port::QueueId(0), linerate_port::RxQueueConfig::new(&pool)).unwrap_err();
    assert!(e.to_string().contains("half of what is available"), "{e}");
}

#[test]
fn a_pipe_with_nothing_yet_is_told_from_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = pipe(dir.path());
    let at = path.clone();
    let writer = thread::spawn(move || {
        let mut file = OpenOptions::new().write(true).open(at).unwrap();
        file.write_all(&bytes(1)[..40]).unwrap();
        file
    });
    let mut reader = CaptureReader::open(&path).unwrap();
    let file = writer.join().unwrap();
    let e = reader.next_record().unwrap_err();
    assert!(e.is_would_block(), "{e}");
    drop(file);
    let e = reader.next_record().unwrap_err();
    assert!(matches!(e, PcapError::Truncated { .. }) && !e.is_would_block(), "{e}");
}
