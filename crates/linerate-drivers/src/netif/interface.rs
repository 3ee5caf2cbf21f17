//! An interface by its number, asked and changed over rtnetlink.

use super::{
    LinkInfo, NetIfError,
    link::{IF_NAME_MAX, IFINFO, IFLA_ADDRESS, IFLA_EXT_MASK, IFLA_IFNAME, IFLA_MTU, IFLA_NET_NS_FD},
    message::{Message, messages, u32_at},
    sys,
};
use linerate_port::MacAddress;
use std::{
    cell::Cell,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
/// Leave the counters out of the answer.
const SKIP_STATS: u32 = 1 << 3;
/// Room for the longest answer about one interface.
const ANSWER: usize = 64 * 1024;

/// A conversation with rtnetlink.
#[derive(Debug)]
pub(super) struct Rtnl {
    fd: OwnedFd,
    seq: Cell<u32>,
}

impl Rtnl {
    pub(super) fn new() -> Result<Self, NetIfError> {
        let fd = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE);
        let fd = fd.map_err(NetIfError::system("rtnetlink socket"))?;
        Ok(Rtnl { fd, seq: Cell::new(1) })
    }

    /// Asks about, or changes, the interface with this number (0 = none yet).
    pub(super) fn request(
        &self,
        (kind, flags): (u16, u16),
        index: u32,
        (up, change): (u32, u32),
        fill: impl FnOnce(&mut Message),
        mut answer: impl FnMut(LinkInfo),
    ) -> io::Result<()> {
        let seq = self.seq.get();
        self.seq.set(seq.wrapping_add(1));
        let mut body = [0; IFINFO];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body[8..12].copy_from_slice(&up.to_ne_bytes());
        body[12..16].copy_from_slice(&change.to_ne_bytes());
        let mut m = Message::new(kind, REQUEST | flags, seq, &body);
        fill(&mut m);
        sys::send(&self.fd, &m.finish(), 0)?;
        let mut buffer = vec![0; ANSWER];
        loop {
            let n = match sys::recv(&self.fd, &mut buffer, 0) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                n => n?,
            };
            // An answer to a question that was given up belongs to nobody.
            for m in messages(&buffer[..n]).filter(|m| m.seq == seq) {
                match m.kind {
                    NLMSG_ERROR => {
                        return match u32_at(m.body, 0).map(|e| e as i32) {
                            Some(0) => Ok(()),
                            Some(e) => Err(io::Error::from_raw_os_error(e.wrapping_neg())),
                            None => Err(io::ErrorKind::InvalidData.into()),
                        };
                    }
                    NLMSG_DONE => return Ok(()),
                    RTM_NEWLINK => {
                        if let Some(link) = LinkInfo::parse(m.body) {
                            answer(link);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn links(&self, flags: u16, index: u32, name: Option<&str>) -> io::Result<Vec<LinkInfo>> {
        let mut found = Vec::new();
        let fill = |m: &mut Message| {
            m.attr(IFLA_EXT_MASK, &SKIP_STATS.to_ne_bytes());
            if let Some(name) = name {
                m.name(IFLA_IFNAME, name);
            }
        };
        self.request((RTM_GETLINK, flags), index, (0, 0), fill, |l| found.push(l))?;
        Ok(found)
    }
}

/// Says whether an interface can have this name.
///
/// # Errors
///
/// [`NetIfError::BadName`]: empty, longer than [`IF_NAME_MAX`] bytes, or with a character that the kernel
/// refuses.
pub fn check_name(name: &str) -> Result<(), NetIfError> {
    let why = match name {
        "" => "it is empty",
        "." | ".." => "it is the name of a folder",
        _ if name.len() > IF_NAME_MAX => "it is longer than 15 bytes",
        _ if name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0') => {
            "it has a slash, a colon or a blank in it"
        }
        _ => return Ok(()),
    };
    Err(NetIfError::BadName { name: name.into(), why })
}

/// A network interface, by its number in the namespace of the thread that looked it up.
///
/// A rename does not change which one it is; when it is deleted or moved to another namespace every call gives
/// [`NetIfError::Gone`].
#[derive(Debug)]
pub struct NetIf {
    rtnl: Rtnl,
    index: u32,
}

impl NetIf {
    /// Looks an interface up by its name.
    ///
    /// # Errors
    ///
    /// No such name here, or no name at all.
    pub fn by_name(name: &str) -> Result<NetIf, NetIfError> {
        check_name(name)?;
        let rtnl = Rtnl::new()?;
        match rtnl.links(ACK, 0, Some(name)) {
            Ok(found) => match found.first() {
                Some(link) => Ok(NetIf { index: link.index, rtnl }),
                None => Err(NetIfError::Answer { what: format!("looking up interface {name}") }),
            },
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {
                let present = NetIf::all().unwrap_or_default().into_iter().map(|l| l.name).collect();
                Err(NetIfError::Absent { name: name.into(), present })
            }
            Err(e) => Err(NetIfError::system(format!("looking up interface {name}"))(e)),
        }
    }

    /// Looks an interface up by its number.
    ///
    /// # Errors
    ///
    /// There is none with this number.
    pub fn by_index(index: u32) -> Result<NetIf, NetIfError> {
        let found = NetIf { rtnl: Rtnl::new()?, index };
        found.info().map(|_| found)
    }

    /// All interfaces of this namespace.
    ///
    /// # Errors
    ///
    /// The kernel did not answer.
    pub fn all() -> Result<Vec<LinkInfo>, NetIfError> {
        Rtnl::new()?.links(DUMP, 0, None).map_err(NetIfError::system("listing the network interfaces"))
    }

    /// Its number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// What it is now.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub fn info(&self) -> Result<LinkInfo, NetIfError> {
        let found = self.rtnl.links(ACK, self.index, None).map_err(|e| self.error("asking about", e))?;
        found.into_iter().next().ok_or(NetIfError::Gone { index: self.index })
    }

    /// Its speed in Mbit/s, if its driver says.
    pub fn speed_mbps(&self) -> Option<u32> {
        let fd = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok()?;
        sys::speed_mbps(fd, &self.info().ok()?.name)
    }

    fn error(&self, what: &str, e: io::Error) -> NetIfError {
        match e.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => NetIfError::Gone { index: self.index },
            _ => NetIfError::system(format!("{what} interface number {}", self.index))(e),
        }
    }

    fn change(
        &self,
        what: &str,
        flags: (u32, u32),
        fill: impl FnOnce(&mut Message),
    ) -> Result<(), NetIfError> {
        let done = self.rtnl.request((RTM_NEWLINK, ACK), self.index, flags, fill, |_| {});
        done.map_err(|e| self.error(what, e))
    }

    /// Sets its MTU in bytes.
    ///
    /// # Errors
    ///
    /// No right, out of its range, or it is gone.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), NetIfError> {
        self.change(&format!("setting MTU {mtu} of"), (0, 0), |m| {
            m.attr(IFLA_MTU, &mtu.to_ne_bytes());
        })
    }

    /// Sets it up or down.
    ///
    /// # Errors
    ///
    /// No right, or it is gone.
    pub fn set_up(&self, up: bool) -> Result<(), NetIfError> {
        let flag = libc::IFF_UP as u32;
        self.change(if up { "setting up" } else { "setting down" }, (flag * u32::from(up), flag), |_| {})
    }

    /// Gives it an Ethernet address.
    ///
    /// # Errors
    ///
    /// No right, its driver refuses, or it is gone.
    pub fn set_mac(&self, mac: MacAddress) -> Result<(), NetIfError> {
        self.change(&format!("setting address {mac} of"), (0, 0), |m| {
            m.attr(IFLA_ADDRESS, &mac.0);
        })
    }

    /// Renames it.
    ///
    /// # Errors
    ///
    /// No right, the name is taken or none, or it is gone.
    pub fn set_name(&self, name: &str) -> Result<(), NetIfError> {
        check_name(name)?;
        self.change(&format!("renaming to {name}"), (0, 0), |m| {
            m.name(IFLA_IFNAME, name);
        })
    }

    /// Moves it to the network namespace that a descriptor of `/proc/PID/ns/net` stands for; it is gone here.
    ///
    /// # Errors
    ///
    /// No right, the device cannot move, or it is gone.
    pub fn move_to(&self, namespace: BorrowedFd<'_>) -> Result<(), NetIfError> {
        self.change("moving", (0, 0), |m| {
            m.attr(IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
        })
    }

    /// Deletes it, if it is a virtual one.
    ///
    /// # Errors
    ///
    /// No right, it cannot be deleted, or it is gone.
    pub fn delete(&self) -> Result<(), NetIfError> {
        let done = self.rtnl.request((RTM_DELLINK, ACK), self.index, (0, 0), |_| {}, |_| {});
        done.map_err(|e| self.error("deleting", e))
    }

    /// Whether a socket lives in the same network namespace.
    ///
    /// # Errors
    ///
    /// [`NetIfError::OtherNamespace`]: it does not, and the number would mean another interface there.
    pub fn same_namespace(&self, socket: impl AsFd) -> Result<(), NetIfError> {
        if sys::netns_cookie(&self.rtnl.fd) == sys::netns_cookie(socket) {
            Ok(())
        } else {
            Err(NetIfError::OtherNamespace { index: self.index })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_before_the_kernel_cuts_them() {
        for bad in ["", ".", "..", "sixteen-letters-", "a/b", "a:b", "a b", "a\tb", "a\0"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
            assert!(matches!(NetIf::by_name(bad), Err(NetIfError::BadName { .. })), "{bad:?}");
        }
        assert!(check_name("fifteen-letters").is_ok());
    }

    #[test]
    fn the_loopback_interface_is_found_and_others_are_not() {
        let lo = NetIf::by_name("lo").unwrap();
        let info = lo.info().unwrap();
        assert_eq!((info.name.as_str(), info.index, info.kind.clone()), ("lo", lo.index(), None));
        assert!(info.mtu > 0 && info.rx_queues > 0 && info.tx_queues > 0);
        assert_eq!(NetIf::by_index(lo.index()).unwrap().info().unwrap(), info);
        assert!(NetIf::all().unwrap().contains(&info));
        let e = NetIf::by_name("no-such-if").unwrap_err();
        assert!(matches!(&e, NetIfError::Absent { present, .. } if present.contains(&"lo".into())), "{e}");
        assert!(e.hint().contains("lo"));
        assert!(matches!(NetIf::by_index(u32::MAX >> 1), Err(NetIfError::Gone { .. })));
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
        lo.same_namespace(&socket).unwrap();
    }
}
