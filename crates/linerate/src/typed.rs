//! The options of each driver as a type, for programs that do not want to put a description together.

use crate::{PortBuilder, open_port};
use linerate_port::{MacAddress, Port, PortError};
use std::fmt::Display;

/// A driver's configuration. What it says goes through the same checks as a description.
pub trait DriverConfig {
    /// The same as a description, with quotes where they are needed.
    fn spec(&self) -> String;

    /// Opens the port.
    ///
    /// # Errors
    ///
    /// The driver refuses a value or the device.
    fn open(&self) -> Result<Port, PortError> {
        open_port(&self.spec())
    }

    /// A builder for the port.
    fn builder(&self) -> PortBuilder {
        PortBuilder::new(self.spec())
    }
}

/// Puts a description together.
struct Text(String, char);

impl Text {
    fn new(driver: &str) -> Self {
        Text(driver.into(), ':')
    }

    fn next(&mut self) {
        self.0.push(self.1);
        self.1 = ',';
    }

    fn device(mut self, name: &str) -> Self {
        self.next();
        self.quoted(name);
        self
    }

    fn key(mut self, key: &str, value: impl Display) -> Self {
        self.next();
        self.0 += key;
        self.0.push('=');
        self.quoted(&value.to_string());
        self
    }

    fn maybe(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(v) => self.key(key, v),
            None => self,
        }
    }

    /// Only a switch that is on is written, since off is what all of them are by themselves.
    fn on(self, key: &str, on: bool) -> Self {
        if on { self.key(key, 1) } else { self }
    }

    fn quoted(&mut self, value: &str) {
        if value.is_empty() || value.contains([',', '"', '\\', '=']) {
            self.0.push('"');
            for c in value.chars() {
                if matches!(c, '"' | '\\') {
                    self.0.push('\\');
                }
                self.0.push(c);
            }
            self.0.push('"');
        } else {
            self.0 += value;
        }
    }
}

/// Packets out of nothing, to nowhere.
///
/// ```
/// use linerate::{DriverConfig, NullConfig};
/// let port = NullConfig { size: 128, ..Default::default() }.open()?;
/// assert_eq!(port.info().driver, "null");
/// # Ok::<(), linerate::port::PortError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullConfig {
    /// Bytes of a received packet, at least 14. Default 64.
    pub size: u16,
    /// Copy the bytes in and out.
    pub copy: bool,
    /// Receive nothing.
    pub no_rx: bool,
}

impl Default for NullConfig {
    fn default() -> Self {
        NullConfig { size: 64, copy: false, no_rx: false }
    }
}

impl DriverConfig for NullConfig {
    fn spec(&self) -> String {
        Text::new("null").key("size", self.size).on("copy", self.copy).on("no-rx", self.no_rx).0
    }
}

/// A ring in the process: what is sent is received, by itself or by its peer.
///
/// ```
/// use linerate::{DriverConfig, RingConfig};
/// let mut port = RingConfig::new("typed").builder().start().unwrap();
/// let mut burst = linerate::mbuf::Burst::new();
/// assert!(port.pool.alloc_bulk(&mut burst, 3));
/// assert_eq!(port.tx[0].tx_burst(&mut burst), 3);
/// assert_eq!(port.rx[0].rx_burst(&mut burst, 32), 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Its name, alone in the process.
    pub name: String,
    /// Name of the ring port that it is connected to; `None` = itself.
    pub peer: Option<String>,
    /// Packets that it holds. Default 1024.
    pub size: u32,
    /// Count bytes, which touches every packet.
    pub bytes: bool,
}

impl RingConfig {
    /// A ring that loops back.
    pub fn new(name: impl Into<String>) -> Self {
        RingConfig { name: name.into(), peer: None, size: 1024, bytes: false }
    }
}

impl DriverConfig for RingConfig {
    fn spec(&self) -> String {
        let text = Text::new("ring").device(&self.name).maybe("peer", self.peer.as_ref());
        text.key("size", self.size).on("bytes", self.bytes).0
    }
}

