//! Answers ARP requests and pings for every IPv4 address, on each of its ports.
//!
//!     cargo run --release --example icmp_responder -- tap:lr0     # and: ip addr add 10.9.0.1/24 dev lr0; ping 10.9.0.2

use linerate::net::{
    MacAddr, arp, arp::ArpHdr, checksum, ether::EthHdr, ether::ether_type, icmp, icmp::IcmpHdr,
};
use linerate::net::{ipv4::Ipv4Hdr, ipv4::proto, parse, parse::Network, parse::ParseOptions, view::view_mut};
use linerate::prelude::*;
use std::{mem::swap, process::ExitCode};

/// Makes the answer of a request; `None`, and nothing changed, for anything else.
fn answer(frame: &mut [u8], own: MacAddr) -> Option<()> {
    let layers = parse(frame, ParseOptions::PLAIN).outer;
    if let Some(arp) = view_mut::<ArpHdr>(frame, EthHdr::LEN).filter(|_| layers.ether_type == ether_type::ARP)
    {
        (arp.is_ethernet_ipv4() && arp.operation.get() == arp::REQUEST).then_some(())?;
        arp.operation.set(arp::REPLY);
        (arp.target_mac, arp.sender_mac) = (arp.sender_mac, own);
        (arp.target_ip, arp.sender_ip) = (arp.sender_ip, arp.target_ip);
    } else {
        (layers.network == Network::V4 && layers.l4_proto == proto::ICMP && layers.has_l4()).then_some(())?;
        let echo = view_mut::<IcmpHdr>(frame, layers.l4_off()).filter(|i| i.kind == icmp::ECHO_REQUEST)?;
        echo.kind = icmp::ECHO_REPLY;
        echo.checksum.set(checksum::update_u16(echo.checksum.get(), 0x0800, 0));
        let ip = view_mut::<Ipv4Hdr>(frame, layers.l3_off())?;
        swap(&mut ip.src, &mut ip.dst);
    }
    let eth = view_mut::<EthHdr>(frame, 0)?;
    (eth.dst, eth.src) = (eth.src, own);
    Some(())
}

/// Answers until the end of all input, or until it is told to stop; how many answers were sent.
pub fn respond(specs: &[String], stop: &StopSignal) -> Result<u64, linerate::Error> {
    let mut ports = start_ports(specs.iter().map(PortBuilder::new))?;
    let mut burst = Burst::new();
    while !stop.is_set() && !ports.iter_mut().all(StartedPort::is_exhausted) {
        for port in &mut ports {
            let own = port.port.info().mac;
            port.rx[0].rx_burst(&mut burst, 32);
            burst.retain(|packet| answer(packet.data_mut(), own).is_some());
            port.tx[0].tx_burst(&mut burst);
            burst.free_all();
            port.tx[0].end_of_poll();
        }
    }
    ports.into_iter().map(|port| Ok(port.stop()?.tx_packets)).sum()
}

fn main() -> ExitCode {
    linerate::run(|args, stop| {
        let default = ["null".to_string()];
        println!("answered: {}", respond(if args.is_empty() { &default } else { args }, stop)?);
        Ok(())
    })
}
