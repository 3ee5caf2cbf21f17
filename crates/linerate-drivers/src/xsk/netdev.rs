//! What a driver can do for XDP, and how its receive contexts (NAPI) are tuned: the kernel's `netdev` family of
//! generic netlink. A kernel without it (before 6.3; tuning 6.13) leaves the answers open.
//!
//! Follows `Documentation/netlink/specs/netdev.yaml`.

use super::netlink::{Family, Netlink, attribute, half, long, put, word};
use std::io;

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const DEV_GET: u8 = 1;
const NAPI_GET: u8 = 11;
const NAPI_SET: u8 = 14;

const DEV_IFINDEX: u16 = 1;
const DEV_XDP_FEATURES: u16 = 3;
const DEV_ZC_MAX_SEGS: u16 = 4;

const NAPI_ID: u16 = 2;
const NAPI_DEFER_HARD_IRQS: u16 = 5;
const NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;

/// What a driver can do for XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    bits: u64,
    /// Most pieces of a frame with zero-copy.
    pub(super) zero_copy_pieces: u32,
}

impl Features {
    /// Programs in the driver, with redirection.
    pub(super) fn native(self) -> bool {
        self.bits & 0x3 == 0x3
    }

    /// Sockets without copying.
    pub(super) fn zero_copy(self) -> bool {
        self.bits & 0x8 != 0
    }

    /// Frames in several pieces before the program.
    pub(super) fn pieces(self) -> bool {
        self.bits & 0x20 != 0
    }
}

/// How long a receive context leaves its interrupts off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deferral {
    /// Empty polls before interrupts come back.
    pub(super) polls: u32,
    /// Nanoseconds after which it polls by itself.
    pub(super) timeout_ns: u64,
}

/// The family, if the kernel has it.
#[derive(Debug)]
pub(super) struct Netdev {
    socket: Netlink,
    id: u16,
}

/// A message of generic netlink: its four bytes of header, then attributes.
fn message(command: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = vec![command, 1, 0, 0];
    for (kind, value) in attributes {
        put(&mut body, *kind, value);
    }
    body
}

impl Netdev {
    /// Looks the family up.
    pub(super) fn new() -> io::Result<Self> {
        let socket = Netlink::new(Family::Generic)?;
        let mut id = None;
        let ask = message(CTRL_CMD_GETFAMILY, &[(CTRL_ATTR_FAMILY_NAME, b"netdev\0")]);
        socket.ask(GENL_ID_CTRL, 0, &ask, |_, body| {
            id = body.get(4..).and_then(|b| attribute(b, CTRL_ATTR_FAMILY_ID)).and_then(|v| half(v, 0));
        })?;
        let id = id.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        Ok(Netdev { socket, id })
    }

    /// What the driver of an interface can do.
    pub(super) fn features(&self, index: u32) -> io::Result<Features> {
        let mut features = Features { bits: 0, zero_copy_pieces: 1 };
        let ask = message(DEV_GET, &[(DEV_IFINDEX, &index.to_ne_bytes())]);
        self.socket.ask(self.id, 0, &ask, |_, body| {
            let rest = body.get(4..).unwrap_or_default();
            let number = |kind| attribute(rest, kind);
            features.bits = number(DEV_XDP_FEATURES).and_then(|v| long(v, 0)).unwrap_or(0);
            features.zero_copy_pieces = number(DEV_ZC_MAX_SEGS).and_then(|v| word(v, 0)).unwrap_or(1);
        })?;
        Ok(features)
    }

    /// How a receive context defers its interrupts.
    pub(super) fn deferral(&self, napi: u32) -> io::Result<Deferral> {
        let mut d = Deferral::default();
        let ask = message(NAPI_GET, &[(NAPI_ID, &napi.to_ne_bytes())]);
        self.socket.ask(self.id, 0, &ask, |_, body| {
            let rest = body.get(4..).unwrap_or_default();
            d.polls = attribute(rest, NAPI_DEFER_HARD_IRQS).and_then(|v| word(v, 0)).unwrap_or(0);
            // An unsigned integer of this family has 4 or 8 bytes, as the value needs.
            let timeout = attribute(rest, NAPI_GRO_FLUSH_TIMEOUT);
            d.timeout_ns = timeout.and_then(|v| long(v, 0).or(word(v, 0).map(u64::from))).unwrap_or(0);
        })?;
        Ok(d)
    }

    /// Tells a receive context to defer its interrupts.
    pub(super) fn set_deferral(&self, napi: u32, d: Deferral) -> io::Result<()> {
        let ask = message(
            NAPI_SET,
            &[
                (NAPI_ID, &napi.to_ne_bytes()),
                (NAPI_DEFER_HARD_IRQS, &d.polls.to_ne_bytes()),
                (NAPI_GRO_FLUSH_TIMEOUT, &d.timeout_ns.to_ne_bytes()),
            ],
        );
        self.socket.ask(self.id, 0, &ask, |_, _| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_no_native_program() {
        let Ok(netdev) = Netdev::new() else { return }; // a kernel before 6.3
        let f = netdev.features(1).unwrap();
        assert!(!f.native() && !f.zero_copy(), "{f:?}");
        assert!(netdev.features(0x7fff_fff0).is_err());
        assert!(netdev.deferral(u32::MAX).is_err());
    }
}
