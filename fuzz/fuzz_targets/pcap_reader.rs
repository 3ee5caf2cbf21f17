//! Any bytes as a capture file. The body lives beside the reader, where the normal tests replay the corpus.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linerate_drivers::pcap::fuzzing::pcap_reader(data));
