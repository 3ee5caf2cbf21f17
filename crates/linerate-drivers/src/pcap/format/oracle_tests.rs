//! Files written here and read by the `pcap-file` crate, and the other way round.

use std::borrow::Cow;
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::SectionHeaderBlock;
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;

use super::{CaptureFormat, CaptureReader, CaptureWriter, Resolution, WriterOptions};

/// Time, bytes on the wire beyond the captured ones, segments.
type Packet = (u64, u16, Vec<Vec<u8>>);

/// Times up to 2106, the end of classic files.
fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let segment = prop::collection::vec(any::<u8>(), 0..200);
    let packet = (0u64..4_294_967_296_000_000_000, any::<u16>(), prop::collection::vec(segment, 0..4));
    prop::collection::vec(packet, 0..30)
}

fn write(packets: &[Packet], format: CaptureFormat, resolution: Resolution, snaplen: u32) -> Vec<u8> {
    let options = WriterOptions { format: Some(format), resolution, snaplen };
    let mut writer = CaptureWriter::new(Vec::new(), &options).unwrap();
    for (at, beyond, segments) in packets {
        let captured: usize = segments.iter().map(Vec::len).sum();
        let wire = captured as u32 + u32::from(*beyond);
        writer.write_record(*at, wire, segments.iter().map(Vec::as_slice)).unwrap();
    }
    assert_eq!(writer.records(), packets.len() as u64);
    writer.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_oracle_reads_classic(packets in packets(), nano in any::<bool>(), snaplen in 1u32..700) {
        let (resolution, theirs) = if nano {
            (Resolution::Nano, TsResolution::NanoSecond)
        } else {
            (Resolution::Micro, TsResolution::MicroSecond)
        };
        let file = write(&packets, CaptureFormat::Classic, resolution, snaplen);
        let mut oracle = PcapReader::new(&file[..]).unwrap();
        prop_assert_eq!(oracle.header().ts_resolution, theirs);
        prop_assert_eq!(oracle.header().snaplen, snaplen);
        prop_assert_eq!(oracle.header().datalink, DataLink::ETHERNET);
        for (at, beyond, segments) in &packets {
            let whole = segments.concat();
            // The oracle's checked packets may not be cut at the snap length, which is what it is for.
            let got = oracle.next_raw_packet().unwrap().unwrap();
            prop_assert_eq!(&got.data[..], &whole[..whole.len().min(snaplen as usize)]);
            prop_assert_eq!(got.orig_len, whole.len() as u32 + u32::from(*beyond));
            let unit = u64::from(resolution.nanos_per_unit());
            prop_assert_eq!(u64::from(got.ts_sec), at / 1_000_000_000);
            prop_assert_eq!(u64::from(got.ts_frac), at % 1_000_000_000 / unit);
        }
        prop_assert!(oracle.next_raw_packet().is_none());
    }

    #[test]
    fn the_oracle_reads_ng(packets in packets(), snaplen in 1u32..700) {
        let file = write(&packets, CaptureFormat::Ng, Resolution::Nano, snaplen);
        let mut oracle = PcapNgReader::new(&file[..]).unwrap();
        let mut seen = 0;
        while let Some(block) = oracle.next_block() {
            match block.unwrap().into_owned() {
                Block::InterfaceDescription(i) => {
                    prop_assert_eq!((i.linktype, i.snaplen), (DataLink::ETHERNET, snaplen));
                    prop_assert!(i.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                }
                Block::EnhancedPacket(got) => {
                    let (at, beyond, segments) = &packets[seen];
                    let whole = segments.concat();
                    prop_assert_eq!(&got.data[..], &whole[..whole.len().min(snaplen as usize)]);
                    prop_assert_eq!(got.original_len, whole.len() as u32 + u32::from(*beyond));
                    // The oracle of this version takes the raw count for nanoseconds.
                    prop_assert_eq!(got.timestamp, Duration::from_nanos(*at));
                    seen += 1;
                }
                other => prop_assert!(false, "unexpected {:?}", other),
            }
        }
        prop_assert_eq!(seen, packets.len());
    }

    #[test]
    fn classic_by_the_oracle_is_read(packets in packets(), nano in any::<bool>(), big in any::<bool>()) {
        let header = PcapHeader {
            ts_resolution: if nano { TsResolution::NanoSecond } else { TsResolution::MicroSecond },
            endianness: if big { Endianness::Big } else { Endianness::Little },
            datalink: DataLink::ETHERNET,
            ..PcapHeader::default()
        };
        let mut oracle = PcapWriter::with_header(Vec::new(), header).unwrap();
        for (at, beyond, segments) in &packets {
            let data = segments.concat();
            let orig_len = data.len() as u32 + u32::from(*beyond);
            oracle
                .write_packet(&PcapPacket::new_owned(Duration::from_nanos(*at), orig_len, data))
                .unwrap();
        }
        let file = oracle.into_writer();
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let unit = if nano { 1 } else { 1_000 };
        for (at, beyond, segments) in &packets {
            let data = segments.concat();
            let got = reader.next_record().unwrap().unwrap();
            prop_assert_eq!(got.data, &data[..]);
            prop_assert_eq!(got.wire_len, data.len() as u32 + u32::from(*beyond));
            prop_assert_eq!(got.timestamp_ns, Some(at / unit * unit));
        }
        prop_assert!(reader.next_record().unwrap().is_none());
    }

    #[test]
    fn ng_by_the_oracle_is_read(packets in packets(), big in any::<bool>()) {
        let section = SectionHeaderBlock {
            endianness: if big { Endianness::Big } else { Endianness::Little },
            ..SectionHeaderBlock::default()
        };
        let mut oracle = PcapNgWriter::with_section_header(Vec::new(), section).unwrap();
        oracle
            .write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed("cx0")),
                    InterfaceDescriptionOption::IfTsResol(9),
                ],
            })
            .unwrap();
        for (n, (at, beyond, segments)) in packets.iter().enumerate() {
            let data = segments.concat();
            let original_len = data.len() as u32 + u32::from(*beyond);
            if n % 3 == 2 {
                // A simple block has all of its packet, or it would be cut at the snap length.
                let block = SimplePacketBlock { original_len: data.len() as u32, data: Cow::Owned(data) };
                oracle.write_pcapng_block(block).unwrap();
            } else {
                let timestamp = Duration::from_nanos(*at);
                let data = Cow::Owned(data);
                let options = vec![];
                let block = EnhancedPacketBlock { interface_id: 0, timestamp, original_len, data, options };
                oracle.write_pcapng_block(block).unwrap();
            }
        }
        let file = oracle.into_inner();
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        for (n, (at, beyond, segments)) in packets.iter().enumerate() {
            let data = segments.concat();
            let got = reader.next_record().unwrap().unwrap();
            prop_assert_eq!(got.data, &data[..]);
            if n % 3 == 2 {
                prop_assert_eq!(got.timestamp_ns, None);
            } else {
                prop_assert_eq!(got.timestamp_ns, Some(*at));
                prop_assert_eq!(got.wire_len, data.len() as u32 + u32::from(*beyond));
            }
        }
        prop_assert!(reader.next_record().unwrap().is_none());
    }
}
