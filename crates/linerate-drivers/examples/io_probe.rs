//! What receive and transmit of a port cost, without an application around them.
//!
//! Packets go from one port to another and back on one core, as a forwarder without work would move them, at
//! bursts of 1, 8, 32 and 64; printed are TSC cycles per packet, least, median and most of 11 runs.
//!
//! ```text
//! cargo run --release -p linerate-drivers --example io_probe [null|ring|pcap]…
//! ```

use linerate_drivers::open;
use linerate_mbuf::{Burst, Mempool};
use linerate_mem::{Clock, CoreId, pin_current_thread, rdtsc_ordered};
use linerate_port::{
    Port, PortConfig, PortError, PortId, QueueId, RxQueue, RxQueueConfig, TxQueue, TxQueueConfig,
};
use std::{error::Error, io::Write};

const RUNS: usize = 11;
const Q0: QueueId = QueueId(0);

struct Pair {
    ports: [Port; 2],
    queues: [(RxQueue, TxQueue); 2],
}

fn open_pair(specs: [String; 2], pool: &Mempool) -> Result<Pair, PortError> {
    let one = |id: u16, spec: &str| -> Result<(Port, (RxQueue, TxQueue)), PortError> {
        let mut port = open(&spec.parse()?, PortId(id), Clock::real())?;
        port.configure(PortConfig::default())?;
        port.rx_queue_setup(Q0, RxQueueConfig::new(pool))?;
        port.tx_queue_setup(Q0, TxQueueConfig::default())?;
        port.start()?;
        let queues = (port.take_rx(Q0)?, port.take_tx(Q0)?);
        Ok((port, queues))
    };
    let (a, qa) = one(0, &specs[0])?;
    let (b, qb) = one(1, &specs[1])?;
    Ok(Pair { ports: [a, b], queues: [qa, qb] })
}

/// Sends `bursts` bursts of 32 packets of 64 bytes into both ports, for those that only receive what they sent.
fn prime(pair: &mut Pair, pool: &Mempool, bursts: usize) {
    for _ in 0..bursts {
        for (_, tx) in &mut pair.queues {
            let mut burst = Burst::new();
            assert!(pool.alloc_bulk(&mut burst, 32), "the pool is large enough");
            for m in burst.as_mut_slice() {
                m.append(64).expect("room").fill(0);
            }
            tx.tx_burst(&mut burst);
        }
    }
}

/// Cycles per packet of one run.
#[inline(never)]
fn run(pair: &mut Pair, size: usize) -> f64 {
    let mut burst = Burst::new();
    let mut packets = 0u64;
    let start = rdtsc_ordered();
    let [(rx_a, tx_a), (rx_b, tx_b)] = &mut pair.queues;
    for _ in 0..3_000_000 / (size + 8) {
        for (rx, tx) in [(&mut *rx_a, &mut *tx_b), (&mut *rx_b, &mut *tx_a)] {
            let n = rx.rx_burst(&mut burst, size);
            if n == 0 {
                continue;
            }
            tx.tx_burst(&mut burst);
            if !burst.is_empty() {
                burst.free_all();
            }
            packets += n as u64;
        }
    }
    (rdtsc_ordered() - start) as f64 / packets.max(1) as f64
}

/// A capture of 256 UDP-sized frames of 64 bytes.
fn capture() -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for i in 0..256u32 {
        for word in [i, 0, 64, 64] {
            file.extend(word.to_le_bytes());
        }
        file.extend([i as u8; 64]);
    }
    file
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let all = ["null", "ring", "pcap"];
    pin_current_thread(CoreId(1)).or_else(|_| pin_current_thread(CoreId(0)))?;
    let file = std::env::temp_dir().join(format!("io_probe-{}.pcap", std::process::id()));
    for kind in all.iter().filter(|k| wanted.is_empty() || wanted.iter().any(|w| w == *k)) {
        let pool = Mempool::builder(*kind, 8191).cache(250).build()?;
        let specs = match *kind {
            "ring" => ["ring:a".into(), "ring:b".into()],
            "pcap" => {
                std::fs::write(&file, capture())?;
                let spec = format!("pcap:rx_pcap={},infinite_rx=1", file.display());
                [spec.clone(), spec]
            }
            _ => ["null".into(), "null".into()],
        };
        let mut pair = open_pair(specs, &pool)?;
        if *kind == "ring" {
            prime(&mut pair, &pool, 8);
        }
        for size in [1, 8, 32, 64] {
            let mut runs: Vec<f64> = (0..=RUNS).map(|_| run(&mut pair, size)).skip(1).collect();
            runs.sort_by(f64::total_cmp);
            println!(
                "{kind:<5} burst {size:<3} cycles/packet {:8.2} {:8.2} {:8.2}",
                runs[0],
                runs[RUNS / 2],
                runs[RUNS - 1]
            );
            std::io::stdout().flush()?;
        }
        let Pair { mut ports, queues } = pair;
        drop(queues);
        for p in &mut ports {
            p.stop()?;
        }
        assert_eq!(pool.counts().held, 0, "a buffer was lost");
    }
    let _ = std::fs::remove_file(file);
    Ok(())
}
