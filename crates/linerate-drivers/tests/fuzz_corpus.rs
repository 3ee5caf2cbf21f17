//! Replays the corpora of the fuzz targets through the bodies of the targets.

use std::path::Path;

fn replay(target: &str, body: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs = 0;
    for entry in std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        println!("{}", path.display());
        body(&data);
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", dir.display());
}

#[test]
fn pcap_reader() {
    replay("pcap_reader", linerate_drivers::pcap::fuzzing::pcap_reader);
}

#[test]
fn port_spec() {
    replay("port_spec", linerate_drivers::pcap::fuzzing::port_spec);
}
