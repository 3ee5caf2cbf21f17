//! The tester's frames: what a sequence number looks like on the wire, before and after the forwarder.
//!
//! ```text
//!  0        14       34     42     46      48          56
//!  Ethernet │ IPv4   │ UDP  │ LRNT │stream │ sequence  │ pattern: a function of stream, sequence and place
//! ```
//! Sender and check each build the whole frame from stream and sequence number, the check with what the mode
//! legitimately changes already in its template; nothing of the forwarder's own code is used for that.

use crate::testpmd::modes::ModeName;
use linerate_net::{
    MacAddr,
    builder::{BuildError, HEADERS_LEN, UdpFlow, UdpTemplate, fill_udp_checksum},
};
use std::net::Ipv4Addr;

/// UDP flows of a stream: the port numbers that frames go round.
const FLOWS: u64 = 64;
const FIRST_PORT: u16 = 1024;
const MAGIC: [u8; 4] = *b"LRNT";
/// Where the payload's parts stand.
const STREAM_AT: usize = HEADERS_LEN + MAGIC.len();
const SEQUENCE_AT: usize = STREAM_AT + 2;
const PATTERN_AT: usize = SEQUENCE_AT + 8;
/// The shortest frame that has room for all of it.
pub(in crate::testpmd) const MIN_FRAME: usize = PATTERN_AT + 8;

/// Where the UDP ports stand.
const SRC_PORT_AT: usize = 34;
const DST_PORT_AT: usize = 36;

/// Who is who on the way of one stream.
#[derive(Clone, Copy, Debug)]
pub(in crate::testpmd) struct Way {
    /// Number of the stream.
    pub stream: u16,
    /// MAC address of the tester where frames begin.
    pub tester: MacAddr,
    /// MAC address of the port that receives them.
    pub near: MacAddr,
    /// MAC address of the port that sends them on.
    pub out: MacAddr,
    /// MAC address of that port's peer.
    pub peer: MacAddr,
}

/// Builds the frames of one stream, as sent or as expected back.
#[derive(Clone, Debug)]
pub(in crate::testpmd) struct FrameMaker {
    template: UdpTemplate,
    /// Where the UDP port stands that tells the flow.
    flow_at: usize,
    stream: u16,
    seed: u64,
    /// Checksums that are wrong on purpose, for the mode that mends them.
    spoilt: bool,
}

impl FrameMaker {
    /// Frames of `len` bytes as the tester sends them; the mode csum gets wrong checksums to mend.
    ///
    /// # Errors
    ///
    /// A length of which no frame can be made.
    pub fn sent(way: &Way, mode: ModeName, len: usize, seed: u64) -> Result<Self, BuildError> {
        Self::new(way.stream, flow(way), SRC_PORT_AT, len, seed, mode == ModeName::Csum)
    }

    /// The same frames as they come back when `mode` did its work (`mac_rewrite`: csum sets MAC addresses).
    ///
    /// # Errors
    ///
    /// A length of which no frame can be made.
    pub fn expected(
        way: &Way,
        mode: ModeName,
        mac_rewrite: bool,
        len: usize,
        seed: u64,
    ) -> Result<Self, BuildError> {
        let sent = flow(way);
        let (mut back, mut flow_at) = (sent, SRC_PORT_AT);
        match mode {
            ModeName::Io
            | ModeName::Rxonly
            | ModeName::Txonly
            | ModeName::Icmpecho
            | ModeName::Flowgen
            | ModeName::Noisy => {}
            ModeName::Csum if !mac_rewrite => {}
            ModeName::Mac | ModeName::Csum => (back.dst_mac, back.src_mac) = (way.peer, way.out),
            ModeName::Macswap => (back.dst_mac, back.src_mac) = (sent.src_mac, sent.dst_mac),
            ModeName::FiveTupleSwap => {
                (back.dst_mac, back.src_mac) = (sent.src_mac, sent.dst_mac);
                (back.dst_ip, back.src_ip) = (sent.src_ip, sent.dst_ip);
                (back.dst_port, back.src_port) = (sent.src_port, sent.dst_port);
                flow_at = DST_PORT_AT;
            }
        }
        Self::new(way.stream, back, flow_at, len, seed, false)
    }

    fn new(
        stream: u16,
        flow: UdpFlow,
        flow_at: usize,
        len: usize,
        seed: u64,
        spoilt: bool,
    ) -> Result<Self, BuildError> {
        if len < MIN_FRAME {
            return Err(BuildError::FrameLen { frame_len: len });
        }
        Ok(FrameMaker { template: UdpTemplate::new(&flow, len)?, flow_at, stream, seed, spoilt })
    }

    /// Bytes of a frame.
    pub fn len(&self) -> usize {
        self.template.frame_len()
    }