/// Capture files, classic and pcapng.
///
/// ```
/// use linerate::{DriverConfig, PcapConfig};
/// let config = PcapConfig { tx: vec!["a,b.pcapng".into()], ..Default::default() };
/// assert_eq!(config.spec(), r#"pcap:tx_pcap="a,b.pcapng""#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcapConfig {
    /// Captures to receive, one for each receive queue; `-` = standard input.
    pub rx: Vec<String>,
    /// Captures to send into, one for each transmit queue, pcapng when so named; none = drop.
    pub tx: Vec<String>,
    /// Receive the captures again and again, from memory.
    pub infinite: bool,
    /// Most bytes written of a packet; `None` = 262144.
    pub snaplen: Option<u32>,
}

impl DriverConfig for PcapConfig {
    fn spec(&self) -> String {
        let text = self.rx.iter().fold(Text::new("pcap"), |t, f| t.key("rx_pcap", f));
        let text = self.tx.iter().fold(text, |t, f| t.key("tx_pcap", f));
        text.on("infinite_rx", self.infinite).maybe("tx_snaplen", self.snaplen).0
    }
}

/// A kernel interface through a packet socket; the kernel goes on using it. Needs CAP_NET_RAW.
///
/// ```
/// use linerate::{DriverConfig, PacketConfig};
/// assert_eq!(PacketConfig::new("eth0").spec(), "packet:eth0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketConfig {
    /// Name of the interface.
    pub interface: String,
    /// Send past the queueing discipline, and past tcpdump.
    pub qdisc_bypass: bool,
    /// How frames are spread over several receive queues: `hash`, `lb`, `cpu`, `rnd`, `rollover` or `qm`;
    /// `None` = `hash`.
    pub fanout: Option<String>,
}

impl PacketConfig {
    /// An interface with the defaults.
    pub fn new(interface: impl Into<String>) -> Self {
        PacketConfig { interface: interface.into(), qdisc_bypass: false, fanout: None }
    }
}

impl DriverConfig for PacketConfig {
    fn spec(&self) -> String {
        let text = Text::new("packet").device(&self.interface).on("qdisc_bypass", self.qdisc_bypass);
        text.maybe("fanout_mode", self.fanout.as_ref()).0
    }
}

/// A new interface of the kernel's whose other end is this process. Needs CAP_NET_ADMIN.
///
/// ```
/// use linerate::{DriverConfig, TapConfig};
/// let mac = Some(linerate::port::MacAddress([2, 0, 0, 0, 0, 1]));
/// let config = TapConfig { mac, ..TapConfig::new("lr0") };
/// assert_eq!(config.spec(), "tap:lr0,mac=02:00:00:00:00:01");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapConfig {
    /// Name of the interface.
    pub name: String,
    /// Most queues in each direction; `None` = 1.
    pub queues: Option<u16>,
    /// Its address; `None` = the kernel's choice.
    pub mac: Option<MacAddress>,
    /// Leave the interface behind.
    pub persist: bool,
    /// Take long TCP and UDP frames from the kernel and cut them here.
    pub vnet_hdr: bool,
}

impl TapConfig {
    /// An interface with the defaults.
    pub fn new(name: impl Into<String>) -> Self {
        TapConfig { name: name.into(), queues: None, mac: None, persist: false, vnet_hdr: false }
    }
}

impl DriverConfig for TapConfig {
    fn spec(&self) -> String {
        let text = Text::new("tap").device(&self.name).maybe("queues", self.queues).maybe("mac", self.mac);
        text.on("persist", self.persist).on("vnet_hdr", self.vnet_hdr).0
    }
}

/// How an [`XskConfig`] takes packets from the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XskMode {
    /// The best that works.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the kernel's stack; works with every interface.
    Generic,
    /// In the driver and without copying, or not at all.
    ZeroCopy,
}

