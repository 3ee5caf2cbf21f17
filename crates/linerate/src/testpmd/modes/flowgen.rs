//! The mode flowgen: what comes is freed, and UDP packets of many flows are made.

use super::{Requests, StreamContext};
use crate::testpmd::{engine::Mode, error::TestpmdError};
use linerate_mbuf::{Burst, Mempool, PORT_NONE, PacketType, RxTemplate, SharedMbuf};
use linerate_net::{
    MacAddr,
    builder::{HEADERS_LEN, UdpFlow, UdpTemplate},
    checksum::Sum,
};
use linerate_port::TxQueue;
use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// Bytes of a packet that are written: a line, or the whole of a shorter packet.
const LEAD: usize = 64;
/// Bytes that `--txpkts` counts beyond the frame: its check sequence.
const CHECK_SEQUENCE: usize = 4;
/// Where the IPv4 header's checksum and destination stand.
const CHECKSUM_AT: usize = 24;
const DESTINATION_AT: usize = 30;

/// What packets are wanted.
#[derive(Clone, Copy, Debug)]
pub(in crate::testpmd) struct FlowgenPlan {
    /// Bytes of all segments of `--txpkts`.
    pub total: usize,
    /// Destination addresses that packets go round, 1 or more.
    pub flows: u32,
    /// How often each packet is sent once more without a copy.
    pub clones: u16,
}

impl FlowgenPlan {
    /// Checks the length against the buffers' room: a packet has one segment.
    ///
    /// # Errors
    ///
    /// A length of which no packet can be made.
    pub fn check(&self, data_room: u16) -> Result<(), TestpmdError> {
        let (total, room) = (self.total, usize::from(data_room) + CHECK_SEQUENCE);
        let least = HEADERS_LEN + CHECK_SEQUENCE;
        if (least..=room).contains(&total) {
            return Ok(());
        }
        Err(TestpmdError::Option {
            option: "--txpkts",
            why: format!(
                "{total} bytes in all; flowgen makes packets of one buffer, of {least} to {room} bytes with \
                 the check sequence"
            ),
            hint: "give a length such as --txpkts 64, or a larger --mbuf-size".into(),
        })
    }
}

/// The next packet's flow, one number a core for all its streams.
#[derive(Debug)]
pub(in crate::testpmd) struct FlowIndexes(Vec<Arc<AtomicU32>>);

impl FlowIndexes {
    pub fn new(cores: usize) -> Self {
        FlowIndexes((0..cores).map(|_| Arc::default()).collect())
    }

    fn of(&self, core: u8) -> Arc<AtomicU32> {
        self.0.get(usize::from(core)).cloned().unwrap_or_default()
    }
}

/// Makes packets, each one sent once.
#[derive(Debug)]
pub(in crate::testpmd) struct Flowgen {
    pool: Mempool,
    /// Sets a fresh buffer's length and headroom.
    template: RxTemplate,
    /// The first bytes of every packet, without checksum and destination.
    lead: [u8; LEAD],
    /// The IPv4 header's sum without destination.
    sum: Sum,
    flows: u32,
    /// Only the core's own thread counts with it.
    next: Arc<AtomicU32>,
}

/// flowgen's first destination.
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 253, 0, 0);

