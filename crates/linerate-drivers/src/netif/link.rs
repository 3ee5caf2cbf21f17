//! What the kernel says about an interface.

use super::message::{attributes, u32_at};
use linerate_port::MacAddress;

/// Most bytes of an interface's name.
pub const IF_NAME_MAX: usize = 15;

pub(super) const IFLA_ADDRESS: u16 = 1;
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
pub(super) const IFLA_LINKINFO: u16 = 18;
pub(super) const IFLA_NET_NS_FD: u16 = 28;
pub(super) const IFLA_EXT_MASK: u16 = 29;
const IFLA_PROMISCUITY: u16 = 30;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_MIN_MTU: u16 = 50;
const IFLA_MAX_MTU: u16 = 51;
pub(super) const IFLA_INFO_KIND: u16 = 1;
pub(super) const IFLA_INFO_DATA: u16 = 2;

/// Bytes of `struct ifinfomsg`.
pub(super) const IFINFO: usize = 16;
/// `IFF_LOWER_UP`: there is a carrier.
const IFF_LOWER_UP: u32 = 1 << 16;

/// An interface as it was when the kernel was asked, or when it said that something changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkInfo {
    /// Its number, which stays when it is renamed.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address; `None` if it is no Ethernet device.
    pub mac: Option<MacAddress>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Least MTU that its driver takes, if it says.
    pub min_mtu: Option<u32>,
    /// Most MTU that its driver takes, if it says.
    pub max_mtu: Option<u32>,
    /// Set up by the administrator.
    pub up: bool,
    /// It has a carrier.
    pub carrier: bool,
    /// Who asked for promiscuous mode: sockets and administrators together.
    pub promiscuity: u32,
    /// Kind of a virtual device: `veth`, `tun`, `bridge`.
    pub kind: Option<String>,
    /// Number of the bridge or bond that it is part of.
    pub master: Option<u32>,
    /// Receive queues of the device.
    pub rx_queues: u32,
    /// Transmit queues of the device.
    pub tx_queues: u32,
}

impl LinkInfo {
    /// Whether frames can pass: set up, and with a carrier.
    pub fn is_running(&self) -> bool {
        self.up && self.carrier
    }

    /// Reads the body of an `RTM_NEWLINK` or `RTM_DELLINK` message.
    pub(super) fn parse(body: &[u8]) -> Option<LinkInfo> {
        let (kind, flags) = (u16::from_ne_bytes([*body.get(2)?, *body.get(3)?]), u32_at(body, 8)?);
        let mut l = LinkInfo {
            index: u32_at(body, 4)?,
            up: flags & libc::IFF_UP as u32 != 0,
            carrier: flags & IFF_LOWER_UP != 0,
            ..Default::default()
        };
        let ethernet = kind == libc::ARPHRD_ETHER || kind == libc::ARPHRD_LOOPBACK;
        for (kind, value) in attributes(body.get(IFINFO..)?) {
            let number = u32_at(value, 0);
            match kind {
                IFLA_IFNAME => l.name = text(value),
                IFLA_ADDRESS if ethernet => l.mac = value.try_into().ok().map(MacAddress),
                IFLA_MTU => l.mtu = number?,
                IFLA_MIN_MTU => l.min_mtu = number.filter(|&n| n > 0),
                IFLA_MAX_MTU => l.max_mtu = number.filter(|&n| n > 0),
                IFLA_MASTER => l.master = number,
                IFLA_PROMISCUITY => l.promiscuity = number?,
                IFLA_NUM_TX_QUEUES => l.tx_queues = number?,
                IFLA_NUM_RX_QUEUES => l.rx_queues = number?,
                IFLA_LINKINFO => {
                    let mut inner = attributes(value);
                    l.kind = inner.find(|(k, _)| *k == IFLA_INFO_KIND).map(|(_, v)| text(v));
                }
                _ => {}
            }
        }
        Some(l)
    }
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}
