//! What can go wrong with an interface.

use linerate_port::{PortError, PortId};
use std::io;
use thiserror::Error;

/// Why an interface cannot be had or changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetIfError {
    /// No interface of that name in this network namespace.
    #[error("there is no network interface {name:?} in this network namespace")]
    Absent {
        /// The name asked for.
        name: String,
        /// The names there are.
        present: Vec<String>,
    },
    /// No name that an interface can have.
    #[error("{name:?} is no name for a network interface: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It was there and is not any more.
    #[error("network interface number {index} is gone")]
    Gone {
        /// Its number.
        index: u32,
    },
    /// A socket belongs to another network namespace than the interface.
    #[error("this thread is in another network namespace than interface number {index}")]
    OtherNamespace {
        /// The interface's number.
        index: u32,
    },
    /// The kernel refused.
    #[error("{what}: {source}")]
    System {
        /// What was tried, with its object.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel's answer makes no sense.
    #[error("{what}: the kernel's answer cannot be read")]
    Answer {
        /// What was asked.
        what: String,
    },
}

/// What a process needs for raw and administrative work on interfaces.
pub(crate) const RIGHTS: &str = "run as root, or: setcap cap_net_raw,cap_net_admin+ep PROGRAM (in a container: --cap-add NET_RAW,NET_ADMIN)";

/// What mends a system call's error.
pub(crate) fn hint_for(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => RIGHTS.into(),
        Some(libc::ENODEV | libc::ENXIO) => "`ip link` lists the interfaces that there are".into(),
        Some(libc::ENETDOWN) => "ip link set dev INTERFACE up".into(),
        Some(libc::ENOMEM | libc::ENOBUFS) => "take fewer or smaller frames (framecnt=, framesz=)".into(),
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files: ulimit -n".into(),
        Some(libc::EAFNOSUPPORT) => "this kernel is built without packet sockets (CONFIG_PACKET)".into(),
        Some(libc::EBUSY) => "another process has it, or the interface must be down: ip link show".into(),
        _ => "`ip -d link show` and `dmesg` tell more".into(),
    }
}

impl NetIfError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| NetIfError::System { what, source }
    }

    /// The error number, if the kernel gave one.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            NetIfError::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// What mends it.
    pub fn hint(&self) -> String {
        match self {
            NetIfError::Absent { present, .. } => match present.len() {
                0 => "there are none here; see `ip link` and `ip netns`".into(),
                _ => format!("there are: {}", present.join(", ")),
            },
            NetIfError::BadName { .. } => "take 1 to 15 characters, as `ip link` lists them".into(),
            NetIfError::Gone { .. } => "close the port, and open it again when the interface is back".into(),
            NetIfError::OtherNamespace { .. } => {
                "open a port and set its queues up in one network namespace".into()
            }
            NetIfError::System { source, .. } => hint_for(source),
            NetIfError::Answer { .. } => "please report this with the kernel's version".into(),
        }
    }

    /// As a port's error.
    pub fn at(self, port: PortId) -> PortError {
        let hint = self.hint();
        match self {
            NetIfError::Gone { .. } => PortError::Removed { port },
            NetIfError::System { what, source } => PortError::System { port, what, source, hint },
            other => PortError::Driver { port, source: Box::new(other), hint },
        }
    }
}
