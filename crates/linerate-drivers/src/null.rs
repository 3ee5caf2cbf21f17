//! The null port: receives packets out of nothing and sends them to nowhere, as fast as buffers move.
//!
//! Each received packet is a buffer from the pool, each sent one goes back to its pool. Keys as DPDK's
//! `net_null`.

use linerate_mbuf::{Burst, Mbuf, Mempool, PacketType, RxTemplate, SharedMbuf};
use linerate_port::{
    Capabilities, DriverContext, DriverEntry, ETHER_OVERHEAD, KeyInfo, Limits, LinkCause, MacAddress,
    PortConfig, PortDriver, PortError, PortId, PortInfo, PortSpec, RssTypes, RxContext, RxDriver, RxOffloads,
    RxProgram, SoftStage, TxContext, TxDriver, TxOffloads,
    stats::{SharedRx, SharedTx},
};
use std::hint::black_box;

/// How the driver is found.
pub const ENTRY: DriverEntry = DriverEntry {
    name: "null",
    help: "receives packets out of nothing, sends them to nowhere",
    device: None,
    device_required: false,
    keys: &[
        KeyInfo { name: "size", value: "BYTES (64)", help: "length of a received packet", repeats: false },
        KeyInfo { name: "copy", value: "0|1 (0)", help: "copy the bytes in and out", repeats: false },
        KeyInfo { name: "no-rx", value: "0|1 (0)", help: "receive nothing", repeats: false },
    ],
    open: |spec, context| Ok(Box::new(Null::new(spec, context)?)),
};

#[derive(Clone, Copy)]
struct Options {
    size: u16,
    copy: bool,
    no_rx: bool,
}

struct Null {
    name: String,
    context: DriverContext,
    options: Options,
}

impl Null {
    fn new(spec: &PortSpec, context: DriverContext) -> Result<Self, PortError> {
        let options = Options {
            size: spec.number("size", 64, 14..=u16::MAX.into())? as u16,
            copy: spec.switch("copy", false)?,
            no_rx: spec.switch("no-rx", false)?,
        };
        Ok(Null { name: spec.name(), context, options })
    }
}

impl PortDriver for Null {
    fn info(&self) -> PortInfo {
        PortInfo {
            name: self.name.clone(),
            driver: ENTRY.name,
            mac: MacAddress([2, 0x4e, 0x55, 0x4c, 0x4c, self.context.port.0 as u8]),
            node: None,
            capabilities: Capabilities::SCATTER
                | Capabilities::MULTI_SEGMENT
                | Capabilities::SHARED_BUFFERS
                | Capabilities::QUEUE_STOP
                | Capabilities::RX_PROGRAM
                | Capabilities::BYTE_COUNTS,
            rx_offloads: RxOffloads::SCATTER,
            tx_offloads: TxOffloads::MULTI_SEGS,
            rss_types: RssTypes::empty(),
            limits: Limits::SOFTWARE,
        }
    }

    fn configure(&mut self, _config: &PortConfig) -> Result<(), PortError> {
        Ok(())
    }

    fn rx_queue(&mut self, c: RxContext) -> Result<Box<dyn RxDriver>, PortError> {
        let size = self.options.size;
        if size > c.rx.pool.data_room() && !c.config.rx_offloads.contains(RxOffloads::SCATTER) {
            return Err(PortError::FrameTooLong {
                port: c.port,
                mtu: u32::from(size).saturating_sub(ETHER_OVERHEAD),
                frame: size.into(),
                room: c.rx.pool.data_room().into(),
                pool: c.rx.pool.name().into(),
            });
        }
        Ok(Box::new(NullRx {
            template: RxTemplate::new(&c.rx.pool, c.port.0).with_packet(PacketType::UNKNOWN, size),
            plain: size <= c.rx.pool.data_room() && !self.options.copy,
            bytes: vec![0; size.into()],
            pool: c.rx.pool,
            options: self.options,
            counters: c.counters,
            stage: SoftStage::new(c.program),
            port: c.port,
        }))
    }

