//! Netlink requests with their answers, of any family. Messages are read with bounds and never trusted.
//!
//! Follows `linux/netlink.h`, `linux/genetlink.h`; the attributes of a message are type-length-value, padded to
//! four bytes.

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType,
    netlink::{GENERIC, SocketAddrNetlink},
    sockopt::{Timeout, set_socket_timeout},
};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Mutex, PoisonError},
    time::Duration,
};

const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;

/// Which family a socket speaks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Family {
    /// Links, addresses, routes.
    Route,
    /// Families by name.
    Generic,
}

impl Family {
    fn protocol(self) -> Option<Protocol> {
        match self {
            Family::Route => None, // number 0
            Family::Generic => Some(GENERIC),
        }
    }
}

/// A netlink socket. It stays in the network namespace in which it was made, whoever uses it.
#[derive(Debug)]
pub(super) struct Netlink {
    fd: OwnedFd,
    sequence: Mutex<u32>,
}

impl Netlink {
    /// A socket in the calling thread's namespace.
    pub(super) fn new(family: Family) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let protocol = family.protocol();
        let fd = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        // The kernel answers at once; this bounds what a lost answer costs.
        set_socket_timeout(&fd, Timeout::Recv, Some(Duration::from_secs(2)))?;
        Ok(Netlink { fd, sequence: Mutex::new(1) })
    }

    /// Asks, and gives every message of the answer to `each`: its type and what follows its header.
    pub(super) fn ask(
        &self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        // Held until the answer is complete: two threads must not read each other's.
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        *sequence = sequence.wrapping_add(1);
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((flags | NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        message.extend(sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(body);
        rustix::net::send(&self.fd, &message, SendFlags::empty())?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let (n, _) = rustix::net::recv(&self.fd, &mut buffer[..], RecvFlags::empty())?;
            for m in messages(&buffer[..n.min(64 * 1024)]).filter(|m| m.sequence == *sequence) {
                match m.kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => {
                        let code = word(m.body, 0).unwrap_or(0) as i32;
                        return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
                    }
                    kind => each(kind, m.body),
                }
            }
        }
    }
}

/// One message.
#[derive(Clone, Copy, Debug)]
struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
}

fn messages(mut rest: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = word(rest, 0)? as usize;
        if len < HEADER || len > rest.len() {
            return None;
        }
        let (now, _) = rest.split_at(len);
        let m = Message { kind: half(now, 4)?, sequence: word(now, 8)?, body: &now[HEADER..] };
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(m)
    })
}

/// The attributes in `rest`: type (without its flag bits) and value.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(half(rest, 0)?);
        if len < 4 || len > rest.len() {
            return None;
        }
        let found = (half(rest, 2)? & 0x3fff, &rest[4..len]);
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(found)
    })
}

/// The value of the first attribute of this type.
pub(super) fn attribute(rest: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(rest).find(|(k, _)| *k == kind).map(|(_, v)| v)
}

/// Appends an attribute.
pub(super) fn put(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((4 + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The 16-bit number at `at`.
pub(super) fn half(b: &[u8], at: usize) -> Option<u16> {
    b.get(at..)?.first_chunk().map(|c| u16::from_ne_bytes(*c))
}

/// The 32-bit number at `at`.
pub(super) fn word(b: &[u8], at: usize) -> Option<u32> {
    b.get(at..)?.first_chunk().map(|c| u32::from_ne_bytes(*c))
}

/// The 64-bit number at `at`.
pub(super) fn long(b: &[u8], at: usize) -> Option<u64> {
    b.get(at..)?.first_chunk().map(|c| u64::from_ne_bytes(*c))
}

/// A text that ends with a zero byte.
pub(super) fn text(b: &[u8]) -> String {
    let end = b.iter().position(|c| *c == 0).unwrap_or(b.len());
    String::from_utf8_lossy(&b[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_written() {
        let mut b = Vec::new();
        put(&mut b, 3, b"eth0\0");
        put(&mut b, 0x8000 | 4, &7u32.to_ne_bytes());
        assert_eq!(b.len() % 4, 0);
        let all: Vec<_> = attributes(&b).collect();
        assert_eq!(all, [(3, &b"eth0\0"[..]), (4, &7u32.to_ne_bytes()[..])]);
        assert_eq!(attribute(&b, 3).map(text), Some("eth0".into()));
        assert_eq!(attribute(&b, 9), None);
    }

    #[test]
    fn lengths_that_lie_end_the_walk() {
        let mut b = Vec::new();
        put(&mut b, 1, &[1, 2, 3, 4]);
        for len in [0u16, 1, 3, 9, u16::MAX] {
            let mut bad = b.clone();
            bad[..2].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(attributes(&bad).count(), 0, "{len}");
            let mut m = vec![0; 32];
            m[..4].copy_from_slice(&u32::from(len).to_ne_bytes());
            let all: Vec<_> = messages(&m).collect();
            assert!(all.is_empty(), "{len}");
        }
        for cut in 0..b.len() {
            assert_eq!(attributes(&b[..cut]).count(), 0, "{cut}");
        }
    }

    /// Ask for every object, not one.
    const NLM_F_DUMP: u16 = 0x300;

    #[test]
    fn the_kernel_answers() {
        let route = Netlink::new(Family::Route).unwrap();
        let mut links = 0;
        // RTM_GETLINK, all of them: there is at least the loopback.
        route.ask(18, NLM_F_DUMP, &[0; 16], |kind, _| links += usize::from(kind == 16)).unwrap();
        assert!(links > 0);
        // One that is not there is an error, and the socket goes on.
        let mut body = vec![0; 16];
        body[4..8].copy_from_slice(&0x7fff_fff0u32.to_ne_bytes());
        let e = route.ask(18, 0, &body, |_, _| ()).unwrap_err();
        assert_eq!(e.raw_os_error(), Some(libc::ENODEV));
        route.ask(18, NLM_F_DUMP, &[0; 16], |_, _| ()).unwrap();
    }
}
