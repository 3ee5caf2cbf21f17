//! Counts packets and bytes of each flow, and prints the largest at the end.
//!
//!     cargo run --release --example flow_counter -- packet:eth0
//!     cargo run --release --example flow_counter -- pcap:rx_pcap=in.pcap

use linerate::net::{ipv4::Ipv4Hdr, ipv6::Ipv6Hdr, parse, parse::Network, parse::ParseOptions, view::view};
use linerate::prelude::*;
use std::{collections::HashMap, net::IpAddr, process::ExitCode};

/// Source, destination, protocol, source port, destination port (0 where there are none).
pub type Flow = (IpAddr, IpAddr, u8, u16, u16);
/// Packets and bytes.
pub type Count = (u64, u64);

/// The flow of a frame, if it has an IP header.
fn flow(frame: &[u8]) -> Option<Flow> {
    let layers = parse(frame, ParseOptions::PLAIN).outer;
    let at = layers.l3_off();
    let (src, dst): (IpAddr, IpAddr) = match layers.network {
        Network::V4 => view::<Ipv4Hdr>(frame, at).map(|h| (h.src_addr().into(), h.dst_addr().into()))?,
        Network::V6 => view::<Ipv6Hdr>(frame, at).map(|h| (h.src_addr().into(), h.dst_addr().into()))?,
        Network::Other => return None,
    };
    let has_ports = layers.has_l4() && matches!(layers.l4_proto, 6 | 17 | 132);
    let ports = frame.get(layers.l4_off()..).and_then(|l4| l4.first_chunk::<4>()).filter(|_| has_ports);
    let [a, b, c, d] = ports.copied().unwrap_or_default();
    Some((src, dst, layers.l4_proto, u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Counts until the end of all input, or until it is told to stop.
pub fn count(specs: &[String], stop: &StopSignal) -> Result<HashMap<Flow, Count>, linerate::Error> {
    let mut ports = start_ports(specs.iter().map(|s| PortBuilder::new(s).tx_queues(0)))?;
    let (mut burst, mut flows) = (Burst::new(), HashMap::<Flow, Count>::new());
    while !stop.is_set() && !ports.iter_mut().all(StartedPort::is_exhausted) {
        for port in &mut ports {
            port.rx[0].rx_burst(&mut burst, 32);
            for packet in burst.drain() {
                let Some(flow) = flow(packet.data()) else { continue };
                let count = flows.entry(flow).or_default();
                *count = (count.0 + 1, count.1 + u64::from(packet.len()));
            }
        }
    }
    Ok(flows)
}

fn main() -> ExitCode {
    linerate::run(|args, stop| {
        let default = ["null:size=64".to_string()];
        let flows = count(if args.is_empty() { &default } else { args }, stop)?;
        let mut flows: Vec<_> = flows.into_iter().collect();
        flows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        println!("{} flows", flows.len());
        for ((src, dst, proto, sport, dport), (packets, bytes)) in flows.iter().take(20) {
            println!("{src}:{sport} > {dst}:{dport} proto {proto}: {packets} packets, {bytes} bytes");
        }
        Ok(())
    })
}
