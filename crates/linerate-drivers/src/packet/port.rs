//! The packet port's control side.

use super::{
    counts::{RxCounts, TxCounts},
    options::{KEYS, Options},
    rx::{Gate, Group, PacketRx},
    tx::{BEYOND_MTU, PacketTx},
};
use crate::netif::{LinkInfo, Memberships, NetIf, NetIfError, PortLink};
use linerate_port::{
    Capabilities, DriverContext, DriverEntry, ETHER_OVERHEAD, Limits, MacAddress, PortConfig, PortDriver,
    PortError, PortInfo, PortSpec, RssTypes, RxContext, RxDriver, RxOffloads, TxContext, TxDriver,
    TxOffloads, Xstat,
};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// How the driver is found.
pub const ENTRY: DriverEntry = DriverEntry {
    name: "packet",
    help: "a kernel interface through a packet socket (AF_PACKET); the kernel goes on using it",
    device: Some("INTERFACE"),
    device_required: true,
    keys: KEYS,
    open: |spec, context| Ok(Box::new(PacketPort::new(spec, context)?)),
};

/// Most MTU that a port takes, so that a frame fits a slot of reasonable size.
const MAX_MTU: u32 = 16384 - 128;
/// Least MTU of Ethernet devices that do not say.
const MIN_MTU: u32 = 68;

struct PacketPort {
    name: String,
    options: Options,
    context: DriverContext,
    link: PortLink,
    memberships: Memberships,
    info: LinkInfo,
    /// The interface's MTU before it was raised for this port.
    former_mtu: Option<u32>,
    group: Group,
    /// Of the receive queues that were set up.
    gates: Vec<Option<Arc<Gate>>>,
    rx_counts: Vec<Arc<RxCounts>>,
    tx_counts: Vec<Arc<TxCounts>>,
}

impl PacketPort {
    fn new(spec: &PortSpec, context: DriverContext) -> Result<Self, PortError> {
        let options = Options::read(spec)?;
        let open = || -> Result<_, NetIfError> {
            let interface = NetIf::by_name(spec.device().unwrap_or_default())?;
            // The right to packet sockets is needed for everything else: asked for first.
            let memberships = Memberships::new(&interface)?;
            let info = interface.info()?;
            let link = PortLink::new(interface, context.events.clone())?;
            Ok((link, memberships, info))
        };
        let (link, memberships, info) = open().map_err(|e| e.at(context.port))?;
        if info.mac.is_none() {
            return Err(PortError::Invalid {
                port: context.port,
                what: spec.name(),
                why: "this interface carries no Ethernet frames".into(),
            });
        }
        Ok(PacketPort {
            name: spec.name(),
            options,
            context,
            link,
            memberships,
            info,
            former_mtu: None,
            group: Group::default(),
            gates: Vec::new(),
            rx_counts: Vec::new(),
            tx_counts: Vec::new(),
        })
    }

    fn interface(&self) -> &NetIf {
        self.link.interface()
    }

    /// Gives the interface at least this MTU.
    fn raise_mtu(&mut self, mtu: u32) -> Result<(), NetIfError> {
        let now = self.interface().info()?.mtu;
        if now < mtu {
            self.interface().set_mtu(mtu)?;
            self.former_mtu.get_or_insert(now);
        }
        self.link.mtu().store(now.max(mtu), Relaxed);
        Ok(())
    }
}

