//! What is asked of an interface for AF_XDP alone: its driver, its queues, where the device spreads packets to, and
//! the program attached to it. Through sockets made when the port was opened, and by index, so that it stays the
//! same interface when it is renamed or the thread goes to another namespace.
//!
//! Follows `linux/ethtool.h`, `linux/if_link.h`.

use super::{
    XskError,
    netlink::{Family, Netlink, attribute, long, text, word},
    sys,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GRXFHINDIR: u32 = 0x38;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// What the kernel says of an interface now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) name: String,
    /// Packets that the device has received.
    pub(super) rx_packets: u64,
    /// Number of the XDP program attached to it.
    pub(super) program: Option<u32>,
}

impl State {
    /// Reads an `ifinfomsg` and its attributes.
    fn read(body: &[u8]) -> Option<State> {
        let rest = body.get(16..)?;
        let xdp = attribute(rest, IFLA_XDP).and_then(|xdp| attribute(xdp, IFLA_XDP_PROG_ID));
        Some(State {
            name: attribute(rest, IFLA_IFNAME).map(text)?,
            rx_packets: attribute(rest, IFLA_STATS64).and_then(|v| long(v, 0)).unwrap_or(0),
            program: xdp.and_then(|v| word(v, 0)).filter(|id| *id != 0),
        })
    }
}

/// An interface, by its index.
#[derive(Debug)]
pub(super) struct Device {
    index: u32,
    driver: String,
    namespace: u64,
    route: Netlink,
    control: OwnedFd,
}

impl Device {
    /// The interface with this index, in the namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// No sockets are to be had.
    pub(super) fn new(index: u32) -> Result<Self, XskError> {
        let route = Netlink::new(Family::Route).map_err(XskError::system("a netlink socket"))?;
        let control = control().map_err(XskError::system("a control socket"))?;
        let namespace = cookie(&control);
        let mut device = Device { index, driver: "unknown".into(), namespace, route, control };
        let mut info = [0u32; 49]; // struct ethtool_drvinfo: the driver's name is its second member
        info[0] = ETHTOOL_GDRVINFO;
        if device.ethtool(&mut info).is_ok() {
            let name: Vec<u8> = info[1..9].iter().flat_map(|w| w.to_ne_bytes()).collect();
            device.driver = text(&name);
        }
        Ok(device)
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Its kernel driver, such as `veth`.
    pub(super) fn driver(&self) -> &str {
        &self.driver
    }

    /// A number for its network namespace.
    pub(super) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// Whether the calling thread is in its namespace.
    pub(super) fn is_here(&self) -> bool {
        control().is_ok_and(|fd| cookie(&fd) == self.namespace)
    }

    /// What it is like now.
    ///
    /// # Errors
    ///
    /// It is gone (`ENODEV`).
    pub(super) fn state(&self) -> io::Result<State> {
        let mut body = [0; 16];
        body[4..8].copy_from_slice(&self.index.to_ne_bytes());
        let mut found = None;
        self.route.ask(RTM_GETLINK, 0, &body, |kind, body| {
            if kind == RTM_NEWLINK {
                found = State::read(body);
            }
        })?;
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Its name now, for messages.
    pub(super) fn name(&self) -> String {
        self.state().map_or_else(|_| format!("interface {}", self.index), |s| s.name)
    }

    fn ethtool(&self, data: &mut [u32]) -> io::Result<()> {
        sys::ethtool(self.control.as_fd(), &self.state()?.name, data)
    }

    /// Receive and transmit queues.
    pub(super) fn queues(&self) -> (u32, u32) {
        let mut c = [0u32; 9]; // struct ethtool_channels
        c[0] = ETHTOOL_GCHANNELS;
        match self.ethtool(&mut c) {
            // rx_count, tx_count, other_count, combined_count
            Ok(()) => ((c[5] + c[8]).max(1), (c[6] + c[8]).max(1)),
            Err(_) => (1, 1),
        }
    }

    /// The queues that the device spreads packets over, if it has such a table.
    pub(super) fn redirection_table(&self) -> Option<Vec<u32>> {
        let mut head = [ETHTOOL_GRXFHINDIR, 0];
        self.ethtool(&mut head).ok()?;
        let entries = head[1] as usize;
        if entries == 0 || entries > 1 << 16 {
            return None;
        }
        let mut table = vec![0u32; 2 + entries];
        table[0] = ETHTOOL_GRXFHINDIR;
        table[1] = entries as u32;
        self.ethtool(&mut table).ok()?;
        table.drain(..2);
        Some(table)
    }
}

fn control() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// A number for the namespace of a socket; 0 where the kernel (before 5.14) does not tell, and then all are one.
fn cookie(fd: &OwnedFd) -> u64 {
    sys::get_option(fd, libc::SOL_SOCKET, sys::SO_NETNS_COOKIE).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xsk::netlink::put;

    #[test]
    fn the_loopback_has_one_queue_and_no_table() {
        let lo = Device::new(1).unwrap();
        assert_eq!(lo.state().unwrap().name, "lo");
        assert!(lo.is_here());
        assert_eq!((lo.queues(), lo.redirection_table()), ((1, 1), None));
        let none = Device::new(0x7fff_fff0).unwrap();
        assert_eq!(none.state().unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert_eq!((none.queues(), none.driver()), ((1, 1), "unknown"));
    }

    #[test]
    fn a_message_cut_short_is_no_state() {
        let mut body = vec![0; 16];
        put(&mut body, IFLA_IFNAME, b"eth7\0");
        let named = body.len();
        let mut xdp = Vec::new();
        put(&mut xdp, IFLA_XDP_PROG_ID, &42u32.to_ne_bytes());
        put(&mut body, IFLA_XDP, &xdp);
        let s = State::read(&body).unwrap();
        assert_eq!((s.name.as_str(), s.program, s.rx_packets), ("eth7", Some(42), 0));
        for cut in 0..body.len() {
            let s = State::read(&body[..cut]);
            assert_eq!(s.is_some(), cut + 3 >= named, "{cut}");
            assert_eq!(s.and_then(|s| s.program), None, "{cut}");
        }
    }
}
