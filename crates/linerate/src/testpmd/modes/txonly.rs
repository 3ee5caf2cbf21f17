//! The mode txonly: UDP packets made from a template.

use super::{Requests, StreamContext};
use crate::testpmd::{engine::Mode, error::TestpmdError};
use linerate_mbuf::{Burst, Mbuf, Mempool, PORT_NONE, PacketType, RxTemplate};
use linerate_net::builder::{HEADERS_LEN, UdpFlow, UdpTemplate, set_frame_len, set_src_port};
use std::net::Ipv4Addr;

/// Most segments of a packet to be made.
pub(in crate::testpmd) const MAX_SEGMENTS: usize = 255;
/// Bytes of a packet that are written: a line, or the whole of a shorter packet. What lies behind is what the
/// buffer held.
const LEAD: usize = 64;

/// How a packet is spread over segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::testpmd) enum Split {
    /// All segments of --txpkts
    Off,
    /// The same as off
    On,
    /// 1 to all segments, by chance
    Rand,
}

/// What packets are wanted.
#[derive(Clone, Debug)]
pub(in crate::testpmd) struct TxOnlyPlan {
    /// Length of each segment.
    pub segments: Vec<u16>,
    pub split: Split,
    /// Source ports there are; 0 = one, the given one.
    pub flows: u8,
    pub addresses: (Ipv4Addr, Ipv4Addr),
    pub ports: (u16, u16),
}

impl TxOnlyPlan {
    /// Length of a packet of all segments.
    pub fn total(&self) -> usize {
        self.segments.iter().map(|&s| usize::from(s)).sum()
    }

    /// Checks lengths against each other and the buffers' room.
    ///
    /// # Errors
    ///
    /// Lengths with which no packet can be made (bug case 38).
    pub fn check(&self, data_room: u16) -> Result<(), TestpmdError> {
        let list = self.segments.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        let bad = |why: String| Err(TestpmdError::TxPackets { list: list.clone(), why });
        if self.segments.is_empty() || self.segments.len() > MAX_SEGMENTS {
            return bad(format!("{} segments; 1 to {MAX_SEGMENTS} are possible", self.segments.len()));
        }
        if self.segments.contains(&0) {
            return bad("a segment of no byte".into());
        }
        if self.total() < HEADERS_LEN || self.total() > usize::from(u16::MAX) {
            let (total, max) = (self.total(), u16::MAX);
            return bad(format!("{total} bytes in all; {HEADERS_LEN} to {max} are possible"));
        }
        if let Some(long) = self.segments.iter().find(|&&s| s > data_room) {
            return bad(format!("a segment of {long} bytes; a buffer holds {data_room} (see --mbuf-size)"));
        }
        let first = usize::from(self.segments[0]);
        if (self.split == Split::Rand || self.flows > 0) && first < HEADERS_LEN {
            return bad(format!(
                "the first segment has {first} bytes; with --txsplit rand or --txonly-multi-flow it holds the \
                 {HEADERS_LEN} bytes of headers"
            ));
        }
        Ok(())
    }
}

/// Makes packets.
#[derive(Debug)]
pub(in crate::testpmd) struct TxOnly {
    pool: Mempool,
    /// Sets a fresh buffer's lengths to those of the first segment.
    template: RxTemplate,
    headers: UdpTemplate,
    /// The first bytes of every packet: headers, then zeros.
    lead: [u8; LEAD],
    segments: Vec<u16>,
    split: Split,
    flows: u8,
    core: u8,
    /// The next packet's flow.
    flow: u8,
    /// State of the generator behind `--txsplit rand`.
    random: u64,
}

