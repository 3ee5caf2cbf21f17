//! Copies from one port to another the packets of one UDP or TCP port.
//!
//!     cargo run --release --example pcap_filter -- 53 pcap:rx_pcap=in.pcap pcap:tx_pcap=dns.pcapng
//!     cargo run --release --example pcap_filter -- 53 packet:eth0 pcap:tx_pcap=dns.pcapng

use linerate::net::{ipv4::proto, parse, parse::ParseOptions};
use linerate::prelude::*;
use std::process::ExitCode;

/// Whether a frame goes from or to this port.
fn matches(frame: &[u8], wanted: u16) -> bool {
    let layers = parse(frame, ParseOptions::PLAIN).outer;
    let ports = frame.get(layers.l4_off()..).and_then(|l4| l4.first_chunk::<4>());
    let ports = ports.filter(|_| layers.has_l4() && matches!(layers.l4_proto, proto::UDP | proto::TCP));
    ports.is_some_and(|p| p.chunks(2).any(|port| *port == wanted.to_be_bytes()))
}

/// Copies until the end of the input, or until it is told to stop; how many packets were seen and how many copied.
pub fn filter(wanted: u16, from: &str, to: &str, stop: &StopSignal) -> Result<(u64, u64), linerate::Error> {
    let wishes = [PortBuilder::new(from).tx_queues(0), PortBuilder::new(to).rx_queues(0)];
    let mut ports = start_ports(wishes)?;
    let (mut burst, mut seen, mut copied) = (Burst::new(), 0, 0);
    while !stop.is_set() && !ports[0].is_exhausted() {
        seen += ports[0].rx[0].rx_burst(&mut burst, 32) as u64;
        burst.retain(|packet| matches(packet.data(), wanted));
        copied += ports[1].tx[0].tx_burst(&mut burst) as u64;
        burst.free_all();
        ports[1].tx[0].end_of_poll();
    }
    for port in ports {
        port.stop()?;
    }
    Ok((seen, copied))
}

fn main() -> ExitCode {
    linerate::run(|args, stop| {
        let arg = |i: usize, default: &'static str| args.get(i).map_or(default, String::as_str);
        let wanted = arg(0, "53").parse().map_err(|e| linerate::Error::Usage {
            what: format!("{:?} is no port number: {e}", arg(0, "53")),
            hint:
                "pcap_filter PORT FROM TO, as in: pcap_filter 53 pcap:rx_pcap=in.pcap pcap:tx_pcap=out.pcap"
                    .into(),
        })?;
        let (seen, copied) = filter(wanted, arg(1, "null:size=64"), arg(2, "null"), stop)?;
        println!("seen: {seen}, copied: {copied}");
        Ok(())
    })
}
