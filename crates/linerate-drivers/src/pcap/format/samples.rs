//! Small files of every kind, put together byte by byte and not by the encoders under test.

use super::NANOS_PER_SECOND;

/// What a reader must find.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) data: Vec<u8>,
    pub(super) wire_len: u32,
    pub(super) timestamp_ns: Option<u64>,
    pub(super) interface: u32,
}

/// A file and what is in it.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) packets: Vec<Packet>,
}

/// Integers in one byte order.
#[derive(Clone, Copy)]
pub(super) struct Enc(pub(super) bool);

impl Enc {
    pub(super) fn u16(self, v: u16) -> [u8; 2] {
        if self.0 { v.to_be_bytes() } else { v.to_le_bytes() }
    }
    pub(super) fn u32(self, v: u32) -> [u8; 4] {
        if self.0 { v.to_be_bytes() } else { v.to_le_bytes() }
    }
    pub(super) fn u64(self, v: u64) -> [u8; 8] {
        if self.0 { v.to_be_bytes() } else { v.to_le_bytes() }
    }

    /// Any block around a body, which is padded.
    pub(super) fn block(self, block: u32, body: &[&[u8]]) -> Vec<u8> {
        let mut body = body.concat();
        body.resize(body.len().next_multiple_of(4), 0);
        let total = self.u32(body.len() as u32 + 12);
        [&self.u32(block)[..], &total, &body, &total].concat()
    }

    pub(super) fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut out = [&self.u16(code)[..], &self.u16(value.len() as u16), value].concat();
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    pub(super) fn section(self, options: &[u8]) -> Vec<u8> {
        let (magic, version) = (self.u32(0x1a2b_3c4d), [self.u16(1), self.u16(0)].concat());
        self.block(0x0a0d_0d0a, &[&magic, &version, &self.u64(u64::MAX), options])
    }

    pub(super) fn interface(self, link: u16, snaplen: u32, options: &[u8]) -> Vec<u8> {
        self.block(1, &[&self.u16(link), &[0; 2], &self.u32(snaplen), options])
    }

    pub(super) fn enhanced(
        self,
        interface: u32,
        units: u64,
        wire: u32,
        data: &[u8],
        options: &[u8],
    ) -> Vec<u8> {
        let mut padded = data.to_vec();
        padded.resize(data.len().next_multiple_of(4), 0);
        let (high, low) = (self.u32((units >> 32) as u32), self.u32(units as u32));
        let lengths = [self.u32(data.len() as u32), self.u32(wire)].concat();
        self.block(6, &[&self.u32(interface), &high, &low, &lengths, &padded, options])
    }

    fn obsolete(self, interface: u16, units: u64, wire: u32, data: &[u8]) -> Vec<u8> {
        let (high, low) = (self.u32((units >> 32) as u32), self.u32(units as u32));
        let lengths = [self.u32(data.len() as u32), self.u32(wire)].concat();
        self.block(2, &[&self.u16(interface), &self.u16(0xffff), &high, &low, &lengths, data])
    }

    fn simple(self, wire: u32, data: &[u8]) -> Vec<u8> {
        self.block(3, &[&self.u32(wire), data])
    }

    pub(super) fn classic_header(self, magic: u32, snaplen: u32, link: u32) -> Vec<u8> {
        let version = [self.u16(2), self.u16(4)].concat();
        [&self.u32(magic)[..], &version, &[0; 8], &self.u32(snaplen), &self.u32(link)].concat()
    }

    pub(super) fn classic_record(self, seconds: u32, fraction: u32, wire: u32, data: &[u8]) -> Vec<u8> {
        let lengths = [self.u32(data.len() as u32), self.u32(wire)].concat();
        [&self.u32(seconds)[..], &self.u32(fraction), &lengths, data].concat()
    }
}

/// Bytes that differ from packet to packet.
pub(super) fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|n| seed.wrapping_mul(31).wrapping_add(n as u8)).collect()
}

fn packet(data: &[u8], wire_len: u32, timestamp_ns: Option<u64>, interface: u32) -> Packet {
    Packet { data: data.to_vec(), wire_len, timestamp_ns, interface }
}

/// One file of every kind.
pub(super) fn all() -> Vec<Sample> {
    let mut samples = Vec::new();
    for swapped in [false, true] {
        let order = if swapped { "big" } else { "little" };
        for (magic, unit, fraction) in
            [(0xa1b2_c3d4, "micro", 999_999u32), (0xa1b2_3c4d, "nano", 999_999_999)]
        {
            samples.push(classic(Enc(swapped), magic, fraction, format!("classic-{unit}-{order}")));
        }
        samples.push(every_block(Enc(swapped), format!("ng-blocks-{order}")));
        samples.push(units(Enc(swapped), format!("ng-units-{order}")));
    }
    let two = [every_block(Enc(true), String::new()), units(Enc(false), String::new())];
    samples.push(Sample {
        name: "ng-two-sections".into(),
        bytes: two.iter().flat_map(|s| s.bytes.clone()).collect(),
        packets: two.iter().flat_map(|s| s.packets.clone()).collect(),
    });
    samples.push(Sample {
        name: "classic-empty".into(),
        bytes: Enc(false).classic_header(0xa1b2_c3d4, 0, 1),
        packets: vec![],
    });
    samples.push(Sample { name: "ng-empty".into(), bytes: Enc(false).section(&[]), packets: vec![] });
    samples
}