impl TxOnly {
    /// A maker for one stream; the plan was [checked](TxOnlyPlan::check).
    ///
    /// # Errors
    ///
    /// Lengths with which no packet can be made.
    pub fn new(stream: &StreamContext, plan: &TxOnlyPlan) -> Result<Self, TestpmdError> {
        plan.check(stream.pool.data_room())?;
        let flow = UdpFlow {
            src_ip: plan.addresses.0,
            dst_ip: plan.addresses.1,
            src_port: plan.ports.0,
            dst_port: plan.ports.1,
            ..UdpFlow::txonly(stream.peer, stream.own)
        };
        let headers = UdpTemplate::new(&flow, plan.total()).map_err(TestpmdError::Frame)?;
        let mut lead = [0; LEAD];
        lead[..HEADERS_LEN].copy_from_slice(headers.bytes());
        Ok(TxOnly {
            template: RxTemplate::new(&stream.pool, PORT_NONE)
                .with_packet(PacketType::UNKNOWN, plan.segments[0]),
            pool: stream.pool.clone(),
            headers,
            lead,
            segments: plan.segments.clone(),
            split: plan.split,
            flows: plan.flows,
            core: stream.core,
            flow: 0,
            random: 0x9E37_79B9_7F4A_7C15 ^ u64::from(stream.core),
        })
    }

    /// The headers of a packet of all segments.
    pub fn headers(&self) -> &[u8; HEADERS_LEN] {
        self.headers.bytes()
    }

    /// Takes buffers one by one where so many are not free at once.
    #[cold]
    #[inline(never)]
    fn take_few(&self, burst: &mut Burst, max: usize) {
        for _ in 0..max {
            if !self.pool.alloc_rx(&self.template, burst, 1) {
                break;
            }
        }
    }

    /// Writes packets of one segment; all of one flow need nothing but a copy.
    #[inline(always)]
    fn fill(&mut self, burst: &mut Burst) {
        let lead = self.lead;
        for m in burst.as_mut_slice() {
            let data = m.data_mut();
            match data.first_chunk_mut::<LEAD>() {
                Some(front) => *front = lead,
                None => {
                    let len = data.len();
                    data.copy_from_slice(&lead[..len]);
                }
            }
            Requests::NONE.apply(m);
        }
    }

    /// Source ports, segments, random lengths: whatever is not the same for all packets.
    #[inline(never)]
    fn fill_varied(&mut self, burst: &mut Burst) {
        let mut kept = 0;
        for m in burst.as_mut_slice() {
            if !self.make(m) {
                break;
            }
            kept += 1;
        }
        while burst.len() > kept {
            drop(burst.pop());
        }
    }

    /// Makes one packet of a buffer that has the first segment's length; false when further ones are not to be
    /// had.
    fn make(&mut self, m: &mut Mbuf) -> bool {
        let count = match self.split {
            Split::Rand => 1 + (self.next_random() % self.segments.len() as u64) as usize,
            Split::Off | Split::On => self.segments.len(),
        };
        let mut headers = *self.headers.bytes();
        let total: usize = self.segments[..count].iter().map(|&s| usize::from(s)).sum();
        // The lengths are those of this packet (bug case 38); `check` has seen that it holds the headers.
        if total != self.headers.frame_len() && set_frame_len(&mut headers, total).is_err() {
            return false;
        }
        if self.flows > 0 {
            set_src_port(&mut headers, u16::from_be_bytes([0xC0 + self.flow, self.core]));
        }
        let mut at = put(m.data_mut(), &headers);
        for &len in &self.segments[1..count] {
            let Some(mut segment) = self.pool.alloc() else { return false };
            let Some(data) = segment.append(len.into()) else { return false };
            at += put(data, headers.get(at..).unwrap_or_default());
            if m.chain(segment).is_err() {
                return false;
            }
        }
        Requests::NONE.apply(m);
        if self.flows > 0 {
            self.flow = (self.flow + 1) % self.flows;
        }
        true
    }

    /// An xorshift generator: which split a packet gets needs no better one.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Copies as much of `bytes` as fits; how many bytes.
fn put(to: &mut [u8], bytes: &[u8]) -> usize {
    let n = to.len().min(bytes.len());
    to[..n].copy_from_slice(&bytes[..n]);
    n
}

impl Mode for TxOnly {
    const RECEIVES: bool = false;

    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, max: usize) {
        if !self.pool.alloc_rx(&self.template, burst, max) {
            self.take_few(burst, max);
        }
        if self.flows == 0 && self.segments.len() == 1 {
            self.fill(burst);
        } else {
            self.fill_varied(burst);
        }
    }

    /// No flow is skipped because its packets were not taken.
    fn unsent(&mut self, count: usize) {
        if self.flows > 0 {
            let flows = usize::from(self.flows);
            self.flow = ((usize::from(self.flow) + flows - count % flows) % flows) as u8;
        }
    }
}
