//! The AF_XDP port's control side.

use super::{
    XskError,
    attach::{Attachment, Claim, right},
    bpf::Hook,
    device::Device,
    lane::Lane,
    netdev::{Features, Netdev},
    options::{KEYS, MAX_QUEUES, Mode, Options},
    rx::XskRx,
    selftest,
    socket::{self, Names, Wish, ZeroCopy, frames_for},
    sys,
    tx::{MAX_PIECES, XskTx},
    umem::{Geometry, Umem},
    watch::Watch,
};
use crate::netif::{Memberships, NetIf, NetIfError, PortLink};
use linerate_port::{
    Capabilities, DriverContext, DriverEntry, ETHER_OVERHEAD, Limits, MacAddress, PortConfig, PortDriver,
    PortError, PortInfo, PortSpec, RssTypes, RxContext, RxDriver, RxOffloads, TxContext, TxDriver,
    TxOffloads, Xstat,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::{
    collections::BTreeMap,
    io,
    os::fd::AsFd,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
};

/// How the driver is found.
pub const ENTRY: DriverEntry = DriverEntry {
    name: "xsk",
    help: "a kernel interface through AF_XDP: fast, with the interface kept by the kernel",
    device: Some("IFACE"),
    device_required: true,
    keys: KEYS,
    open: |spec, context| Ok(Box::new(XskPort::new(spec, context)?)),
};

/// Descriptors of a queue; rings are powers of two, and the fill ring has twice as many.
const DESCRIPTORS: (u16, u16, u16) = (64, 16384, 1);
const DEFAULT_DESCRIPTORS: u16 = 1024;
/// Most addresses besides its own.
const MAX_ADDRESSES: u16 = 64;

static REPORTS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// What the port of this name (such as `xsk:eth0`) has taken and why, in one line for people; from its opening on,
/// complete once it was started, until it is closed.
pub fn report(name: &str) -> Option<String> {
    REPORTS.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}

fn set_report(name: &str, line: Option<String>) {
    let mut all = REPORTS.lock().unwrap_or_else(PoisonError::into_inner);
    match line {
        Some(line) => all.insert(name.into(), line),
        None => all.remove(name),
    };
}

struct XskPort {
    name: String,
    context: DriverContext,
    options: Options,
    device: Device,
    link: PortLink,
    /// Promiscuous mode and further addresses, from the first wish on.
    wishes: Option<Memberships>,
    netdev: Option<Arc<Netdev>>,
    features: Option<Features>,
    /// The queues and the share of the program; there until close.
    claim: Option<Claim>,
    lanes: Vec<Arc<Lane>>,
    /// Descriptors of each queue, as powers of two: receive, transmit.
    sizes: Vec<(Option<u32>, Option<u32>)>,
    config: PortConfig,
    watch: Option<Watch>,
    mac: MacAddress,
    max_mtu: u32,
    /// The MTU to go back to.
    former_mtu: Option<u32>,
    queues: (u32, u32),
}

impl XskPort {
    fn new(spec: &PortSpec, context: DriverContext) -> Result<Self, PortError> {
        let options = Options::read(spec)?;
        let at = |e: XskError| e.at(context.port);
        let netif = |e: NetIfError| e.at(context.port);
        let interface = NetIf::by_name(spec.device().unwrap_or_default()).map_err(netif)?;
        let info = interface.info().map_err(netif)?;
        let Some(mac) = info.mac else { return Err(at(XskError::NotEthernet { name: info.name })) };
        let device = Device::new(info.index).map_err(at)?;
        Self::preflight(&device).map_err(at)?;
        let queues = Self::check_queues(&device, &options).map_err(at)?;
        let link = PortLink::new(interface, context.events.clone()).map_err(netif)?;
        if let Some(size) = options.frame_size {
            Geometry::chunk_for(Some(size), 0, options.unaligned).map_err(at)?;
        }
        let netdev = Netdev::new().ok().map(Arc::new);
        let features = netdev.as_ref().and_then(|n| n.features(device.index()).ok());
        let attachment = Attachment::get(&device, options.mode, features).map_err(at)?;
        let count = queues.0.max(queues.1);
        let claim = attachment.claim(&device, options.start_queue, count).map_err(at)?;
        let port = XskPort {
            name: spec.name(),
            netdev,
            features,
            claim: Some(claim),
            lanes: Vec::new(),
            sizes: Vec::new(),
            config: PortConfig::default(),
            mac,
            max_mtu: info.max_mtu.unwrap_or(65535).min(65535 - ETHER_OVERHEAD),
            watch: None,
            wishes: None,
            link,
            former_mtu: None,
            queues,
            context,
            options,
            device,
        };
        set_report(&port.name, Some(port.describe_attachment()));
        Ok(port)
    }

    /// What needs rights is tried before anything is touched.
    fn preflight(device: &Device) -> Result<(), XskError> {
        match rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None) {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::AFNOSUPPORT) => {
                Err(XskError::NoKernel { source: io::Error::from_raw_os_error(libc::EAFNOSUPPORT) })
            }
            Err(e) => Err(right(device, "an AF_XDP socket", e.into())),
        }
    }

    /// Queues that the port can have, receive and transmit.
    fn check_queues(device: &Device, options: &Options) -> Result<(u32, u32), XskError> {
        let (rx, tx) = device.queues();
        let start = options.start_queue;
        let count = options.queues.unwrap_or(1);
        for (kind, have) in [("receive", rx), ("transmit", tx)] {
            if start + count > have {
                return Err(XskError::NoQueue { name: device.name(), kind, start, count, have });
            }
        }
        let all = |have: u32| options.queues.unwrap_or(have - start).min(MAX_QUEUES);
        Ok((all(rx), all(tx)))
    }

    fn attachment(&self) -> Result<&Arc<Attachment>, PortError> {
        let gone = PortError::Removed { port: self.context.port };
        self.claim.as_ref().map(|c| &c.attachment).ok_or(gone)
    }

    fn at(&self, e: XskError) -> PortError {
        e.at(self.context.port)
    }

    fn names(&self) -> Names {
        Names { name: self.device.name(), driver: self.device.driver().into(), kernel: sys::kernel_release() }
    }

    /// The queue's lane, made if it is new; its socket is given up if its rings are to be others.
    fn lane(&mut self, queue: usize, rx: Option<u32>, tx: Option<u32>) -> Arc<Lane> {
        if self.lanes.len() <= queue {
            self.lanes.resize_with(queue + 1, Arc::default);
            self.sizes.resize(queue + 1, (None, None));
        }
        let sizes = &mut self.sizes[queue];
        let wanted = (rx.or(sizes.0), tx.or(sizes.1));
        if *sizes != wanted {
            *sizes = wanted;
            self.retire_all();
        }
        self.lanes[queue].clone()
    }

    /// Closes all sockets; the next start makes new ones.
    fn retire_all(&self) {
        self.lanes.iter().for_each(|l| l.retire());
    }

    fn zero_copy(&self, hook: Hook) -> ZeroCopy {
        match self.options.mode {
            Mode::ZeroCopy => ZeroCopy::Must,
            _ if self.options.force_copy || hook == Hook::Generic => ZeroCopy::No,
            _ if self.features.is_some_and(|f| !f.zero_copy()) => ZeroCopy::No,
            _ => ZeroCopy::Try,
        }
    }

    fn geometry(&self, frames: u32, mtu: u32) -> Result<Geometry, XskError> {
        let (o, longest) = (&self.options, mtu + ETHER_OVERHEAD);
        let chunk = Geometry::chunk_for(o.frame_size, longest, o.unaligned)?;
        Ok(Geometry { chunk, frames, unaligned: o.unaligned })
    }

    /// Makes the sockets that are missing.
    fn bind_all(&self, mtu: u32) -> Result<(), XskError> {
        let Ok(attachment) = self.attachment() else { return Ok(()) };
        let hook = attachment.hook;
        if self.lanes.iter().all(|l| l.is_ready()) {
            return Ok(());
        }
        if self.options.shared_umem {
            // One memory for all: one socket cannot be replaced alone.
            self.retire_all();
        }
        let needs = self.sizes.iter().map(|&(rx, tx)| {
            let (r, t) = frames_for(rx, tx);
            r + t
        });
        let needs: Vec<u32> = needs.collect();
        let mut shared: Option<(Arc<Umem>, Option<Arc<socket::Socket>>)> = None;
        if self.options.shared_umem {
            shared = Some((Arc::new(Umem::new(self.geometry(needs.iter().sum(), mtu)?)?), None));
        }
        let mut first_frame = 0;
        for (q, (lane, &(rx, tx))) in self.lanes.iter().zip(&self.sizes).enumerate() {
            if lane.is_ready() {
                continue;
            }
            lane.retire();
            let (umem, first) = match &shared {
                Some((umem, socket)) => (umem.clone(), socket.clone()),
                None => (Arc::new(Umem::new(self.geometry(needs[q], mtu)?)?), None),
            };
            let queue = self.options.start_queue + q as u32;
            let wish = Wish {
                index: self.device.index(),
                queue,
                rx,
                tx,
                zero_copy: self.zero_copy(hook),
                pieces: attachment.pieces,
                umem: &umem,
                first_frame,
                shared_with: first.as_ref(),
                busy_budget: self.options.busy_budget,
                deferral: self
                    .netdev
                    .as_ref()
                    .map(|n| (n, self.options.irq_defer_us))
                    .filter(|(_, us)| *us > 0),
            };
            let mut bound = socket::bind(&wish, &|| self.names())?;
            if !bound.socket.pieces && mtu + ETHER_OVERHEAD > umem.geometry().rx_room() {
                let room = umem.geometry().rx_room();
                let why = "this kernel or driver does not spread it over several";
                return Err(XskError::TooLong { name: self.device.name(), mtu, room, why });
            }
            if self.options.tx_selftest.unwrap_or(bound.socket.zero_copy) {
                selftest::run(&mut bound, self.mac, queue, &|| self.names())?;
            }
            if let Some((_, socket)) = &mut shared {
                socket.get_or_insert_with(|| bound.socket.clone());
                first_frame += needs[q];
            }
            lane.install(bound);
        }
        Ok(())
    }

    /// Gives the frames of each receive queue to its socket, from now on.
    fn redirect(&self) -> Result<(), XskError> {
        let Ok(attachment) = self.attachment() else { return Ok(()) };
        for (queue, lane) in (self.options.start_queue..).zip(&self.lanes).take(self.config.rx_queues.into())
        {
            lane.drain();
            if let Some(socket) = lane.socket() {
                let what = format!("giving queue {queue} to its socket");
                attachment.map.insert(queue, socket.as_fd()).map_err(XskError::system(what))?;
            }
        }
        Ok(())
    }

    /// Gives them back to the kernel's stack.
    fn let_go(&self) {
        let Ok(attachment) = self.attachment() else { return };
        for (queue, lane) in (self.options.start_queue..).zip(&self.lanes) {
            // Fails if it is not in the map.
            let _ = attachment.map.remove(queue);
            lane.drain();
        }
    }

    /// The longest frame that may be sent, told to each queue.
    fn set_longest(&self, mtu: u32) {
        for (q, lane) in self.lanes.iter().enumerate() {
            let Some(socket) = lane.socket() else { continue };
            let chunk = self.geometry(1, self.config.mtu.max(mtu)).map_or(2048, |g| g.chunk);
            let most = match (socket.pieces, socket.zero_copy) {
                (false, _) => 1,
                (true, false) => MAX_PIECES,
                (true, true) => self.features.map_or(1, |f| f.zero_copy_pieces).clamp(1, MAX_PIECES),
            };
            let most = most.min(self.sizes[q].1.unwrap_or(1));
            lane.longest.store((mtu + ETHER_OVERHEAD).min(chunk * most), Relaxed);
        }
    }

    /// Packets that reached the sockets.
    fn reached(&self) -> u64 {
        let delivered = |l: &Arc<Lane>| l.rx_counts.progress_ns.get();
        // A time that changes is as good a sign as a count.
        self.lanes.iter().map(|l| l.dropped_by_kernel().wrapping_add(delivered(l))).fold(0, u64::wrapping_add)
    }

    fn describe_attachment(&self) -> String {
        let Ok(a) = self.attachment() else { return String::new() };
        let hook = match a.hook {
            Hook::Native => "native XDP",
            Hook::Generic => "generic XDP (slower: behind the kernel's own packet)",
        };
        let why = if a.why.is_empty() { String::new() } else { format!(" because {}", a.why) };
        let can = self.features.map_or("features unknown".to_string(), |f| {
            let zero =
                if f.zero_copy() { format!("yes, {} pieces", f.zero_copy_pieces) } else { "no".into() };
            format!("native {}, zero-copy {zero}, multi-buffer {}", yes(f.native()), yes(f.pieces()))
        });
        let kernel = sys::kernel_release();
        format!("{}: {hook}{why}; driver {} on kernel {kernel}: {can}", self.name, self.device.driver())
    }

    fn describe(&self) -> String {
        let mut line = self.describe_attachment();
        let Some(first) = self.lanes.first().and_then(|l| l.socket()) else { return line };
        let copy = match (first.zero_copy, self.options.force_copy) {
            (true, _) => "zero-copy".to_string(),
            (false, true) => "copy mode as asked".into(),
            (false, false) => format!("copy mode as {} has no zero-copy here", self.device.driver()),
        };
        let busy = match (first.is_busy_polled(), self.options.busy_budget) {
            (true, n) => format!("busy poll of {n}"),
            (false, 0) => "no busy poll".into(),
            (false, _) => "no busy poll as the kernel names no receive context (yet)".into(),
        };
        let wakeup = if first.wakeup { "wake-up on demand" } else { "a call for every burst" };
        let jumbo = if first.pieces { "multi-buffer" } else { "one frame a packet" };
        let (rx, tx) = self.sizes.first().copied().unwrap_or_default();
        let umem = if self.options.shared_umem { "shared " } else { "" };
        let memory = self.lanes.first().map_or_else(String::new, |l| l.memory());
        line += &format!(
            "; {copy}, {wakeup}, {busy}, {jumbo}; rings rx {} tx {}, {umem}{memory}",
            or_none(rx),
            or_none(tx)
        );
        if self.device.driver() == "veth" {
            line += "; NOTE: the other end leaves checksums to this one, which does not fill them in: ethtool -K PEER tx off";
        }
        line + &self.describe_queues()
    }

    /// The queues taken, and a warning if traffic can land on others.
    fn describe_queues(&self) -> String {
        let (have, _) = self.device.queues();
        let start = self.options.start_queue;
        let end = start + self.config.rx_queues.max(1) as u32;
        let name = self.device.name();
        let strays = match self.device.redirection_table() {
            Some(table) => table.iter().any(|q| !(start..end).contains(q)),
            None => start > 0 || end < have,
        };
        let taken = format!("; queues {start} to {} of {have}", end - 1);
        if !strays || self.config.rx_queues == 0 {
            return taken;
        }
        format!(
            "{taken}; WARNING: traffic can land on the others and then goes to the kernel: write queues={}, or \
             ethtool -X {name} start {start} equal {}",
            have - start,
            end - start
        )
    }
}

