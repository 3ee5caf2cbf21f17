//! Poll-mode drivers without hardware: null, ring, pcap

pub mod pcap;