/// A kernel interface through AF_XDP. Needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.
///
/// ```
/// use linerate::{DriverConfig, XskConfig, XskMode};
/// let config = XskConfig { mode: XskMode::Native, queues: Some(2), ..XskConfig::new("eth0") };
/// assert_eq!(config.spec(), "xsk:eth0,mode=native,queues=2");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XskConfig {
    /// Name of the interface.
    pub interface: String,
    /// How packets are taken.
    pub mode: XskMode,
    /// First queue of the interface to take; `None` = 0.
    pub start_queue: Option<u16>,
    /// Queues to take from there on; `None` = all.
    pub queues: Option<u16>,
    /// No zero-copy even where it is.
    pub force_copy: bool,
    /// Packets of a busy poll, 0 = none; `None` = 64.
    pub busy_budget: Option<u16>,
    /// One packet memory for all queues.
    pub shared_umem: bool,
}

impl XskConfig {
    /// An interface with the defaults.
    pub fn new(interface: impl Into<String>) -> Self {
        XskConfig {
            interface: interface.into(),
            mode: XskMode::Auto,
            start_queue: None,
            queues: None,
            force_copy: false,
            busy_budget: None,
            shared_umem: false,
        }
    }
}

impl DriverConfig for XskConfig {
    fn spec(&self) -> String {
        let mode = match self.mode {
            XskMode::Auto => None,
            XskMode::Native => Some("native"),
            XskMode::Generic => Some("generic"),
            XskMode::ZeroCopy => Some("zero-copy"),
        };
        let text = Text::new("xsk").device(&self.interface).maybe("mode", mode);
        let text = text.maybe("start_queue", self.start_queue).maybe("queues", self.queues);
        let text = text.on("force_copy", self.force_copy).maybe("busy_budget", self.busy_budget);
        text.on("shared_umem", self.shared_umem).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::DRIVERS;
    use linerate_port::PortSpec;

    #[test]
    fn every_key_that_is_written_is_one_that_the_driver_knows() {
        let all: [String; 6] = [
            NullConfig { size: 99, copy: true, no_rx: true }.spec(),
            RingConfig { peer: Some("b".into()), bytes: true, ..RingConfig::new("a") }.spec(),
            PcapConfig { rx: vec!["x".into()], tx: vec!["y".into()], infinite: true, snaplen: Some(9) }
                .spec(),
            PacketConfig { qdisc_bypass: true, fanout: Some("lb".into()), ..PacketConfig::new("e") }.spec(),
            TapConfig {
                queues: Some(2),
                mac: Some(MacAddress([2, 0, 0, 0, 0, 1])),
                persist: true,
                vnet_hdr: true,
                ..TapConfig::new("t")
            }
            .spec(),
            XskConfig {
                mode: XskMode::ZeroCopy,
                start_queue: Some(1),
                queues: Some(2),
                force_copy: true,
                busy_budget: Some(8),
                shared_umem: true,
                ..XskConfig::new("x")
            }
            .spec(),
        ];
        for text in all {
            let spec: PortSpec = text.parse().unwrap();
            spec.resolve(DRIVERS).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    #[test]
    fn names_with_any_character_are_read_as_they_were_meant() {
        for name in ["a,b", "a=b", "a\"b", "a\\b", "\u{fc} b", "a:b", "\"", ","] {
            let spec: PortSpec = RingConfig::new(name).spec().parse().unwrap();
            assert_eq!(spec.device(), Some(name));
            let config = PcapConfig { rx: vec![name.into(), "z".into()], ..Default::default() };
            let spec: PortSpec = config.spec().parse().unwrap();
            assert_eq!(spec.values("rx_pcap").collect::<Vec<_>>(), [name, "z"]);
        }
        // No name at all is the driver's to refuse, not a description that cannot be read.
        assert!(RingConfig::new("").open().is_err());
        assert!(NullConfig { size: 0, ..Default::default() }.open().is_err());
    }
}