fn yes(b: bool) -> &'static str {
    if b { "yes" } else { "no" }
}

fn or_none(n: Option<u32>) -> String {
    n.map_or("none".into(), |n| n.to_string())
}

impl PortDriver for XskPort {
    fn info(&self) -> PortInfo {
        PortInfo {
            name: self.name.clone(),
            driver: ENTRY.name,
            mac: self.mac,
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
            rx_offloads: RxOffloads::SCATTER,
            tx_offloads: TxOffloads::MULTI_SEGS,
            rss_types: RssTypes::empty(),
            limits: Limits {
                max_rx_queues: self.queues.0 as u16,
                max_tx_queues: self.queues.1 as u16,
                rx_descriptors: DESCRIPTORS,
                tx_descriptors: DESCRIPTORS,
                default_descriptors: (DEFAULT_DESCRIPTORS, DEFAULT_DESCRIPTORS),
                max_mtu: self.max_mtu,
                max_mac_addresses: MAX_ADDRESSES + 1,
                ..Limits::SOFTWARE
            },
        }
    }

    /// An MTU larger than the interface's is set; a smaller one leaves the interface as it is.
    fn configure(&mut self, config: &PortConfig) -> Result<(), PortError> {
        let now = self.mtu()?;
        if config.mtu > now {
            self.change_mtu(config.mtu, now)?;
        }
        self.retire_all();
        self.lanes.clear();
        self.sizes.clear();
        self.config = config.clone();
        Ok(())
    }