impl Flowgen {
    /// A maker for one stream.
    ///
    /// # Errors
    ///
    /// As [`FlowgenPlan::check`].
    pub fn new(
        stream: &StreamContext,
        plan: &FlowgenPlan,
        indexes: &FlowIndexes,
    ) -> Result<Self, TestpmdError> {
        plan.check(stream.pool.data_room())?;
        let flow = UdpFlow {
            src_mac: MacAddr::new([0, 1, 2, 3, 4, 0]),
            dst_mac: MacAddr::new([0, 1, 2, 3, 4, 1]),
            src_ip: Ipv4Addr::new(10, 254, 0, 0),
            dst_ip: Ipv4Addr::UNSPECIFIED,
            src_port: 1000,
            dst_port: 1001,
        };
        let frame_len = plan.total - CHECK_SEQUENCE;
        let headers = UdpTemplate::new(&flow, frame_len).map_err(TestpmdError::Frame)?;
        let mut lead = [0; LEAD];
        lead[..HEADERS_LEN].copy_from_slice(headers.bytes());
        lead[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
        Ok(Flowgen {
            template: RxTemplate::new(&stream.pool, PORT_NONE)
                .with_packet(PacketType::UNKNOWN, frame_len as u16),
            pool: stream.pool.clone(),
            sum: Sum::of(&lead[14..34]),
            lead,
            flows: plan.flows,
            next: indexes.of(stream.core),
        })
    }

    /// The first bytes of a packet of this flow.
    #[inline(always)]
    fn lead(&self, flow: u32) -> [u8; LEAD] {
        let destination = (DESTINATION.to_bits() + flow).to_be_bytes();
        let mut lead = self.lead;
        lead[DESTINATION_AT..DESTINATION_AT + 4].copy_from_slice(&destination);
        let sum = self.sum.plus(Sum::of_4(destination)).to_wire();
        lead[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum);
        lead
    }

    /// Takes up to `max` buffers.
    #[inline(always)]
    fn take(&self, burst: &mut Burst, max: usize) {
        if !self.pool.alloc_rx(&self.template, burst, max) {
            self.take_few(burst, max);
        }
    }

    #[cold]
    #[inline(never)]
    fn take_few(&self, burst: &mut Burst, max: usize) {
        for _ in 0..max {
            if !self.pool.alloc_rx(&self.template, burst, 1) {
                break;
            }
        }
    }

    /// Fills fresh buffers, of which each stands for `step` packets; the flow after `count` packets is noted.
    #[inline(always)]
    fn fill(&self, burst: &mut Burst, step: u32, count: usize) {
        let first = self.next.load(Relaxed);
        let mut flow = first;
        for m in burst.as_mut_slice() {
            let lead = self.lead(flow);
            let data = m.data_mut();
            match data.first_chunk_mut::<LEAD>() {
                Some(front) => *front = lead,
                None => {
                    let len = data.len();
                    data.copy_from_slice(&lead[..len]);
                }
            }
            Requests::NONE.apply(m);
            flow += step;
            if flow >= self.flows {
                flow %= self.flows;
            }
        }
        self.next.store((first + count as u32 % self.flows) % self.flows, Relaxed);
    }

    /// No flow is skipped because its packets were not taken.
    fn roll_back(&self, count: usize) {
        let back = count as u32 % self.flows;
        self.next.store((self.next.load(Relaxed) + self.flows - back) % self.flows, Relaxed);
    }
}

impl Mode for Flowgen {
    const MAKES: bool = true;

    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, max: usize) {
        burst.free_all();
        self.take(burst, max);
        self.fill(burst, 1, burst.len());
    }

    fn unsent(&mut self, count: usize) {
        self.roll_back(count);
    }
}

/// Makes packets, each one sent several times through its reference count.
#[derive(Debug)]
pub(in crate::testpmd) struct FlowgenClones {
    maker: Flowgen,
    /// How often each packet is sent.
    times: usize,
    shared: Burst<SharedMbuf>,
}

impl FlowgenClones {
    /// A maker for one stream.
    ///
    /// # Errors
    ///
    /// As [`FlowgenPlan::check`].
    pub fn new(
        stream: &StreamContext,
        plan: &FlowgenPlan,
        indexes: &FlowIndexes,
    ) -> Result<Self, TestpmdError> {
        let maker = Flowgen::new(stream, plan, indexes)?;
        Ok(FlowgenClones { maker, times: usize::from(plan.clones) + 1, shared: Burst::new() })
    }
}