impl PortDriver for PacketPort {
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
                | Capabilities::PROMISCUOUS
                | Capabilities::MAC_FILTER
                | Capabilities::LINK_CONTROL
                | Capabilities::RX_PROGRAM
                | Capabilities::BYTE_COUNTS,
            rx_offloads: RxOffloads::SCATTER | RxOffloads::VLAN_STRIP | RxOffloads::TIMESTAMP,
            tx_offloads: TxOffloads::MULTI_SEGS | TxOffloads::VLAN_INSERT,
            rss_types: RssTypes::empty(),
            limits: Limits {
                max_rx_queues: self.options.queues,
                max_tx_queues: self.options.queues,
                // Fewer than two bursts would lose frames at every turn.
                rx_descriptors: (64, 32768, 1),
                min_mtu: self.info.min_mtu.unwrap_or(MIN_MTU),
                max_mtu: self.info.max_mtu.unwrap_or(MAX_MTU).min(MAX_MTU),
                max_mac_addresses: 64,
                ..Limits::SOFTWARE
            },
        }
    }

    fn configure(&mut self, config: &PortConfig) -> Result<(), PortError> {
        self.raise_mtu(config.mtu).map_err(|e| e.at(self.context.port))?;
        self.group = Group::default();
        self.gates = vec![None; config.rx_queues.into()];
        self.rx_counts.resize_with(config.rx_queues.into(), Arc::default);
        self.tx_counts.resize_with(config.tx_queues.into(), Arc::default);
        Ok(())
    }

    fn rx_queue(&mut self, c: RxContext) -> Result<Box<dyn RxDriver>, PortError> {
        let (port, counts) = (c.port, self.rx_counts[c.queue.index()].clone());
        let shape = self.options.shape((c.config.mtu + ETHER_OVERHEAD) as usize, c.rx.descriptors);
        let group = (c.config.rx_queues > 1).then_some(&mut self.group);
        let q = c.queue.index();
        let made = PacketRx::new(self.link.interface(), &self.options, shape, c, group, counts);
        let rx = made.map_err(|e| e.at(port))?;
        self.gates[q] = Some(rx.gate());
        Ok(Box::new(rx))
    }

    fn tx_queue(&mut self, c: TxContext) -> Result<Box<dyn TxDriver>, PortError> {
        let port = c.port;
        let shape = self.options.tx_shape((c.config.mtu + BEYOND_MTU) as usize, c.tx.descriptors);
        let shared =
            (self.link.mtu().clone(), self.tx_counts[c.queue.index()].clone(), self.context.events.clone());
        let made = PacketTx::new(self.link.interface(), &self.options, shape, c, shared);
        Ok(Box::new(made.map_err(|e| e.at(port))?))
    }

    fn start(&mut self) -> Result<(), PortError> {
        let port = self.context.port;
        self.link.start().map_err(|e| e.at(port))?;
        let opened = self.gates.iter().flatten().try_for_each(|g| g.open());
        opened.map_err(|e| NetIfError::system("letting frames in")(e).at(port))
    }

    fn stop(&mut self) {
        self.gates.iter().flatten().for_each(|g| g.shut());
        self.link.stop();
    }

    fn close(&mut self) {
        self.gates.clear();
        if let Some(mtu) = self.former_mtu.take() {
            // Gone, or somebody else's by now: then it is theirs to set.
            let _ = self.interface().set_mtu(mtu);
        }
        // An interface that is gone has no memberships.
        let _ = self.memberships.set_promiscuous(false);
        let _ = self.memberships.set_all_multicast(false);
    }

    fn poll_events(&mut self) {
        self.link.poll();
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        let set = || -> Result<u32, NetIfError> {
            let now = self.interface().info()?.mtu;
            self.interface().set_mtu(mtu)?;
            Ok(now)
        };
        let before = set().map_err(|e| e.at(self.context.port))?;
        self.former_mtu.get_or_insert(before);
        self.link.mtu().store(mtu, Relaxed);
        Ok(())
    }

    fn set_link(&mut self, up: bool) -> Result<(), PortError> {
        self.interface().set_up(up).map_err(|e| e.at(self.context.port))?;
        self.link.poll();
        Ok(())
    }

    fn set_promiscuous(&mut self, promiscuous: bool, all_multicast: bool) -> Result<(), PortError> {
        let m = &mut self.memberships;
        let done = m.set_promiscuous(promiscuous).and_then(|()| m.set_all_multicast(all_multicast));
        done.map_err(|e| e.at(self.context.port))
    }

    fn set_mac(&mut self, address: MacAddress, add: bool) -> Result<(), PortError> {
        self.memberships.set_mac(address, add).map_err(|e| e.at(self.context.port))
    }

    fn xstats(&self) -> Vec<Xstat> {
        let mut all = Vec::new();
        self.rx_counts.iter().enumerate().for_each(|(q, c)| c.xstats(q, &mut all));
        self.tx_counts.iter().enumerate().for_each(|(q, c)| c.xstats(q, &mut all));
        all
    }
}
