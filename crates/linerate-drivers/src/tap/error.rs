//! What can go wrong with a TAP device.

use crate::netif::NetIfError;
use linerate_port::{PortError, PortId};
use std::io;
use thiserror::Error;

/// Why a TAP device cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TapError {
    /// The device file cannot be opened.
    #[error("/dev/net/tun: {source}")]
    NoDevice {
        /// What the system said.
        source: io::Error,
    },
    /// The interface cannot be made or taken.
    #[error("making the TAP interface {name} with {queues} queues: {source}")]
    Make {
        /// The interface.
        name: String,
        /// Queues asked for.
        queues: u16,
        /// What the system said.
        source: io::Error,
    },
    /// A setting was refused.
    #[error("TAP interface {name}: {what}: {source}")]
    Set {
        /// The interface.
        name: String,
        /// What was to be set.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The interface's own error.
    #[error(transparent)]
    Interface(#[from] NetIfError),
}

impl TapError {
    /// What mends it.
    pub fn hint(&self) -> String {
        let rights = "run as root, or: setcap cap_net_admin+ep PROGRAM (in a container: --cap-add NET_ADMIN --device /dev/net/tun)";
        match self {
            TapError::NoDevice { source } => match source.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
                    "modprobe tun; mkdir -p /dev/net; mknod /dev/net/tun c 10 200 (in a container: --device /dev/net/tun)"
                        .into()
                }
                Some(libc::EACCES | libc::EPERM) => rights.into(),
                _ => crate::netif::hint_for(source),
            },
            TapError::Make { name, source, .. } => match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => rights.into(),
                Some(libc::EBUSY) => format!("another process has it: choose another name than {name}"),
                Some(libc::EINVAL | libc::EEXIST) => {
                    format!("{name} exists and is no TAP device of this kind (queues, vnet_hdr): ip -d link show {name}")
                }
                Some(libc::E2BIG) => "take fewer queues".into(),
                _ => crate::netif::hint_for(source),
            },
            TapError::Set { source, .. } => crate::netif::hint_for(source),
            TapError::Interface(e) => e.hint(),
        }
    }

    pub(super) fn at(self, port: PortId) -> PortError {
        let hint = self.hint();
        match self {
            TapError::Interface(e) => e.at(port),
            other => PortError::Driver { port, source: Box::new(other), hint },
        }
    }
}
