//! A TAP device: its descriptors, one a queue, and what they say.

use super::{TapError, options::Options};
use crate::netif::{
    check_name,
    sys::{self, IfReq},
};
use std::{fs::OpenOptions, io, os::fd::OwnedFd, os::unix::fs::OpenOptionsExt, sync::Arc};

const TUNSETIFF: u64 = 0x4004_54ca;
const TUNSETPERSIST: u64 = 0x4004_54cb;
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
const TUNSETQUEUE: u64 = 0x4004_54d9;
const TUNSETCARRIER: u64 = 0x4004_54e2;
const IFF_TAP: u16 = 0x0002;
const IFF_MULTI_QUEUE: u16 = 0x0100;
const IFF_ATTACH_QUEUE: u16 = 0x0200;
const IFF_DETACH_QUEUE: u16 = 0x0400;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
/// `TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`, `TUN_F_TSO_ECN`.
const CUT_TCP: u64 = 1 | 2 | 4 | 8;
/// `TUN_F_USO4`, `TUN_F_USO6`, since kernel 6.2.
const CUT_UDP: u64 = 0x20 | 0x40;

/// The descriptors of a TAP device. The interface goes with the last of them unless it is persistent.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) name: String,
    queues: Vec<Arc<OwnedFd>>,
    attached: usize,
}

impl Device {
    /// Makes the interface, down, or takes over one of the same kind that was left behind.
    pub(super) fn open(name: &str, options: &Options) -> Result<Device, TapError> {
        check_name(name)?;
        let mut flags = IFF_TAP | IFF_NO_PI;
        if options.queues > 1 {
            flags |= IFF_MULTI_QUEUE;
        }
        if options.vnet {
            flags |= IFF_VNET_HDR;
        }
        let mut device = Device { name: name.into(), queues: Vec::new(), attached: 0 };
        for _ in 0..options.queues {
            let mut open = OpenOptions::new();
            open.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
            let file = open.open("/dev/net/tun").map_err(|source| TapError::NoDevice { source })?;
            let mut request = IfReq::new(&device.name).with_flags(flags);
            let made = sys::ioctl_ifreq(&file, TUNSETIFF, &mut request);
            made.map_err(|source| {
                let (name, queues) = (device.name.clone(), options.queues);
                TapError::Make { name, queues, source }
            })?;
            // A name with %d in it was completed by the kernel.
            device.name = request.name();
            device.queues.push(Arc::new(file.into()));
            device.attached += 1;
        }
        device.attach(1)?;
        let set = |what, done: io::Result<()>| {
            let name = device.name.clone();
            done.map_err(|source| TapError::Set { name, what, source })
        };
        let first = &device.queues[0];
        if options.vnet {
            let done = sys::ioctl_value(first, TUNSETOFFLOAD, CUT_TCP | CUT_UDP)
                .or_else(|_| sys::ioctl_value(first, TUNSETOFFLOAD, CUT_TCP));
            set("offloads", done)?;
        }
        set("persist", sys::ioctl_value(first, TUNSETPERSIST, options.persist.into()))?;
        Ok(device)
    }

    /// Lets the kernel use the first `n` queues, at least one, and no other.
    pub(super) fn attach(&mut self, n: usize) -> Result<(), TapError> {
        let n = n.clamp(1, self.queues.len());
        let turn = |from: usize, to: usize, flag| {
            for fd in &self.queues[from..to] {
                let mut request = IfReq::new("").with_flags(flag);
                sys::ioctl_ifreq(fd, TUNSETQUEUE, &mut request).map_err(|source| TapError::Set {
                    name: self.name.clone(),
                    what: "attaching a queue",
                    source,
                })?;
            }
            Ok::<(), TapError>(())
        };
        if n < self.attached {
            turn(n, self.attached, IFF_DETACH_QUEUE)?;
        } else {
            turn(self.attached, n, IFF_ATTACH_QUEUE)?;
        }
        self.attached = n;
        Ok(())
    }

    /// The descriptor of a queue; of those beyond the attached ones, that of one that is attached.
    pub(super) fn queue(&self, q: usize) -> Arc<OwnedFd> {
        self.queues[q % self.attached].clone()
    }

    /// Throws away what waits from before.
    pub(super) fn drain(&self) {
        let mut bytes = [0; 64];
        for fd in &self.queues[..self.attached] {
            // As many as the kernel keeps at most.
            for _ in 0..1 << 16 {
                if sys::read(&**fd, &mut bytes).is_err() {
                    break;
                }
            }
        }
    }

    /// Tells the kernel whether somebody is at this end.
    pub(super) fn set_carrier(&self, on: bool) -> io::Result<()> {
        sys::ioctl_int(&self.queues[0], TUNSETCARRIER, on.into())
    }
}