    fn tx_queue(&mut self, c: TxContext) -> Result<Box<dyn TxDriver>, PortError> {
        Ok(Box::new(NullTx { sink: vec![0; usize::from(self.options.copy) * 2048], counters: c.counters }))
    }

    fn start(&mut self) -> Result<(), PortError> {
        self.context.events.link(true, None, LinkCause::Started);
        Ok(())
    }

    fn stop(&mut self) {
        self.context.events.link(false, None, LinkCause::Stopped);
    }

    fn close(&mut self) {}
}

struct NullRx {
    pool: Mempool,
    template: RxTemplate,
    options: Options,
    /// A packet fits one buffer, and nothing is to be copied.
    plain: bool,
    /// What a packet's bytes are when somebody looks.
    bytes: Vec<u8>,
    counters: SharedRx,
    stage: SoftStage,
    port: PortId,
}

impl RxDriver for NullRx {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn stop(&mut self) {}

    #[inline]
    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        let n = max.min(burst.room());
        if self.options.no_rx || n == 0 {
            return 0;
        }
        if !self.plain || self.stage.is_set() {
            return self.rx_bytes(burst, n);
        }
        let n = if self.pool.alloc_rx(&self.template, burst, n) { n } else { self.rx_few(burst, n) };
        self.counters.packets.add(n as u64);
        self.counters.bytes.add(n as u64 * u64::from(self.options.size));
        n
    }

    fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        self.stage.set(program);
        Ok(())
    }
}

impl NullRx {
    /// As many as the pool has left.
    #[cold]
    #[inline(never)]
    fn rx_few(&self, burst: &mut Burst, wanted: usize) -> usize {
        let n = (0..wanted).take_while(|_| self.pool.alloc_rx(&self.template, burst, 1)).count();
        self.counters.nombuf.add((wanted - n) as u64);
        n
    }

    /// With bytes to copy, several segments, or a program to show them to.
    #[inline(never)]
    fn rx_bytes(&mut self, burst: &mut Burst, n: usize) -> usize {
        let (mut packets, mut bytes, mut short) = (0, 0, 0);
        let (pool, port) = (&self.pool, self.port.0);
        self.stage.run(std::iter::repeat_n(self.bytes.as_slice(), n), |_, frame| {
            let Some(mut m) = pool.alloc_filled(frame) else {
                short += 1;
                return;
            };
            m.set_port(port);
            packets += 1;
            bytes += frame.len() as u64;
            burst.push(m).expect("no more frames than there is room");
        });
        self.counters.packets.add(packets);
        self.counters.bytes.add(bytes);
        self.counters.nombuf.add(short);
        packets as usize
    }
}

struct NullTx {
    /// Where bytes are copied to; empty = they are not.
    sink: Vec<u8>,
    counters: SharedTx,
}

impl NullTx {
    fn take(&mut self, segments: linerate_mbuf::Segments<'_>) {
        for s in segments {
            if self.sink.len() < s.len() {
                self.sink.resize(s.len(), 0);
            }
            self.sink[..s.len()].copy_from_slice(s);
            black_box(&mut self.sink);
        }
    }

    fn count(&self, packets: usize, bytes: u64) {
        self.counters.packets.add(packets as u64);
        self.counters.bytes.add(bytes);
    }
}

impl TxDriver for NullTx {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn stop(&mut self) {}

    #[inline]
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let n = burst.len();
        let bytes = burst.as_slice().iter().map(|m| u64::from(m.len())).sum();
        if !self.sink.is_empty() {
            for m in burst.as_slice() {
                self.take(m.segments());
            }
        }
        self.count(n, bytes);
        burst.free_all();
        n
    }

    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        let n = burst.len();
        let bytes = burst.as_slice().iter().map(|m| u64::from(m.len())).sum();
        if !self.sink.is_empty() {
            for m in burst.as_slice() {
                self.take(m.segments());
            }
        }
        self.count(n, bytes);
        burst.free_all();
        n
    }
}