impl Mode for FlowgenClones {
    const MAKES: bool = true;

    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, max: usize) {
        burst.free_all();
        let times = self.times.min(max);
        self.maker.take(burst, max.div_ceil(times));
        let count = max.min(burst.len() * times);
        self.maker.fill(burst, times as u32 % self.maker.flows, count);
        let mut left = count;
        for m in burst.drain() {
            let m = m.share();
            for _ in 1..times.min(left) {
                // A burst has room for what a burst holds at most.
                if self.shared.push(m.clone()).is_err() {
                    break;
                }
            }
            left -= times.min(left);
            drop(self.shared.push(m));
        }
    }

    fn unsent(&mut self, count: usize) {
        self.maker.roll_back(count);
    }

    #[inline(always)]
    fn waiting(&self, _burst: &Burst) -> usize {
        self.shared.len()
    }

    #[inline(always)]
    fn send(&mut self, tx: &mut TxQueue, _burst: &mut Burst) -> usize {
        tx.tx_burst_shared(&mut self.shared)
    }

    fn give_up(&mut self, _burst: &mut Burst) {
        self.shared.free_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testpmd::modes::tests::{frames, load, pool, stream};
    use linerate_net::{ParseOptions, checksum::Verdict, csum_verify::verify};

    fn plan(total: usize, flows: u32, clones: u16) -> FlowgenPlan {
        FlowgenPlan { total, flows, clones }
    }

    fn flow_of(frame: &[u8]) -> u32 {
        u32::from_be_bytes(frame[30..34].try_into().unwrap()) - DESTINATION.to_bits()
    }

    #[test]
    fn packets_are_those_of_the_reference_byte_for_byte() {
        let pool = pool();
        let mut mode = Flowgen::new(&stream(&pool), &plan(64, 1024, 0), &FlowIndexes::new(6)).unwrap();
        let mut burst = Burst::new();
        // What was received is freed.
        load(&pool, &mut burst, &frames(20));
        mode.work(&mut burst, 32);
        assert_eq!((burst.len(), pool.counts().held), (32, 32));
        let m = &burst.as_slice()[3];
        let mut wanted = vec![0, 1, 2, 3, 4, 1, 0, 1, 2, 3, 4, 0, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17];
        // 4500 + 002e + 4011 + 0afe + 0000 + 0afd + 0003 = 9b3d, and its complement.
        wanted.extend([0x64, 0xc2, 10, 254, 0, 0, 10, 253, 0, 3, 0x03, 0xe8, 0x03, 0xe9, 0, 26, 0, 0]);
        wanted.resize(60, 0);
        assert_eq!(m.data(), wanted);
        assert_eq!(m.headroom(), pool.headroom());
        for len in [46, 47, 67, 68, 1518, 2052] {
            burst.free_all();
            let plan = plan(len, 5000, 0);
            let mut mode = Flowgen::new(&stream(&pool), &plan, &FlowIndexes::new(6)).unwrap();
            for _ in 0..10 {
                mode.work(&mut burst, 512);
                for m in burst.as_slice() {
                    assert_eq!(m.data().len(), len - 4);
                    assert_eq!(verify(m.data(), ParseOptions::PLAIN).ip, Verdict::Good);
                }
                burst.free_all();
            }
        }
        assert_eq!(pool.counts().held, 0);
    }

    #[test]
    fn a_length_without_room_is_refused() {
        for (total, good) in [(45, false), (46, true), (2052, true), (2053, false), (70_000, false)] {
            let made = Flowgen::new(&stream(&pool()), &plan(total, 1, 0), &FlowIndexes::new(1));
            assert_eq!(made.is_ok(), good, "{total}");
        }
    }

    /// The flows of the packets that were taken, `unsent` of the last not being so.
    fn flows(mode: &mut Flowgen, n: usize, unsent: usize) -> Vec<u32> {
        let mut burst = Burst::new();
        mode.work(&mut burst, n);
        mode.unsent(unsent);
        burst.as_slice()[..n - unsent].iter().map(|m| flow_of(m.data())).collect()
    }

    #[test]
    fn flows_go_round_on_a_core_and_none_is_skipped() {
        let pool = pool();
        for count in [1, 2, 5, 7, 1024] {
            let indexes = FlowIndexes::new(6);
            let new = || Flowgen::new(&stream(&pool), &plan(64, count, 0), &indexes).unwrap();
            let (mut one, mut other) = (new(), new());
            let mut all = flows(&mut one, 7, 0);
            all.extend(flows(&mut other, 512, 20));
            all.extend(flows(&mut one, 3, 3));
            all.extend(flows(&mut other, 512, 511));
            all.extend(flows(&mut one, 512, 0));
            let wanted: Vec<_> = (0..all.len() as u32).map(|i| i % count).collect();
            assert_eq!(all, wanted, "{count} flows");
        }
    }

    #[test]
    fn clones_share_a_buffer_and_the_flow_goes_on_with_each_packet() {
        let pool = pool();
        for (clones, flows) in [(1, 1024), (3, 1024), (3, 5), (4, 3), (40, 7), (u16::MAX, 1)] {
            let indexes = FlowIndexes::new(6);
            let mut mode = FlowgenClones::new(&stream(&pool), &plan(64, flows, clones), &indexes).unwrap();
            let mut burst = Burst::new();
            for round in 0..3 {
                mode.work(&mut burst, 32);
                assert_eq!((burst.len(), mode.waiting(&burst)), (0, 32));
                let times = (usize::from(clones) + 1).min(32);
                assert_eq!(pool.counts().held as usize, 32usize.div_ceil(times));
                // Of each burst two packets are not taken.
                for (i, m) in mode.shared.as_slice().iter().enumerate() {
                    let packet = round * 30 + i / times * times;
                    assert_eq!(flow_of(m.data()), packet as u32 % flows, "{clones} {flows} {round} {i}");
                    assert_eq!(verify(m.data(), ParseOptions::PLAIN).ip, Verdict::Good);
                }
                mode.unsent(2);
                mode.give_up(&mut burst);
                assert_eq!(pool.counts().held, 0);
            }
        }
    }

    #[test]
    fn it_makes_do_with_the_buffers_there_are() {
        let pool = Mempool::builder("few", 5).cache(0).build().unwrap();
        let mut mode = FlowgenClones::new(&stream(&pool), &plan(64, 9, 2), &FlowIndexes::new(6)).unwrap();
        let mut burst = Burst::new();
        mode.work(&mut burst, 32);
        assert_eq!(mode.waiting(&burst), 15);
        mode.give_up(&mut burst);
        let mut mode = Flowgen::new(&stream(&pool), &plan(64, 9, 0), &FlowIndexes::new(6)).unwrap();
        mode.work(&mut burst, 32);
        assert_eq!(burst.len(), 5);
    }
}
