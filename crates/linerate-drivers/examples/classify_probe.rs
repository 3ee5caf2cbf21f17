//! What rules, hash and filters cost when software does them (`linerate_port::classify`).
//!
//! UDP packets go round in a ring port that receives what it sends, 32 at a time, on one core; printed are TSC cycles
//! per packet for receive and transmit together, least, median and most of 11 runs, first without anything to do.
//!
//! ```text
//! cargo run --release -p linerate-drivers --example classify_probe
//! ```

use linerate_drivers::open;
use linerate_mbuf::{Burst, Mempool};
use linerate_mem::{Clock, CoreId, pin_current_thread, rdtsc_ordered};
use linerate_net::{
    MacAddr,
    builder::{UdpFlow, UdpTemplate},
};
use linerate_port::{
    FlowRule, Port, PortConfig, PortId, QueueId, RssConfig, RssTypes, RxQueue, RxQueueConfig, TxQueue,
    TxQueueConfig,
};
use std::{error::Error, net::Ipv4Addr};

const RUNS: usize = 11;
const PACKETS: usize = 1024;

struct Loop {
    queues: Vec<(RxQueue, TxQueue)>,
    port: Port,
}

/// A started port with so many queues, packets of as many flows going round in it.
fn started(name: &str, queues: u16, pool: &Mempool) -> Result<Loop, Box<dyn Error>> {
    let mut port = open(&format!("ring:{name},size=4096").parse()?, PortId(0), Clock::real())?;
    port.configure(PortConfig { rx_queues: queues, tx_queues: queues, ..Default::default() })?;
    for q in (0..queues).map(QueueId) {
        port.rx_queue_setup(q, RxQueueConfig { descriptors: 4096, ..RxQueueConfig::new(pool) })?;
        port.tx_queue_setup(q, TxQueueConfig::default())?;
    }
    port.start()?;
    let mut taken = Vec::new();
    for q in (0..queues).map(QueueId) {
        taken.push((port.take_rx(q)?, port.take_tx(q)?));
    }
    for n in 0..PACKETS {
        let flow = UdpFlow {
            dst_mac: MacAddr::peer(1),
            src_mac: MacAddr::peer(2),
            src_ip: Ipv4Addr::new(10, 0, 0, 1),
            dst_ip: Ipv4Addr::new(10, 0, 0, 2),
            src_port: 1000 + n as u16,
            dst_port: 9,
        };
        let template = UdpTemplate::new(&flow, 64)?;
        let mut m = pool.alloc().ok_or("the pool is too small")?;
        if !template.write(m.append(64).ok_or("no room")?) {
            return Err("64 bytes are too few".into());
        }
        let mut burst = Burst::new();
        let _ = burst.push(m);
        taken[n % usize::from(queues)].1.tx_burst(&mut burst);
    }
    Ok(Loop { queues: taken, port })
}

/// Cycles per packet of one run. What a queue receives goes out of the queue `shift` further on.
#[inline(never)]
fn run(l: &mut Loop, shift: usize) -> f64 {
    let mut burst = Burst::new();
    let (mut packets, start) = (0u64, rdtsc_ordered());
    while packets < 400_000 {
        for q in 0..l.queues.len() {
            packets += l.queues[q].0.rx_burst(&mut burst, 32) as u64;
            if !burst.is_empty() {
                let to = (q + shift) % l.queues.len();
                l.queues[to].1.tx_burst(&mut burst);
            }
        }
    }
    (rdtsc_ordered() - start) as f64 / packets as f64
}

fn row(what: &str, l: &mut Loop, shift: usize) {
    let mut all: Vec<f64> = (0..RUNS).map(|_| run(l, shift)).collect();
    all.sort_by(f64::total_cmp);
    println!("{what:<44} cycles/packet {:8.2} {:8.2} {:8.2}", all[0], all[RUNS / 2], all[RUNS - 1]);
}

/// A rule that takes nothing of what is here.
fn idle_rule(port: u16) -> Result<FlowRule, Box<dyn Error>> {
    Ok(format!("pattern eth / ipv4 / udp dst is {port} / end actions drop / end").parse()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Err(e) = pin_current_thread(CoreId(0)) {
        println!("not pinned: {e}");
    }
    let pool = Mempool::builder("probe", 8192).build()?;
    let mut l = started("p0", 1, &pool)?;
    row("nothing to do", &mut l, 0);
    for rules in [1u16, 8, 64] {
        for r in 0..rules {
            l.port.create_flow(idle_rule(50_000 + r)?)?;
        }
        row(&format!("{rules} rules, none matches"), &mut l, 0);
        let ids: Vec<_> = l.port.flows().map(|f| f.0).collect();
        for id in ids {
            l.port.destroy_flow(id)?;
        }
    }
    row("rules gone, the stage still there", &mut l, 0);
    let all = "pattern eth / ipv4 / udp / end actions queue index 0 / mark id 1 / count / end";
    let id = l.port.create_flow(all.parse()?)?;
    row("1 rule, all match: marked and counted", &mut l, 0);
    l.port.destroy_flow(id)?;
    l.port.set_rss(RssConfig::spread(1, 128, RssTypes::all()))?;
    row("hash over addresses and ports, one queue", &mut l, 0);
    drop(l);
    for queues in [2, 4] {
        let mut l = started(&format!("p{queues}"), queues, &pool)?;
        row(&format!("{queues} queues, nothing to do"), &mut l, 0);
        l.port.set_rss(RssConfig::spread(queues, 128, RssTypes::all()))?;
        row(&format!("{queues} queues, spread, each flow at home"), &mut l, 0);
        row(&format!("{queues} queues, spread, every frame handed over"), &mut l, 1);
    }
    Ok(())
}
