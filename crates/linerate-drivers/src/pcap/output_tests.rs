//! What a port does to files that are there, and what it says when they cannot be written.

use super::tests::*;
use linerate_mbuf::{Burst, Mempool};
use linerate_mem::Clock;
use linerate_port::{Port, PortEvent, RxOffloads, TxQueue};
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::Command,
};

fn send(tx: &mut TxQueue, pool: &Mempool, count: usize, len: usize) {
    let mut burst = Burst::new();
    assert!(pool.alloc_bulk(&mut burst, count));
    for m in burst.as_mut_slice() {
        m.append(len).unwrap();
    }
    assert_eq!(tx.tx_burst(&mut burst), count);
}

/// What the transmit queue told.
fn told(port: &mut Port) -> Vec<String> {
    let of_tx = |e| match e {
        PortEvent::QueueError { kind: "tx", what, .. } => Some(what),
        _ => None,
    };
    port.events().into_iter().filter_map(of_tx).collect()
}

#[test]
fn a_file_of_one_port_is_not_written_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let a = capture(dir.path(), "a.pcap", &[64; 3]);
    let at = |name: &str| dir.path().join(name).into_os_string().into_string().unwrap();
    fs::hard_link(&a, at("hard.pcap")).unwrap();
    std::os::unix::fs::symlink(dir.path(), at("dir")).unwrap();
    let (new, again) = (at("new.pcap"), at("dir/new.pcap"));
    for (first, second, what) in [
        (format!("rx_pcap={a}"), format!("tx_pcap={}", at("hard.pcap")), "same file as rx_pcap="),
        (format!("tx_pcap={a}"), format!("tx_pcap={}", at("dir/a.pcap")), "same file as tx_pcap="),
        (format!("tx_pcap={a}"), format!("rx_pcap={}", at("hard.pcap")), "same file as tx_pcap="),
        (format!("tx_pcap={new}"), format!("tx_pcap={again}"), "same file as tx_pcap="),
    ] {
        let mut port = open(&format!("pcap:{first}"));
        let e = error(&format!("pcap:{second}"));
        assert!(e.to_string().contains(what), "{e}");
        assert!(e.hint().contains("another file"), "{}", e.hint());
        port.close().unwrap();
        drop(port);
        drop(open(&format!("pcap:{second}")));
    }
    // To read is no harm, and a port that was never used leaves nothing behind.
    let ports = (open(&format!("pcap:rx_pcap={a}")), open(&format!("pcap:rx_pcap={a}")));
    assert_eq!(packets_of(&a).len(), 3);
    assert!(!Path::new(&new).exists());
    drop(ports);
}

#[test]
fn an_old_capture_goes_with_the_first_write_or_an_orderly_run() {
    let dir = tempfile::tempdir().unwrap();
    let (path, pool) = (capture(dir.path(), "keep.pcap", &[64; 5]), pool(64));
    let text = format!("pcap:tx_pcap={path}");
    // Started, and given up before anybody polled: another port was refused.
    let (port, rx, tx) = start(&text, &pool, RxOffloads::empty());
    drop((rx, tx));
    drop(port);
    assert_eq!(packets_of(&path).len(), 5);

    // Packets that are still in the buffer leave the old ones; the stop writes them.
    let (mut port, rx, mut tx) = start(&text, &pool, RxOffloads::empty());
    send(&mut tx, &pool, 2, 60);
    assert_eq!(packets_of(&path).len(), 5);
    drop((rx, tx));
    port.stop().unwrap();
    assert_eq!(packets_of(&path).len(), 2);
    drop(port);

    // Polled, and nothing came: an empty capture, and not one of another run.
    let (mut port, rx, mut tx) = start(&text, &pool, RxOffloads::empty());
    assert!(!tx.has_end_of_poll());
    drop((rx, tx));
    port.stop().unwrap();
    assert_eq!((packets_of(&path).len(), fs::metadata(&path).unwrap().len()), (0, 24));
    drop(port);

    // A new file is a capture in any case.
    fs::remove_file(&path).unwrap();
    let (mut port, rx, tx) = start(&text, &pool, RxOffloads::empty());
    drop((rx, tx));
    port.stop().unwrap();
    drop(port);
    assert_eq!(packets_of(&path).len(), 0);
}

#[test]
fn a_reader_that_ends_is_told_once_with_what_mends_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
    let pool = pool(1024);
    let text = format!("pcap:tx_pcap={}", path.display());
    let (mut port, rx, mut tx) = start(&text, &pool, RxOffloads::empty());
    drop(reader);
    for _ in 0..4 {
        send(&mut tx, &pool, 512, 1000);
    }
    drop((rx, tx));
    port.stop().unwrap();
    assert_eq!(port.stats().tx_errors, 4 * 512);
    let told = told(&mut port);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("the reader of the pipe ended") && !told[0].contains("df -h"), "{told:?}");
}

const LIMITED: &str = "LINERATE_TEST_LIMITED_CAPTURE";

/// Run by the next test in a process with `ulimit -f`.
#[test]
#[ignore = "needs a process of its own"]
fn writes_beyond_the_limit() {
    let Some(path) = std::env::var_os(LIMITED) else { return };
    let pool = pool(1024);
    let text = format!("pcap:tx_pcap={}", Path::new(&path).display());
    let (mut port, rx, mut tx) =
        start_port(open_with(&text, Clock::real()).unwrap(), &pool, RxOffloads::empty());
    // Small bursts: between two failures some fit the buffer, which is no reason to tell the next one.
    for _ in 0..64 {
        send(&mut tx, &pool, 32, 1000);
    }
    drop((rx, tx));
    port.stop().unwrap();
    let (stats, told) = (port.stats(), told(&mut port));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("ulimit -f"), "{told:?}");
    assert!(stats.tx_errors > 1500, "{stats:?}");
}

#[test]
fn a_file_size_limit_is_an_error_and_not_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 64 && exec \"$0\" --ignored --exact pcap::output_tests::writes_beyond_the_limit",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(LIMITED, dir.path().join("a.pcap"))
        .output()
        .unwrap();
    let texts = [&output.stdout, &output.stderr].map(|t| String::from_utf8_lossy(t).into_owned());
    assert!(output.status.success(), "{:?} {texts:?}", output.status);
    assert!(texts[0].contains("1 passed"), "{texts:?}");
    // One error, in one place.
    assert!(!texts.concat().contains("dropped unfinished"), "{texts:?}");
}
