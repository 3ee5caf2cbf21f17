//! The ring port's control side.

use super::{
    RingPortError,
    line::MAX_QUEUES,
    queue::{RingRx, RingTx},
    registry::{Registration, Wiring, enter},
};
use linerate_port::{
    Capabilities, DriverContext, DriverEntry, KeyInfo, Limits, LinkCause, MacAddress, PortConfig, PortDriver,
    PortError, PortInfo, PortSpec, RssTypes, RxContext, RxDriver, RxOffloads, TxContext, TxDriver,
    TxOffloads, Xstat, stats::Counter,
};
use linerate_ring::RingSize;
use std::sync::Arc;

/// How the driver is found.
pub const ENTRY: DriverEntry = DriverEntry {
    name: "ring",
    help: "receives what it sends, or what its peer or a tester in the same process sends",
    device: Some("NAME"),
    device_required: true,
    keys: &[
        KeyInfo {
            name: "peer",
            value: "NAME (none: loops back)",
            help: "the ring port to be connected to, which names this one",
            repeats: false,
        },
        KeyInfo { name: "size", value: "N (1024)", help: "packets that a ring holds", repeats: false },
        KeyInfo {
            name: "bytes",
            value: "0|1 (0)",
            help: "count bytes, which touches every packet",
            repeats: false,
        },
        KeyInfo { name: "far", value: "0|1 (0)", help: "leave the far end to a tester", repeats: false },
    ],
    open: |spec, context| Ok(Box::new(RingPort::new(spec, context)?)),
};

/// Most packets in a ring.
const MAX_SIZE: u64 = 1 << 20;

/// What a description says.
pub(super) struct Options {
    pub(super) peer: Option<String>,
    pub(super) size: RingSize,
    pub(super) far: bool,
    bytes: bool,
}

impl Options {
    fn read(spec: &PortSpec) -> Result<Self, PortError> {
        let size = spec.number("size", 1024, 1..=MAX_SIZE)? as usize;
        let size =
            RingSize::exact(size).map_err(|e| spec.bad_value("size", e.to_string(), "write size=1024"))?;
        let (far, bytes) = (spec.switch("far", false)?, spec.switch("bytes", false)?);
        let peer = spec.value("peer").map(String::from);
        if peer.as_deref() == Some("") {
            return Err(spec.bad_value("peer", "peer names no port", "write peer=NAME").into());
        }
        if far && peer.is_some() {
            let what = "a port has a peer or a far end, not both";
            return Err(spec.bad_value("far", what, "leave far= or peer= out").into());
        }
        Ok(Options { peer, size, far, bytes })
    }
}

struct RingPort {
    name: String,
    device: String,
    context: DriverContext,
    options: Options,
    /// There until close.
    place: Option<Registration>,
    /// Shared packets that could not be copied, by transmit queue.
    copy_failures: Vec<Arc<Counter>>,
}

impl RingPort {
    fn new(spec: &PortSpec, context: DriverContext) -> Result<Self, PortError> {
        let options = Options::read(spec)?;
        let device = spec.device().unwrap_or_default().to_string();
        let place = Some(enter(spec, &device, &options, context.events.clone())?);
        Ok(RingPort { name: spec.name(), device, context, options, place, copy_failures: Vec::new() })
    }

    fn wiring(&self) -> Result<&Wiring, PortError> {
        self.place.as_ref().map(|p| &p.wiring).ok_or(PortError::Removed { port: self.context.port })
    }
}

impl PortDriver for RingPort {
    fn info(&self) -> PortInfo {
        let mut capabilities = Capabilities::SCATTER
            | Capabilities::MULTI_SEGMENT
            | Capabilities::SHARED_BUFFERS
            | Capabilities::QUEUE_STOP
            | Capabilities::RX_PROGRAM;
        capabilities.set(Capabilities::BYTE_COUNTS, self.options.bytes);
        capabilities.set(Capabilities::LOOPBACK, !self.options.far);
        let port = self.context.port.0;
        PortInfo {
            name: self.name.clone(),
            driver: ENTRY.name,
            mac: MacAddress([2, 0x52, 0x49, 0x4e, (port >> 8) as u8, port as u8]),
            node: None,
            capabilities,
            rx_offloads: RxOffloads::SCATTER,
            tx_offloads: TxOffloads::MULTI_SEGS,
            rss_types: RssTypes::empty(),
            limits: Limits { max_rx_queues: MAX_QUEUES, max_tx_queues: MAX_QUEUES, ..Limits::SOFTWARE },
        }
    }

    fn configure(&mut self, config: &PortConfig) -> Result<(), PortError> {
        let (rx, tx) = (config.rx_queues, config.tx_queues);
        match self.wiring()? {
            Wiring::Loop(_) if tx > rx => {
                let (from, to) = (self.device.clone(), self.device.clone());
                Err(RingPortError::Queues { from, tx, to, rx }.at(self.context.port))
            }
            Wiring::Pair(cable, side) => {
                cable.configured(*side, rx, tx);
                Ok(())
            }
            Wiring::Loop(_) | Wiring::Far(..) => Ok(()),
        }
    }

    fn rx_queue(&mut self, context: RxContext) -> Result<Box<dyn RxDriver>, PortError> {
        let (line, _) = self.wiring()?.lines();
        Ok(if self.options.bytes {
            Box::new(RingRx::<true>::new(context, line))
        } else {
            Box::new(RingRx::<false>::new(context, line))
        })
    }

    fn tx_queue(&mut self, context: TxContext) -> Result<Box<dyn TxDriver>, PortError> {
        let (_, line) = self.wiring()?.lines();
        let q = context.queue.index();
        if self.copy_failures.len() <= q {
            self.copy_failures.resize_with(q + 1, Arc::default);
        }
        let failures = self.copy_failures[q].clone();
        Ok(if self.options.bytes {
            Box::new(RingTx::<true>::new(context, line, failures))
        } else {
            Box::new(RingTx::<false>::new(context, line, failures))
        })
    }

    fn start(&mut self) -> Result<(), PortError> {
        match self.wiring()? {
            Wiring::Pair(cable, side) => {
                let peer = self.options.peer.as_deref().unwrap_or_default();
                cable.start(*side, peer).map_err(|e| e.at(self.context.port))
            }
            Wiring::Loop(_) | Wiring::Far(..) => {
                self.context.events.link(true, None, LinkCause::Started);
                Ok(())
            }
        }
    }

    fn stop(&mut self) {
        match self.place.as_ref().map(|p| &p.wiring) {
            Some(Wiring::Pair(cable, side)) => cable.stop(*side),
            Some(Wiring::Loop(_) | Wiring::Far(..)) => {
                self.context.events.link(false, None, LinkCause::Stopped);
            }
            None => {}
        }
    }

    fn close(&mut self) {
        self.place = None;
    }

    fn xstats(&self) -> Vec<Xstat> {
        let name = |q| format!("tx_q{q}_copy_failures");
        let each = self.copy_failures.iter().enumerate();
        each.map(|(q, c)| Xstat { name: name(q), value: c.get() }).collect()
    }
}
