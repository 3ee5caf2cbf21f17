//! A device that knows nothing but frames, and a port over it.

use crate::{
    Capabilities, Limits, MacAddress, Port, PortConfig, PortDriver, PortError, PortId, PortInfo, QueueId,
    RssConfig, RssTypes, RxContext, RxDriver, RxOffloads, RxQueue, RxQueueConfig, TxContext, TxDriver,
    TxOffloads,
};
use etherparse::PacketBuilder;
use linerate_mbuf::{Burst, Mbuf, Mempool, OlFlags, SharedMbuf};
use linerate_mem::Clock;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

/// What the device has received, by queue, and what it was asked for.
#[derive(Clone, Default)]
pub(super) struct Wire {
    pub(super) frames: Arc<Mutex<Vec<VecDeque<Vec<u8>>>>>,
    pub(super) promiscuous: Arc<Mutex<Vec<(bool, bool)>>>,
}

#[derive(Clone)]
pub(super) struct Device {
    pub(super) queues: u16,
    pub(super) capabilities: Capabilities,
    /// It takes one tag out of what it receives.
    pub(super) strips: bool,
    pub(super) wire: Wire,
}

impl Default for Device {
    fn default() -> Self {
        let capabilities = Capabilities::BYTE_COUNTS | Capabilities::QUEUE_STOP | Capabilities::FINITE_INPUT;
        Device { queues: 4, capabilities, strips: false, wire: Wire::default() }
    }
}

pub(super) const OWN: MacAddress = MacAddress::peer(9);

impl PortDriver for Device {
    fn info(&self) -> PortInfo {
        PortInfo {
            name: "device".into(),
            driver: "device",
            mac: OWN,
            node: None,
            capabilities: self.capabilities,
            rx_offloads: RxOffloads::empty(),
            tx_offloads: TxOffloads::empty(),
            rss_types: RssTypes::empty(),
            limits: Limits { max_rx_queues: self.queues, ..Limits::SOFTWARE },
        }
    }
    fn configure(&mut self, config: &PortConfig) -> Result<(), PortError> {
        assert!(config.rx_queues <= self.queues && config.rss.is_none() && config.rx_offloads.is_empty());
        self.wire.frames.lock().unwrap().resize(config.rx_queues.into(), VecDeque::new());
        Ok(())
    }
    fn rx_queue(&mut self, c: RxContext) -> Result<Box<dyn RxDriver>, PortError> {
        assert!(c.queue.0 < self.queues && c.config.rx_queues <= self.queues);
        Ok(Box::new(DeviceRx { device: self.clone(), c }))
    }
    fn tx_queue(&mut self, _c: TxContext) -> Result<Box<dyn TxDriver>, PortError> {
        Ok(Box::new(DeviceTx))
    }
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn stop(&mut self) {}
    fn close(&mut self) {}
    fn set_promiscuous(&mut self, promiscuous: bool, all_multicast: bool) -> Result<(), PortError> {
        self.wire.promiscuous.lock().unwrap().push((promiscuous, all_multicast));
        Ok(())
    }
}

struct DeviceRx {
    device: Device,
    c: RxContext,
}

impl RxDriver for DeviceRx {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn stop(&mut self) {}
    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        let mut frames = self.device.wire.frames.lock().unwrap();
        let waiting = &mut frames[self.c.queue.index()];
        let n = max.min(burst.room()).min(waiting.len());
        for f in waiting.drain(..n) {
            let mut m = self.c.rx.pool.alloc_filled(&f).expect("the pool is large enough");
            if self.device.strips && f.len() >= 16 && f[12..14] == [0x81, 0] {
                m.reset();
                m.append(f.len() - 4).unwrap().copy_from_slice(&[&f[..12], &f[16..]].concat());
                m.set_vlan_tci(u16::from_be_bytes([f[14], f[15]]));
                m.set_ol_flags(OlFlags::RX_VLAN | OlFlags::RX_VLAN_STRIPPED);
            }
            m.set_port(self.c.port.0);
            self.c.counters.packets.add(1);
            self.c.counters.bytes.add(m.len().into());
            burst.push(m).expect("there is room");
        }
        n
    }
    fn pending(&self) -> Option<usize> {
        Some(self.device.wire.frames.lock().unwrap()[self.c.queue.index()].len())
    }
    fn is_exhausted(&self) -> bool {
        self.pending() == Some(0)
    }
}

struct DeviceTx;

impl TxDriver for DeviceTx {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn stop(&mut self) {}
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let n = burst.len();
        burst.free_all();
        n
    }
    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        let n = burst.len();
        burst.free_all();
        n
    }
}

/// A port over the device, with all its receive queues taken.
pub(super) struct Bench {
    pub(super) rx: Vec<RxQueue>,
    pub(super) port: Port,
    pub(super) wire: Wire,
    pub(super) pool: Mempool,
}

impl Bench {
    /// A port with so many queues, spread if there is a table.
    pub(super) fn new(device: Device, queues: u16, rss: Option<RssConfig>) -> Self {
        let wire = device.wire.clone();
        let port = Port::open(PortId(0), Clock::real(), |_| Ok(Box::new(device))).unwrap();
        let pool = Mempool::builder("classify", 8192).cache(0).build().unwrap();
        let mut b = Bench { rx: Vec::new(), port, wire, pool };
        b.port.configure(PortConfig { rx_queues: queues, rss, ..Default::default() }).unwrap();
        for q in 0..queues {
            let rx = RxQueueConfig { descriptors: 64, ..RxQueueConfig::new(&b.pool) };
            b.port.rx_queue_setup(QueueId(q), rx).unwrap();
        }
        b.port.tx_queue_setup(QueueId(0), Default::default()).unwrap();
        b.start();
        b
    }