fn classic(e: Enc, magic: u32, fraction: u32, name: String) -> Sample {
    let unit = if fraction > 1_000_000 { 1 } else { 1_000 };
    let mut file = e.classic_header(magic, 100, 1);
    let mut packets = Vec::new();
    for (n, (length, wire)) in [(60, 60), (0, 1514), (100, 1514), (61, 3)].into_iter().enumerate() {
        let data = bytes(length, n as u8);
        let seconds = u32::MAX - 3 + n as u32;
        file.extend(e.classic_record(seconds, fraction, wire, &data));
        let nanos = u64::from(seconds) * NANOS_PER_SECOND + u64::from(fraction) * unit;
        packets.push(packet(&data, wire.max(length as u32), Some(nanos), 0));
    }
    Sample { name, bytes: file, packets }
}

/// Every packet block among blocks that are skipped, with options.
fn every_block(e: Enc, name: String) -> Sample {
    let comment = [e.option(1, b"hello"), e.option(0, &[])].concat();
    let mut file = e.section(&comment);
    file.extend(e.block(4, &[&[0; 8]])); // name resolution
    file.extend(e.interface(1, 64, &[e.option(2, b"eth0"), comment.clone()].concat()));
    let (a, b, c) = (bytes(61, 1), bytes(64, 2), bytes(60, 3));
    file.extend(e.enhanced(0, 1_000_001, 61, &a, &[]));
    file.extend(e.block(0x0bad, &[&bytes(9, 9)])); // custom
    file.extend(e.simple(1500, &b)); // cut at the snap length
    file.extend(e.simple(60, &c));
    file.extend(e.obsolete(0, 2_000_000, 1514, &c));
    file.extend(e.block(5, &[&[0; 12]])); // interface statistics
    file.extend(e.enhanced(0, 0, 0, &[], &comment));
    file.extend(e.enhanced(0, u64::MAX / 1000, 61, &a, &e.option(2, &[0; 4]))); // options without an end
    file.extend(e.block(0x8000_0001, &[])); // private, without a body
    let packets = vec![
        packet(&a, 61, Some(1_000_001_000), 0),
        packet(&b, 1500, None, 0),
        packet(&c, 60, None, 0),
        packet(&c, 1514, Some(2_000_000_000), 0),
        packet(&[], 0, Some(0), 0),
        packet(&a, 61, Some(u64::MAX / 1000 * 1000), 0),
    ];
    Sample { name, bytes: file, packets }
}

/// Several interfaces, each with its unit and offset; the last is described after the first packet.
fn units(e: Enc, name: String) -> Sample {
    let mut file = e.section(&[]);
    let minus_one_hour = e.u64((-3600i64) as u64);
    let described = [
        (vec![], 7_000_000, 7 * NANOS_PER_SECOND),
        (e.option(9, &[9]), 7, 7),
        (e.option(9, &[0x80 | 20]), 3 << 19, 1_500_000_000),
        ([e.option(9, &[0]), e.option(14, &minus_one_hour)].concat(), 3601, NANOS_PER_SECOND),
        (
            [e.option(9, &[12]), e.option(14, &e.u64(1_700_000_000))].concat(),
            5_999,
            1_700_000_000 * NANOS_PER_SECOND + 5,
        ),
    ];
    let mut packets = Vec::new();
    for (n, (options, at, nanos)) in described.into_iter().enumerate() {
        let data = bytes(60 + n, n as u8);
        file.extend(e.interface(1, 0, &options));
        file.extend(e.enhanced(n as u32, at, 60 + n as u32, &data, &[]));
        packets.push(packet(&data, 60 + n as u32, Some(nanos), n as u32));
    }
    Sample { name, bytes: file, packets }
}

/// Bytes that the corpus of one target may take.
const CORPUS_BYTES: u64 = 200_000;

/// Writes the samples, and each of them cut and damaged in a few places, into the corpus of the fuzz target:
/// `cargo test -p linerate-drivers write_the_corpus -- --ignored`.
#[test]
#[ignore = "writes into fuzz/corpus/pcap_reader"]
fn write_the_corpus() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/pcap_reader");
    std::fs::create_dir_all(&dir).unwrap();
    for sample in all() {
        let (name, file) = (&sample.name, &sample.bytes);
        std::fs::write(dir.join(name), file).unwrap();
        std::fs::write(dir.join(format!("{name}-cut")), &file[..file.len() * 3 / 4]).unwrap();
        let mut damaged = file.clone();
        for at in (0..file.len()).skip(36).step_by(97) {
            damaged[at] ^= 0x40;
        }
        std::fs::write(dir.join(format!("{name}-damaged")), damaged).unwrap();
    }
}

/// Every sample is in the corpus as it is here, and the corpus is small.
#[test]
fn the_corpus_holds_every_sample() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/pcap_reader");
    for sample in all() {
        let found = std::fs::read(dir.join(&sample.name)).unwrap_or_default();
        assert!(found == sample.bytes, "{} is stale; run write_the_corpus", sample.name);
    }
    let total: u64 = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum();
    assert!(total <= CORPUS_BYTES, "{total} bytes");
}
