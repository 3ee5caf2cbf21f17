//! Promiscuous mode and further addresses, asked for by a socket and gone with it.

use super::{NetIf, NetIfError, sys};
use linerate_port::MacAddress;
use std::os::fd::OwnedFd;

const MR_MULTICAST: u16 = 0;
const MR_PROMISC: u16 = 1;
const MR_ALLMULTI: u16 = 2;
const MR_UNICAST: u16 = 3;

/// What is asked of an interface as long as this lives: the kernel takes it back when the socket closes, also
/// of a process that is killed. It receives nothing itself.
#[derive(Debug)]
pub struct Memberships {
    fd: OwnedFd,
    index: u32,
    promiscuous: bool,
    all_multicast: bool,
}

impl Memberships {
    /// Asks for nothing yet.
    ///
    /// # Errors
    ///
    /// No right to packet sockets, or the thread is in another namespace than the interface.
    pub fn new(of: &NetIf) -> Result<Self, NetIfError> {
        let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        let fd = fd.map_err(NetIfError::system("packet socket (AF_PACKET)"))?;
        of.same_namespace(&fd)?;
        Ok(Memberships { fd, index: of.index(), promiscuous: false, all_multicast: false })
    }

    fn change(&self, kind: u16, address: &[u8], add: bool) -> Result<(), NetIfError> {
        // struct packet_mreq: index, kind, length, address.
        let mut r = [0u8; 16];
        r[..4].copy_from_slice(&self.index.to_ne_bytes());
        r[4..6].copy_from_slice(&kind.to_ne_bytes());
        r[6..8].copy_from_slice(&(address.len() as u16).to_ne_bytes());
        r[8..8 + address.len()].copy_from_slice(address);
        let option = if add { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        sys::set_opt(&self.fd, libc::SOL_PACKET, option, &r).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => NetIfError::Gone { index: self.index },
            _ => NetIfError::system(format!("membership of kind {kind} on interface {}", self.index))(e),
        })
    }

    /// Receives frames to every address, or not.
    ///
    /// # Errors
    ///
    /// The device refused, or it is gone.
    pub fn set_promiscuous(&mut self, on: bool) -> Result<(), NetIfError> {
        if on != self.promiscuous {
            self.change(MR_PROMISC, &[], on)?;
            self.promiscuous = on;
        }
        Ok(())
    }

    /// Receives frames to every group, or not.
    ///
    /// # Errors
    ///
    /// The device refused, or it is gone.
    pub fn set_all_multicast(&mut self, on: bool) -> Result<(), NetIfError> {
        if on != self.all_multicast {
            self.change(MR_ALLMULTI, &[], on)?;
            self.all_multicast = on;
        }
        Ok(())
    }

    /// Receives frames to a further address, or not any more.
    ///
    /// # Errors
    ///
    /// The device refused, or it is gone.
    pub fn set_mac(&self, mac: MacAddress, add: bool) -> Result<(), NetIfError> {
        self.change(if mac.is_multicast() { MR_MULTICAST } else { MR_UNICAST }, &mac.0, add)
    }
}