    /// Writes frame number `sequence` over `frame`, which has the maker's length.
    pub fn write(&self, frame: &mut [u8], sequence: u64) {
        if frame.len() != self.len() || !self.template.write(frame) {
            return;
        }
        let port = FIRST_PORT + (sequence % FLOWS) as u16;
        put(frame, self.flow_at, port.to_be_bytes());
        put(frame, HEADERS_LEN, MAGIC);
        put(frame, STREAM_AT, self.stream.to_be_bytes());
        put(frame, SEQUENCE_AT, sequence.to_be_bytes());
        let mut state = self.seed ^ u64::from(self.stream) << 48 ^ sequence;
        for piece in frame[PATTERN_AT..].chunks_mut(8) {
            let word = mix(&mut state).to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
        fill_udp_checksum(frame);
        if self.spoilt {
            frame[25] ^= 0x5a;
            // Never 0, which would say that there is none to be mended.
            frame[40] = frame[40] ^ 0xa5 | 1;
        }
    }

    /// The sequence number that a frame claims to have, if it claims to be of this stream.
    pub fn sequence_of(&self, frame: &[u8]) -> Option<u64> {
        let head = frame.get(HEADERS_LEN..PATTERN_AT)?;
        if head[..4] != MAGIC || head[4..6] != self.stream.to_be_bytes() {
            return None;
        }
        head[6..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
    }
}

/// The flow as it is sent.
fn flow(way: &Way) -> UdpFlow {
    let [high, low] = way.stream.to_be_bytes();
    UdpFlow {
        dst_mac: way.near,
        src_mac: way.tester,
        // RFC 2544's network for benchmarks.
        src_ip: Ipv4Addr::new(198, 18, high, low),
        dst_ip: Ipv4Addr::new(198, 19, high, low),
        src_port: FIRST_PORT,
        dst_port: 9,
    }
}

fn put<const N: usize>(frame: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(room) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *room = bytes;
    }
}

/// SplitMix64: one word of the pattern after the other.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_net::{
        ParseOptions,
        checksum::Verdict,
        csum_engine::{CsumOptions, recompute},
        csum_verify::verify,
        swap,
    };

    fn way() -> Way {
        Way {
            stream: 3,
            tester: MacAddr::new([2, 0x54, 0, 0, 0, 1]),
            near: MacAddr::new([2, 0x52, 0, 0, 0, 0]),
            out: MacAddr::new([2, 0x52, 0, 0, 0, 1]),
            peer: MacAddr::peer(1),
        }
    }

    fn frame(maker: &FrameMaker, sequence: u64) -> Vec<u8> {
        let mut bytes = vec![0xee; maker.len()];
        maker.write(&mut bytes, sequence);
        bytes
    }

    #[test]
    fn frames_are_real_and_all_different() {
        for len in [64, 65, 71, 128, 1514, 9000] {
            let maker = FrameMaker::sent(&way(), ModeName::Io, len, 7).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for sequence in [0, 1, 63, 64, u64::MAX] {
                let bytes = frame(&maker, sequence);
                let v = verify(&bytes, ParseOptions::PLAIN);
                assert_eq!((v.ip, v.l4), (Verdict::Good, Verdict::Good));
                assert_eq!(maker.sequence_of(&bytes), Some(sequence));
                assert!(seen.insert(bytes[PATTERN_AT..].to_vec()));
            }
        }
        let other = FrameMaker::sent(&Way { stream: 4, ..way() }, ModeName::Io, 64, 7).unwrap();
        let maker = FrameMaker::sent(&way(), ModeName::Io, 64, 7).unwrap();
        assert_eq!(other.sequence_of(&frame(&maker, 5)), None);
        assert!(FrameMaker::sent(&way(), ModeName::Io, 63, 7).is_err());
    }

    /// What is expected is what the mode makes of what is sent: both sides were written apart.
    #[test]
    fn what_is_expected_is_what_each_mode_makes() {
        let pair = swap::MacPair::new(way().peer, way().out);
        for sequence in [0, 1, 77, 1 << 40] {
            for (mode, rewrite) in [
                (ModeName::Io, true),
                (ModeName::Mac, true),
                (ModeName::Macswap, true),
                (ModeName::FiveTupleSwap, true),
                (ModeName::Csum, true),
                (ModeName::Csum, false),
            ] {
                let mut bytes = frame(&FrameMaker::sent(&way(), mode, 90, 7).unwrap(), sequence);
                match mode {
                    ModeName::Mac => pair.write(&mut bytes),
                    ModeName::Macswap => swap::mac_swap(&mut bytes),
                    ModeName::FiveTupleSwap => swap::five_tuple_swap(&mut bytes),
                    ModeName::Csum => {
                        let v = verify(&bytes, ParseOptions::PLAIN);
                        assert_eq!((v.ip, v.l4), (Verdict::Bad, Verdict::Bad), "there is something to mend");
                        if rewrite {
                            pair.write(&mut bytes);
                        }
                        recompute(&mut bytes, CsumOptions::default());
                    }
                    _ => {}
                }
                let back = FrameMaker::expected(&way(), mode, rewrite, 90, 7).unwrap();
                assert_eq!(bytes, frame(&back, sequence), "{mode:?}");
                assert_eq!(back.sequence_of(&bytes), Some(sequence));
            }
        }
    }
}
