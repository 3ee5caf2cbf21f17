//! Every driver of this crate passes the conformance suite, with each of its ways to be set up.

use linerate_drivers::open;
use linerate_mbuf::{Burst, Mempool};
use linerate_mem::Clock;
use linerate_port::{
    Port, PortConfig, PortError, PortId, QueueId, RxQueueConfig, TxQueueConfig,
    conformance::{Harness, Input, Output, Rig, run_all},
};
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};
use tempfile::TempDir;

/// A number that no other port of this process has, for names.
fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Relaxed)
}

fn port(spec: &str, clock: Clock) -> Result<Port, PortError> {
    open(&spec.parse().map_err(PortError::Spec)?, PortId(5), clock)
}

/// A port alone.
struct Alone {
    spec: String,
    input: Input,
    output: Output,
}

impl Harness for Alone {
    fn name(&self) -> String {
        self.spec.clone()
    }

    fn open(&self, clock: Clock, _queues: u16) -> Result<Box<dyn Rig>, PortError> {
        let spec = self.spec.replace('#', &unique().to_string());
        Ok(Box::new(AloneRig { port: port(&spec, clock)?, input: self.input, output: self.output }))
    }
}

struct AloneRig {
    port: Port,
    input: Input,
    output: Output,
}

impl Rig for AloneRig {
    fn port(&mut self) -> &mut Port {
        &mut self.port
    }
    fn input(&self) -> Input {
        self.input
    }
    fn output(&self) -> Output {
        self.output
    }
}

fn alone(spec: &str, input: Input, output: Output) {
    let report = run_all(&Alone { spec: spec.into(), input, output });
    println!("{report}");
    report.assert_passed();
}

#[test]
fn null_ports() {
    alone("null", Input::Endless, Output::Dropped);
    alone("null:size=1514,copy=1", Input::Endless, Output::Dropped);
    alone("null:no-rx=1", Input::Nothing, Output::Dropped);
}

#[test]
fn null_ports_with_frames_longer_than_a_buffer() {
    // Only with scatter: the suite's other cases have no use for it.
    let report = linerate_port::conformance::run_some(
        &Alone { spec: "null:size=1500".into(), input: Input::Endless, output: Output::Dropped },
        |case| case.contains("several segments"),
    );
    report.assert_passed();
    assert_eq!(report.passed.len(), 2, "{report}");
}

#[test]
fn ring_ports_that_loop_back() {
    alone("ring:cl#", Input::Loopback, Output::Loopback);
    alone("ring:cb#,bytes=1,size=37", Input::Loopback, Output::Loopback);
    alone("ring:cs#,size=1", Input::Loopback, Output::Loopback);
}

/// Two ring ports, the second of which is the world of the first.
struct Crossed {
    bytes: bool,
}

struct CrossedRig {
    port: Port,
    peer: Port,
    pool: Mempool,
}

impl Harness for Crossed {
    fn name(&self) -> String {
        format!("ring, cross-connected, bytes={}", u8::from(self.bytes))
    }

    fn open(&self, clock: Clock, queues: u16) -> Result<Box<dyn Rig>, PortError> {
        let (n, bytes) = (unique(), u8::from(self.bytes));
        let under_test = port(&format!("ring:xa{n},peer=xb{n},size=300,bytes={bytes}"), clock.clone())?;
        let mut peer = port(&format!("ring:xb{n},peer=xa{n}"), clock)?;
        let pool = Mempool::builder(format!("peer{n}"), 2048).cache(0).build().expect("memory");
        peer.configure(PortConfig { rx_queues: queues, tx_queues: queues, ..Default::default() })?;
        for q in (0..queues).map(QueueId) {
            peer.rx_queue_setup(q, RxQueueConfig::new(&pool))?;
            peer.tx_queue_setup(q, TxQueueConfig::default())?;
        }
        Ok(Box::new(CrossedRig { port: under_test, peer, pool }))
    }
}

impl CrossedRig {
    /// The peer runs from when it is needed first: by then the port is configured.
    fn peer(&mut self) -> &mut Port {
        let _ = self.peer.start();
        &mut self.peer
    }
}