    fn rx_queue(&mut self, c: RxContext) -> Result<Box<dyn RxDriver>, PortError> {
        let size = u32::from(c.rx.descriptors).next_power_of_two();
        let lane = self.lane(c.queue.index(), Some(size), None);
        Ok(Box::new(XskRx::new(c, lane)))
    }

    fn tx_queue(&mut self, c: TxContext) -> Result<Box<dyn TxDriver>, PortError> {
        let size = u32::from(c.tx.descriptors).next_power_of_two();
        let lane = self.lane(c.queue.index(), None, Some(size));
        Ok(Box::new(XskTx::new(c, lane)))
    }

    fn start(&mut self) -> Result<(), PortError> {
        if !self.device.is_here() {
            return Err(self.at(XskError::OtherNamespace { name: self.device.name() }));
        }
        let mtu = self.mtu()?;
        self.bind_all(mtu.max(self.config.mtu)).map_err(|e| self.at(e))?;
        self.set_longest(mtu);
        self.redirect().map_err(|e| self.at(e))?;
        self.link.start().map_err(|e| e.at(self.context.port))?;
        self.watch = Some(Watch::new(&self.device, self.reached(), self.context.clock.now_ns()));
        set_report(&self.name, Some(self.describe()));
        Ok(())
    }

    /// Traffic goes to the kernel's own stack from here on, as before the port was started.
    fn stop(&mut self) {
        self.watch = None;
        self.let_go();
        self.link.stop();
    }

