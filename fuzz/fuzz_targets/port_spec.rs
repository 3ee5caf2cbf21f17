//! Any text as a port's description. The body lives beside a driver whose keys it is resolved against.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linerate_drivers::pcap::fuzzing::port_spec(data));