impl Rig for CrossedRig {
    fn port(&mut self) -> &mut Port {
        &mut self.port
    }
    fn input(&self) -> Input {
        Input::Injected
    }
    fn output(&self) -> Output {
        Output::Collected
    }
    fn inject(&mut self, queue: QueueId, frames: &[Vec<u8>]) -> usize {
        let mut sent = 0;
        for some in frames.chunks(512) {
            let mut burst = Burst::new();
            for f in some {
                let m = self.pool.alloc_filled(f).expect("the peer's pool is large enough");
                burst.push(m).expect("at most 512");
            }
            let mut tx = self.peer().take_tx(queue).expect("configured");
            sent += tx.tx_burst(&mut burst);
        }
        sent
    }
    fn collect(&mut self, queue: QueueId) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        let mut rx = self.peer().take_rx(queue).expect("configured");
        let mut got = Vec::new();
        while rx.rx_burst(&mut burst, 512) > 0 {
            got.extend(burst.as_slice().iter().map(|m| m.segments().flatten().copied().collect()));
            burst.free_all();
        }
        got
    }
    fn settle(&mut self) {
        self.peer();
    }
    fn fixed_queues(&self) -> bool {
        true
    }
    fn pools(&self) -> Vec<Mempool> {
        vec![self.pool.clone()]
    }
}

#[test]
fn ring_ports_that_are_cross_connected() {
    for bytes in [false, true] {
        let report = run_all(&Crossed { bytes });
        println!("{report}");
        report.assert_passed();
    }
}

/// A pcap port with a file for every queue.
struct Pcap {
    rx: Option<usize>,
    infinite: bool,
    tx: bool,
}

struct PcapRig {
    port: Port,
    input: Input,
    outputs: Vec<PathBuf>,
    /// What each output held when it was collected last.
    seen: Vec<Vec<Vec<u8>>>,
    _dir: TempDir,
}

/// A capture of `n` frames of various lengths.
fn write_capture(path: &Path, n: usize) {
    let mut w =
        pcap_file::pcap::PcapWriter::new(File::create(path).expect("a scratch file")).expect("written");
    for i in 0..n {
        let frame = vec![i as u8; [60, 64, 300, 1400][i % 4]];
        let at = std::time::Duration::from_millis(i as u64);
        let packet = pcap_file::pcap::PcapPacket::new(at, frame.len() as u32, &frame);
        w.write_packet(&packet).expect("written");
    }
}

impl Harness for Pcap {
    fn name(&self) -> String {
        let (rx, tx) = (self.rx, if self.tx { "file" } else { "drop" });
        format!("pcap, {rx:?} frames, infinite={}, sends to {tx}", self.infinite)
    }

    fn open(&self, clock: Clock, queues: u16) -> Result<Box<dyn Rig>, PortError> {
        let dir = TempDir::new().expect("a scratch folder");
        let mut spec = format!("pcap:infinite_rx={}", u8::from(self.infinite));
        let mut outputs = Vec::new();
        for q in 0..queues {
            if let Some(n) = self.rx {
                let path = dir.path().join(format!("in{q}.pcap"));
                write_capture(&path, n);
                spec += &format!(",rx_pcap={}", path.display());
            }
            if self.tx {
                let path = dir.path().join(format!("out{q}.pcap"));
                spec += &format!(",tx_pcap={}", path.display());
                outputs.push(path);
            }
        }
        let input = match self.rx {
            None => Input::Nothing,
            Some(_) if self.infinite => Input::Endless,
            Some(n) => Input::Finite(n),
        };
        let seen = vec![Vec::new(); outputs.len()];
        Ok(Box::new(PcapRig { port: port(&spec, clock)?, input, outputs, seen, _dir: dir }))
    }
}

impl Rig for PcapRig {
    fn port(&mut self) -> &mut Port {
        &mut self.port
    }
    fn input(&self) -> Input {
        self.input
    }
    fn output(&self) -> Output {
        if self.outputs.is_empty() { Output::Dropped } else { Output::CollectedAtStop }
    }
    fn collect(&mut self, queue: QueueId) -> Vec<Vec<u8>> {
        let file = File::open(&self.outputs[queue.index()]).expect("it was written");
        let mut reader = pcap_file::pcap::PcapReader::new(file).expect("a capture");
        let mut all = Vec::new();
        while let Some(packet) = reader.next_packet() {
            all.push(packet.expect("whole").data.to_vec());
        }
        // A queue that was set up anew begins its file anew.
        let old = &mut self.seen[queue.index()];
        let new = if all.starts_with(old) { all[old.len()..].to_vec() } else { all.clone() };
        *old = all;
        new
    }
}

#[test]
fn pcap_ports() {
    for harness in [
        Pcap { rx: Some(2000), infinite: false, tx: true },
        Pcap { rx: Some(5), infinite: false, tx: false },
        Pcap { rx: Some(77), infinite: true, tx: false },
        Pcap { rx: Some(1), infinite: true, tx: true },
        Pcap { rx: None, infinite: false, tx: true },
    ] {
        let report = run_all(&harness);
        println!("{report}");
        report.assert_passed();
    }
}
