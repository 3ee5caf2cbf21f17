//! Forwards between pairs of ports and swaps the addresses: the first with the second, the third with the fourth.
//! A port without a partner sends what it receives.
//!
//!     cargo run --release --example forwarder -- xsk:eth0 xsk:eth1
//!     cargo run --release --example forwarder -- pcap:rx_pcap=in.pcap pcap:tx_pcap=out.pcap

use linerate::prelude::*;
use std::process::ExitCode;

/// Forwards until the end of all input, or until it is told to stop; how many packets were not taken.
pub fn forward(specs: &[String], stop: &StopSignal) -> Result<u64, linerate::Error> {
    let mut ports = start_ports(specs.iter().map(PortBuilder::new))?;
    let (mut burst, mut dropped) = (Burst::new(), 0);
    while !stop.is_set() {
        for from in 0..ports.len() {
            let partner = from ^ 1;
            let to = if partner < ports.len() { partner } else { from };
            ports[from].rx[0].rx_burst(&mut burst, 32);
            for packet in burst.as_mut_slice() {
                linerate::net::swap::mac_swap(packet.data_mut());
            }
            ports[to].tx[0].tx_burst(&mut burst);
            dropped += burst.len() as u64;
            burst.free_all();
            ports[to].tx[0].end_of_poll();
        }
        if ports.iter_mut().all(StartedPort::is_exhausted) {
            break;
        }
    }
    for (port, spec) in ports.into_iter().zip(specs) {
        let stats = port.stop()?;
        println!("{spec}: received {}, sent {}", stats.rx_packets, stats.tx_packets);
    }
    Ok(dropped)
}

fn main() -> ExitCode {
    linerate::run(|args, stop| {
        let default = ["null:size=64".to_string(), "null:size=64".to_string()];
        let dropped = forward(if args.is_empty() { &default } else { args }, stop)?;
        println!("not taken: {dropped}");
        Ok(())
    })
}