    fn close(&mut self) {
        self.let_go();
        self.lanes.iter().for_each(|l| l.close());
        self.lanes.clear();
        self.wishes = None;
        if let Some(mtu) = self.former_mtu.take() {
            // It may be gone.
            let _ = self.link.interface().set_mtu(mtu);
        }
        self.claim = None;
        set_report(&self.name, None);
    }

    fn poll_events(&mut self) {
        let Some(claim) = &self.claim else { return };
        let mtu = self.link.mtu().load(Relaxed);
        self.link.poll();
        let seen = (self.reached(), self.context.clock.now_ns());
        if let Some(watch) = &mut self.watch {
            let first = self.options.start_queue;
            watch.look(&self.device, &claim.attachment, &self.lanes, first, seen, &self.context.events);
        }
        let now = self.link.mtu().load(Relaxed);
        if now != mtu {
            self.set_longest(now);
        }
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        let now = self.mtu()?;
        if mtu != now {
            self.change_mtu(mtu, now)?;
        }
        // Frames of another size need other memory.
        let before = self.geometry(1, self.config.mtu.max(now)).map(|g| g.chunk);
        if before.ok() != self.geometry(1, mtu).map(|g| g.chunk).ok() {
            self.retire_all();
        }
        self.config.mtu = mtu;
        Ok(())
    }

