//! Bodies of the fuzz targets, so that the normal tests replay their corpora through the same code.

use linerate_port::PortSpec;
use std::io::{self, Read};

use super::ENTRY;
use super::format::{
    CaptureFormat, CaptureReader, CaptureWriter, MAX_CAPTURED, PcapError, Resolution, WriterOptions,
};

/// Gives so many bytes at a time.
struct Chunks<'a>(usize, &'a [u8]);

impl Read for Chunks<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let (now, rest) = self.1.split_at(self.0.min(to.len()).min(self.1.len()));
        to[..now.len()].copy_from_slice(now);
        self.1 = rest;
        Ok(now.len())
    }
}

/// A packet as it was read: its bytes, wire length and time.
type Packet = (Vec<u8>, u32, Option<u64>);

fn read_all(source: impl Read) -> (Vec<Packet>, Option<PcapError>) {
    let mut packets = Vec::new();
    let mut reader = match CaptureReader::new(source) {
        Ok(reader) => reader,
        Err(e) => return (packets, Some(e)),
    };
    loop {
        match reader.next_record() {
            Ok(Some(r)) => {
                assert!(r.data.len() <= MAX_CAPTURED as usize && r.data.len() <= r.wire_len as usize);
                packets.push((r.data.to_vec(), r.wire_len, r.timestamp_ns));
            }
            Ok(None) => return (packets, None),
            Err(e) => {
                // An error stays.
                assert_eq!(reader.next_record().unwrap_err().to_string(), e.to_string());
                return (packets, Some(e));
            }
        }
    }
}

/// Reads any bytes as a capture: it ends, delivers no more than the bytes hold, does not depend on how the bytes
/// arrive, and what was read can be written in both formats and read back.
///
/// # Panics
///
/// When one of that does not hold.
pub fn pcap_reader(data: &[u8]) {
    let (packets, error) = read_all(data);
    assert!(packets.len() <= data.len() / 12);
    assert!(packets.iter().map(|p| p.0.len()).sum::<usize>() <= data.len());
    if let Some(e) = &error {
        assert!(!e.hint().is_empty());
    }
    let (slow, slow_error) = read_all(Chunks(13, data));
    assert_eq!(slow, packets);
    assert_eq!(slow_error.map(|e| e.to_string()), error.map(|e| e.to_string()));

    for format in [CaptureFormat::Classic, CaptureFormat::Ng] {
        let options =
            WriterOptions { format: Some(format), resolution: Resolution::Nano, snaplen: MAX_CAPTURED };
        let mut writer = CaptureWriter::new(Vec::new(), &options).expect("good options");
        let mut kept = Vec::new();
        for (bytes, wire_len, timestamp_ns) in &packets {
            let (front, back) = bytes.split_at(bytes.len() / 3);
            match writer.write_record(timestamp_ns.unwrap_or(0), *wire_len, [front, back]) {
                Ok(()) => kept.push((bytes.clone(), *wire_len, Some(timestamp_ns.unwrap_or(0)))),
                Err(PcapError::TimeTooLate { .. }) => assert_eq!(format, CaptureFormat::Classic),
                Err(e) => panic!("{e}"),
            }
        }
        let file = writer.finish().expect("memory takes everything");
        let (back, error) = read_all(&file[..]);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(back, kept);
    }
}

/// Reads any text as a port's description, with the keys of this driver: whatever is wrong is pointed at within
/// the text, and what is right keeps its text.
///
/// # Panics
///
/// When one of that does not hold.
pub fn port_spec(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let spec = match text.parse::<PortSpec>() {
        Ok(spec) => spec,
        Err(e) => {
            assert!(e.at <= e.text.len() && e.text.is_char_boundary(e.at), "{e:?}");
            assert!(!e.to_string().is_empty() && !e.hint().is_empty(), "{e:?}");
            return;
        }
    };
    assert_eq!(spec.text(), text);
    assert!(spec.name().starts_with(spec.driver()));
    let faults = [
        spec.resolve(&[ENTRY]).err(),
        spec.switch("infinite_rx", false).err(),
        spec.number("tx_snaplen", 1, 1..=9).err(),
        Some(spec.bad_value("rx_pcap", "bad", "another")),
    ];
    for e in faults.into_iter().flatten() {
        assert!(e.at <= e.text.len() && e.text.is_char_boundary(e.at), "{e:?}");
        assert!(e.to_string().contains(&e.text) && !e.hint().is_empty(), "{e:?}");
    }
    assert_eq!(spec.values("rx_pcap").next(), spec.value("rx_pcap"));
}

#[cfg(test)]
mod tests {
    /// Descriptions that reach the different parts of the parser.
    const SPECS: &[&str] = &[
        "null",
        "ring:r0",
        "pcap:rx_pcap=in.pcap,tx_pcap=out.pcap,infinite_rx=1",
        "pcap:rx_pcap=\"a,b.pcap\",rx_pcap=c=d,tx_snaplen=0x40",
        "pcap:tx_pcap=\"a\\\"\\\\b\",infinite_rx=2",
        "pcap:rx_pcap=a,infinite_rx=1,infinite_rx=0",
        "pcap:tx_snaplen=18446744073709551616",
        "pcap:tx_snaplen=0x",
        "mlx5:0000:03:00.0,mprq_en=1",
        "pcap:rxpcap=a",
        "pcap:dev",
        "pcap:\"unended",
        "pcap:\"a\\n\"",
        "pcap:a=1,,b=2",
        "pcap:a=1,",
        "pcap:=1",
        "pcap,a=1",
        ":",
        ",",
        "",
        "n\u{fc}ll:a=1",
        "pcap:\u{fc}=\u{fc},tx_time=\u{1f980}",
        "pcap:a=\n\0\t",
        "p cap",
    ];

    fn corpus() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/port_spec")
    }

    /// `cargo test -p linerate-drivers write_the_spec_corpus -- --ignored`.
    #[test]
    #[ignore = "writes into fuzz/corpus/port_spec"]
    fn write_the_spec_corpus() {
        std::fs::create_dir_all(corpus()).unwrap();
        for (n, text) in SPECS.iter().enumerate() {
            std::fs::write(corpus().join(format!("spec-{n:02}")), text).unwrap();
        }
    }

    #[test]
    fn the_corpus_holds_every_spec() {
        for (n, text) in SPECS.iter().enumerate() {
            super::port_spec(text.as_bytes());
            let found = std::fs::read(corpus().join(format!("spec-{n:02}"))).unwrap_or_default();
            assert!(found == text.as_bytes(), "{n} is stale; run write_the_spec_corpus");
        }
    }
}
