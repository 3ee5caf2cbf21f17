//! What it costs to move packets through interfaces of the kernel.
//!
//! Two ports are forwarded into each other on one thread, or only the first one sends. Printed are packets a
//! second by the wall clock and by the thread's own time, in which almost all is the kernel's, and what the
//! ports counted besides.
//!
//! ```text
//! ip link add va0 type veth peer name va1; ip link set va0 up; ip link set va1 up
//! cargo run --release -p linerate-drivers --example kernel_probe -- packet:va0 packet:va1
//! cargo run --release -p linerate-drivers --example kernel_probe -- tap:lr0 txonly
//! cargo run --release -p linerate-drivers --example kernel_probe -- tap:lr0 tap:lr1 len=1514 seconds=2 prime=4
//! ```
//!
//! `PROBE_SETTLE=900` waits so many milliseconds before the first packet: time to put two taps into a bridge.

use linerate_drivers::open;
use linerate_mbuf::{Burst, Mempool};
use linerate_mem::{Clock, ThreadTime};
use linerate_port::{Port, PortConfig, PortId, QueueId, RxQueueConfig, TxQueueConfig};
use std::{error::Error, io::Write};

/// A UDP frame from 198.18.0.1 to 198.18.0.2.
fn frame(len: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let ip = ((len - 14) as u16).to_be_bytes();
    f.extend([0x45, 0, ip[0], ip[1], 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    let sum = linerate_net::checksum::checksum(&f[14..34]).to_be_bytes();
    f[24..26].copy_from_slice(&sum);
    let udp = ((len - 34) as u16).to_be_bytes();
    f.extend([0, 9, 0, 9, udp[0], udp[1], 0, 0]);
    f.resize(len, 0);
    f
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut specs, mut len, mut seconds, mut prime, mut only) = (Vec::new(), 60, 1.0, 4, false);
    for a in std::env::args().skip(1) {
        match a.split_once('=') {
            Some(("len", v)) => len = v.parse::<usize>()?.clamp(60, 16000),
            Some(("seconds", v)) => seconds = v.parse()?,
            Some(("prime", v)) => prime = v.parse()?,
            _ if a == "txonly" => only = true,
            _ => specs.push(a),
        }
    }
    let pool = Mempool::builder("probe", 8192).data_room(2048.max(len as u16)).build()?;
    let mut ports = Vec::new();
    for (i, s) in specs.iter().enumerate() {
        let made = || -> Result<Port, linerate_port::PortError> {
            let mut p = open(&s.parse()?, PortId(i as u16), Clock::real())?;
            p.configure(PortConfig { mtu: 1500.max(len as u32 - 14), ..Default::default() })?;
            p.rx_queue_setup(QueueId(0), RxQueueConfig::new(&pool))?;
            p.tx_queue_setup(QueueId(0), TxQueueConfig::default())?;
            p.start()?;
            Ok(p)
        };
        ports.push(made().map_err(|e| format!("{e} ({})", e.hint()))?);
    }
    if let Ok(wait) = std::env::var("PROBE_SETTLE") {
        std::thread::sleep(std::time::Duration::from_millis(wait.parse()?));
    }
    let mut queues = Vec::new();
    for p in &mut ports {
        queues.push((p.take_rx(QueueId(0))?, p.take_tx(QueueId(0))?));
    }
    let bytes = frame(len);
    let fill = |burst: &mut Burst| {
        while burst.len() < 32 {
            let Some(m) = pool.alloc_filled(&bytes) else { break };
            if burst.push(m).is_err() {
                break;
            }
        }
    };
    for _ in 0..prime {
        for (_, tx) in &mut queues {
            let mut burst = Burst::new();
            fill(&mut burst);
            tx.tx_burst(&mut burst);
        }
    }
    let (mut packets, mut full, mut lost) = (0u64, 0u64, 0u64);
    let start = ThreadTime::now();
    let mut burst = Burst::new();
    loop {
        for _ in 0..64 {
            if only {
                fill(&mut burst);
                packets += queues[0].1.tx_burst(&mut burst) as u64;
                queues[0].1.end_of_poll();
                continue;
            }
            for i in 0..queues.len() {
                let n = queues[i].0.rx_burst(&mut burst, 32);
                if n == 0 {
                    continue;
                }
                packets += n as u64;
                full += u64::from(n == 32) * 32;
                let out = (i + 1) % queues.len();
                queues[out].1.tx_burst(&mut burst);
                lost += burst.len() as u64;
                burst.free_all();
                queues[out].1.end_of_poll();
            }
        }
        if ThreadTime::now().since(&start).wall_ns as f64 > seconds * 1e9 {
            break;
        }
    }
    let t = ThreadTime::now().since(&start);
    let mpps = |ns: u64| packets as f64 * 1e3 / ns as f64;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{specs:?} len {len}: {:.3} Mpps by the wall, {:.3} Mpps on the core ({:.0} ns a packet), full bursts {:.0} %, not accepted {lost}",
        mpps(t.wall_ns),
        mpps(t.on_cpu_ns),
        t.on_cpu_ns as f64 / packets.max(1) as f64,
        full as f64 * 100.0 / packets.max(1) as f64
    )?;
    drop((burst, queues));
    for p in &mut ports {
        let x: Vec<_> = p.xstats().into_iter().filter(|x| x.value > 0).collect();
        let x: Vec<_> = x.iter().map(|x| format!("{}={}", x.name, x.value)).collect();
        writeln!(out, "  {}", x.join(" "))?;
        p.stop()?;
    }
    Ok(())
}
