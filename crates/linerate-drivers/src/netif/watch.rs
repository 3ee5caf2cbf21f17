//! Hearing what happens to an interface.

use super::{LinkInfo, NetIf, NetIfError, message::messages, sys};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
/// `RTMGRP_LINK`.
const LINK_GROUP: u32 = 1;
/// `AF_BRIDGE`: such a message is about a bridge's port, not about the interface.
const AF_BRIDGE: u8 = 7;

/// Something that happened to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// It changed: flags, carrier, MTU, address or name.
    Changed(LinkInfo),
    /// It was deleted, or moved to another network namespace.
    Removed,
}

/// Hears every change of one interface, in order.
#[derive(Debug)]
pub struct LinkWatch {
    fd: OwnedFd,
    index: u32,
    removed: bool,
    buffer: Vec<u8>,
}

impl LinkWatch {
    /// Hears of changes from now on.
    ///
    /// # Errors
    ///
    /// There is no rtnetlink, or the thread is in another namespace than the interface.
    pub fn new(of: &NetIf) -> Result<LinkWatch, NetIfError> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
        let made = sys::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE).and_then(|fd| {
            let mut address = [0u8; 12]; // sockaddr_nl: family, port, groups
            address[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
            address[8..].copy_from_slice(&LINK_GROUP.to_ne_bytes());
            sys::bind(&fd, &address).map(|()| fd)
        });
        let fd = made.map_err(NetIfError::system("listening to changes of interfaces"))?;
        of.same_namespace(&fd)?;
        Ok(LinkWatch { fd, index: of.index(), removed: false, buffer: vec![0; 64 * 1024] })
    }

    /// Calls `event` for everything that happened since the last call. Never waits.
    ///
    /// When more happened than the kernel kept, the interface's present state is told instead.
    pub fn poll(&mut self, of: &NetIf, mut event: impl FnMut(LinkEvent)) {
        while !self.removed {
            match sys::recv(&self.fd, &mut self.buffer, 0) {
                Ok(n) => {
                    for m in messages(&self.buffer[..n]) {
                        let Some(link) = LinkInfo::parse(m.body).filter(|l| l.index == self.index) else {
                            continue;
                        };
                        match m.kind {
                            _ if m.body.first() == Some(&AF_BRIDGE) || self.removed => {}
                            RTM_NEWLINK => event(LinkEvent::Changed(link)),
                            RTM_DELLINK => {
                                self.removed = true;
                                event(LinkEvent::Removed);
                            }
                            _ => {}
                        }
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => match of.info() {
                    Ok(link) => event(LinkEvent::Changed(link)),
                    Err(NetIfError::Gone { .. }) => {
                        self.removed = true;
                        event(LinkEvent::Removed);
                    }
                    Err(_) => return,
                },
                Err(_) => return,
            }
        }
    }
}

impl AsFd for LinkWatch {
    /// Readable when there is something to [`poll`](Self::poll).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
