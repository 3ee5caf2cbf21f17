//! The tap port's control side.

use super::{
    TapError,
    device::Device,
    options::{KEYS, Options},
    rx::{RxCounts, TapRx},
    tx::{TapTx, TxCounts},
};
use crate::netif::{LinkInfo, NetIf, PortLink};
use linerate_port::{
    Capabilities, DriverContext, DriverEntry, Limits, PortConfig, PortDriver, PortError, PortInfo, PortSpec,
    RssTypes, RxContext, RxDriver, RxOffloads, TxContext, TxDriver, TxOffloads, Xstat,
};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// How the driver is found.
pub const ENTRY: DriverEntry = DriverEntry {
    name: "tap",
    help: "a new interface of the kernel's whose other end is this process",
    device: Some("NAME"),
    device_required: true,
    keys: KEYS,
    open: |spec, context| Ok(Box::new(TapPort::new(spec, context)?)),
};

struct TapPort {
    name: String,
    options: Options,
    context: DriverContext,
    link: PortLink,
    info: LinkInfo,
    /// There until close.
    device: Option<Device>,
    rx_counts: Vec<Arc<RxCounts>>,
    tx_counts: Vec<Arc<TxCounts>>,
}

impl TapPort {
    fn new(spec: &PortSpec, context: DriverContext) -> Result<Self, PortError> {
        let options = Options::read(spec)?;
        let open = || -> Result<_, TapError> {
            let device = Device::open(spec.device().unwrap_or_default(), &options)?;
            let interface = NetIf::by_name(&device.name)?;
            if let Some(mac) = options.mac {
                interface.set_mac(mac)?;
            }
            // Nobody is at this end before the port starts. Kernels before 5.0 cannot be told.
            let _ = device.set_carrier(false);
            let info = interface.info()?;
            Ok((device, PortLink::new(interface, context.events.clone())?, info))
        };
        let (device, link, info) = open().map_err(|e| e.at(context.port))?;
        Ok(TapPort {
            name: format!("{}:{}", ENTRY.name, device.name),
            options,
            context,
            link,
            info,
            device: Some(device),
            rx_counts: Vec::new(),
            tx_counts: Vec::new(),
        })
    }

    fn device(&mut self) -> Result<&mut Device, PortError> {
        self.device.as_mut().ok_or(PortError::Removed { port: self.context.port })
    }
}

impl PortDriver for TapPort {
    fn info(&self) -> PortInfo {
        PortInfo {
            name: self.name.clone(),
            driver: ENTRY.name,
            mac: self.info.mac.unwrap_or_default(),
            node: None,
            capabilities: Capabilities::SCATTER
                | Capabilities::MULTI_SEGMENT
                | Capabilities::SHARED_BUFFERS
                | Capabilities::QUEUE_STOP
                | Capabilities::LINK_CONTROL
                | Capabilities::RX_PROGRAM
                | Capabilities::BYTE_COUNTS,
            rx_offloads: RxOffloads::SCATTER,
            tx_offloads: TxOffloads::MULTI_SEGS | TxOffloads::VLAN_INSERT,
            rss_types: RssTypes::empty(),
            limits: Limits {
                max_rx_queues: self.options.queues,
                max_tx_queues: self.options.queues,
                min_mtu: self.info.min_mtu.unwrap_or(Limits::SOFTWARE.min_mtu),
                max_mtu: self.info.max_mtu.unwrap_or(u32::MAX).min(Limits::SOFTWARE.max_mtu),
                ..Limits::SOFTWARE
            },
        }
    }

    fn configure(&mut self, config: &PortConfig) -> Result<(), PortError> {
        let port = self.context.port;
        self.set_mtu(config.mtu)?;
        self.device()?.attach(config.rx_queues.into()).map_err(|e| e.at(port))?;
        self.rx_counts.resize_with(config.rx_queues.into(), Arc::default);
        self.tx_counts.resize_with(config.tx_queues.into(), Arc::default);
        Ok(())
    }

    fn rx_queue(&mut self, c: RxContext) -> Result<Box<dyn RxDriver>, PortError> {
        let q = c.queue.index();
        let fd = self.device()?.queue(q);
        let shared = (self.link.mtu().clone(), self.rx_counts[q].clone(), self.context.events.clone());
        Ok(Box::new(TapRx::new(fd, self.options.vnet, c, shared)))
    }

    fn tx_queue(&mut self, c: TxContext) -> Result<Box<dyn TxDriver>, PortError> {
        let q = c.queue.index();
        let fd = self.device()?.queue(q);
        let shared = (self.link.mtu().clone(), self.tx_counts[q].clone(), self.context.events.clone());
        Ok(Box::new(TapTx::new(fd, self.options.vnet, c, shared)))
    }

    fn start(&mut self) -> Result<(), PortError> {
        let port = self.context.port;
        let device = self.device()?;
        device.drain();
        let _ = device.set_carrier(true);
        self.link.interface().set_up(true).map_err(|e| e.at(port))?;
        self.link.start().map_err(|e| e.at(port))
    }

    fn stop(&mut self) {
        if let Some(device) = &self.device {
            let _ = device.set_carrier(false);
        }
        self.link.stop();
    }

    fn close(&mut self) {
        self.device = None;
    }

    fn poll_events(&mut self) {
        self.link.poll();
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        self.link.interface().set_mtu(mtu).map_err(|e| e.at(self.context.port))?;
        self.link.mtu().store(mtu, Relaxed);
        Ok(())
    }

    fn set_link(&mut self, up: bool) -> Result<(), PortError> {
        self.link.interface().set_up(up).map_err(|e| e.at(self.context.port))?;
        self.link.poll();
        Ok(())
    }

    fn xstats(&self) -> Vec<Xstat> {
        let mut all = Vec::new();
        self.rx_counts.iter().enumerate().for_each(|(q, c)| c.xstats(q, &mut all));
        self.tx_counts.iter().enumerate().for_each(|(q, c)| c.xstats(q, &mut all));
        all
    }
}