    fn set_link(&mut self, up: bool) -> Result<(), PortError> {
        self.link.interface().set_up(up).map_err(|e| e.at(self.context.port))?;
        self.poll_events();
        Ok(())
    }

    fn set_promiscuous(&mut self, promiscuous: bool, all_multicast: bool) -> Result<(), PortError> {
        let port = self.context.port;
        let wishes = self.wishes()?;
        let done = wishes.set_promiscuous(promiscuous).and_then(|()| wishes.set_all_multicast(all_multicast));
        done.map_err(|e| e.at(port))
    }

    fn set_mac(&mut self, address: MacAddress, add: bool) -> Result<(), PortError> {
        let port = self.context.port;
        self.wishes()?.set_mac(address, add).map_err(|e| e.at(port))
    }

    fn xstats(&self) -> Vec<Xstat> {
        self.lanes.iter().enumerate().flat_map(|(q, l)| l.xstats(q)).collect()
    }
}

impl XskPort {
    /// The interface's MTU now.
    fn mtu(&self) -> Result<u32, PortError> {
        match self.link.interface().info() {
            Ok(info) => Ok(info.mtu),
            Err(e @ NetIfError::Gone { .. }) => {
                self.context.events.removed();
                Err(e.at(self.context.port))
            }
            Err(e) => Err(e.at(self.context.port)),
        }
    }

    fn change_mtu(&mut self, mtu: u32, now: u32) -> Result<(), PortError> {
        self.link.interface().set_mtu(mtu).map_err(|e| e.at(self.context.port))?;
        self.former_mtu.get_or_insert(now);
        Ok(())
    }

    /// What is wished of the interface: the kernel takes it back when the process dies.
    fn wishes(&mut self) -> Result<&mut Memberships, PortError> {
        match &mut self.wishes {
            Some(wishes) => Ok(wishes),
            none => {
                let made = Memberships::new(self.link.interface());
                Ok(none.insert(made.map_err(|e| e.at(self.context.port))?))
            }
        }
    }
}