    pub(super) fn plain(queues: u16) -> Self {
        Self::new(Device::default(), queues, None)
    }

    pub(super) fn start(&mut self) {
        self.port.start().unwrap();
        for q in 0..self.port.config().rx_queues {
            self.rx.push(self.port.take_rx(QueueId(q)).unwrap());
        }
    }

    pub(super) fn stop(&mut self) {
        self.rx.clear();
        self.port.stop().unwrap();
    }

    /// Frames come in on a queue of the device.
    pub(super) fn offer<'a>(&self, queue: usize, frames: impl IntoIterator<Item = &'a Vec<u8>>) {
        self.wire.frames.lock().unwrap()[queue].extend(frames.into_iter().cloned());
    }

    /// One poll of a queue.
    pub(super) fn poll(&mut self, queue: usize, max: usize) -> Vec<Mbuf> {
        let mut burst = Burst::new();
        let n = self.rx[queue].rx_burst(&mut burst, max);
        assert_eq!(n, burst.len());
        burst.drain().collect()
    }

    /// Everything that the queues deliver, by queue.
    pub(super) fn receive(&mut self) -> Vec<Vec<Mbuf>> {
        let mut all: Vec<Vec<Mbuf>> = self.rx.iter().map(|_| Vec::new()).collect();
        let mut idle = 0;
        while idle < 2 {
            idle += 1;
            for (q, got) in all.iter_mut().enumerate() {
                let new = self.poll(q, 32);
                if !new.is_empty() {
                    idle = 0;
                }
                got.extend(new);
            }
        }
        all
    }

    /// One frame through the port: the queue that gets it, and as what.
    pub(super) fn one(&mut self, frame: &[u8]) -> Option<(usize, Mbuf)> {
        self.offer(0, [&frame.to_vec()]);
        let mut got: Vec<_> = self
            .receive()
            .into_iter()
            .enumerate()
            .flat_map(|(q, m)| m.into_iter().map(move |m| (q, m)))
            .collect();
        assert!(got.len() <= 1);
        got.pop()
    }

    /// Adds a rule by its text.
    pub(super) fn rule(&mut self, text: &str) -> crate::FlowId {
        let rule = text.parse().unwrap_or_else(|e| panic!("{e}"));
        self.port.create_flow(rule).unwrap()
    }

    pub(super) fn xstat(&self, name: &str) -> u64 {
        self.port.xstats().into_iter().find(|x| x.name == name).unwrap_or_else(|| panic!("{name}")).value
    }

    /// Ends with every buffer at home.
    pub(super) fn end(mut self) {
        self.rx.clear();
        if self.port.state() == crate::PortState::Started {
            self.port.stop().unwrap();
        }
        self.port.close().unwrap();
        assert_eq!(self.pool.audit().unwrap().counts.held, 0);
    }
}

pub(super) const DST: [u8; 6] = [2, 0, 0, 0, 0, 9];
pub(super) const SRC: [u8; 6] = [2, 3, 4, 5, 6, 7];

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame);
    frame
}

pub(super) fn v4_udp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let b = PacketBuilder::ethernet2(SRC, DST).ipv4(src, dst, 64).udp(ports.0, ports.1);
    written(|f| b.write(f, &[7; 18]).unwrap())
}

pub(super) fn v4_tcp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let b = PacketBuilder::ethernet2(SRC, DST).ipv4(src, dst, 64).tcp(ports.0, ports.1, 1, 2).syn();
    written(|f| b.write(f, &[7; 18]).unwrap())
}

pub(super) fn v6_tcp(src: [u8; 16], dst: [u8; 16], ports: (u16, u16)) -> Vec<u8> {
    let b = PacketBuilder::ethernet2(SRC, DST).ipv6(src, dst, 64).tcp(ports.0, ports.1, 1, 2).ack(3);
    written(|f| b.write(f, &[7; 18]).unwrap())
}

pub(super) fn v6_udp(src: [u8; 16], dst: [u8; 16], ports: (u16, u16)) -> Vec<u8> {
    let b = PacketBuilder::ethernet2(SRC, DST).ipv6(src, dst, 64).udp(ports.0, ports.1);
    written(|f| b.write(f, &[7; 18]).unwrap())
}

pub(super) fn v4_icmp() -> Vec<u8> {
    let b = PacketBuilder::ethernet2(SRC, DST).ipv4([1, 2, 3, 4], [5, 6, 7, 8], 64).icmpv4_echo_request(1, 2);
    written(|f| b.write(f, &[7; 18]).unwrap())
}

pub(super) fn v6_icmp() -> Vec<u8> {
    let b = PacketBuilder::ethernet2(SRC, DST).ipv6([1; 16], [2; 16], 64).icmpv6_echo_request(1, 2);
    written(|f| b.write(f, &[7; 18]).unwrap())
}

/// Puts tags, given as type and TCI, behind the addresses.
pub(super) fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let tags = tags.iter().flat_map(|(kind, tci)| [kind.to_be_bytes(), tci.to_be_bytes()].concat());
    frame[..12].iter().copied().chain(tags).chain(frame[12..].iter().copied()).collect()
}
