//! The system calls that sockets of the kernel's own kinds need, with their arguments checked.
//!
// UNSAFETY: each call gives the kernel pointers to memory that lives and is large enough for the length that is
// passed with it; descriptors are owned.

use std::{
    ffi::c_int,
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

fn check(n: c_int) -> io::Result<c_int> {
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n) }
}

/// A socket, closed on exec.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `setsockopt` with the bytes of an option.
pub(crate) fn set_opt(fd: impl AsFd, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the option's bytes are borrowed for the call.
    let n =
        unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    check(n).map(drop)
}

/// `setsockopt` with an `int`.
pub(crate) fn set_int(fd: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set_opt(fd, level, name, &value.to_ne_bytes())
}

/// `setsockopt` with several words.
pub(crate) fn set_words(fd: impl AsFd, level: c_int, name: c_int, words: &[u32]) -> io::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    set_opt(fd, level, name, &bytes)
}

/// `getsockopt` of `N` words.
pub(crate) fn get_words<const N: usize>(fd: impl AsFd, level: c_int, name: c_int) -> io::Result<[u32; N]> {
    let mut words = [0u32; N];
    let mut len = size_of_val(&words) as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: at most `len` bytes are written to `words`.
    check(unsafe { libc::getsockopt(fd, level, name, words.as_mut_ptr().cast(), &mut len) })?;
    Ok(words)
}

/// Which network namespace a socket lives in; 0 if the kernel cannot tell (before 5.14).
pub(crate) fn netns_cookie(fd: impl AsFd) -> u64 {
    const SO_NETNS_COOKIE: c_int = 71;
    let words = get_words::<2>(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE).unwrap_or_default();
    u64::from(words[0]) | u64::from(words[1]) << 32
}

/// Lets a socket receive nothing: a filter that refuses every packet.
pub(crate) fn shut_filter(fd: impl AsFd) -> io::Result<()> {
    let mut code = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }]; // BPF_RET | BPF_K: 0 bytes
    let program = libc::sock_fprog { len: 1, filter: code.as_mut_ptr() };
    let (fd, len) = (fd.as_fd().as_raw_fd(), size_of_val(&program) as libc::socklen_t);
    let at = (&raw const program).cast();
    // SAFETY: program and code live during the call, which copies them.
    check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, at, len) }).map(drop)
}

/// Takes [`shut_filter`] away.
pub(crate) fn open_filter(fd: impl AsFd) -> io::Result<()> {
    set_int(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0)
}

/// Binds to the bytes of an address.
pub(crate) fn bind(fd: impl AsFd, address: &[u8]) -> io::Result<()> {
    let (fd, len) = (fd.as_fd().as_raw_fd(), address.len() as libc::socklen_t);
    // SAFETY: the address is borrowed for the call.
    check(unsafe { libc::bind(fd, address.as_ptr().cast(), len) }).map(drop)
}

/// A `sockaddr_ll` for frames of `ethertype` (host order; 0 = none) on an interface.
pub(crate) fn packet_address(index: u32, ethertype: u16) -> [u8; 20] {
    let mut a = [0; 20];
    a[0..2].copy_from_slice(&(libc::AF_PACKET as u16).to_ne_bytes());
    a[2..4].copy_from_slice(&ethertype.to_be_bytes());
    a[4..8].copy_from_slice(&index.to_ne_bytes());
    a
}

/// Sends bytes; with none, only lets the kernel look at the ring of a packet socket.
#[inline]
pub(crate) fn send(fd: impl AsFd, bytes: &[u8], flags: c_int) -> io::Result<usize> {
    let at = if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr().cast() };
    // SAFETY: the bytes are borrowed for the call.
    let n = unsafe { libc::send(fd.as_fd().as_raw_fd(), at, bytes.len(), flags | libc::MSG_NOSIGNAL) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// Receives into a buffer.
pub(crate) fn recv(fd: impl AsFd, bytes: &mut [u8], flags: c_int) -> io::Result<usize> {
    // SAFETY: at most `len` bytes are written to the buffer.
    let n = unsafe { libc::recv(fd.as_fd().as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), flags) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// The argument of the ioctls on interfaces and TAP devices: a name, and something besides.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct IfReq {
    pub(crate) name: [u8; 16],
    pub(crate) data: [u8; 24],
}

impl IfReq {
    /// For an interface whose name is short enough.
    pub(crate) fn new(name: &str) -> Self {
        let mut r = IfReq { name: [0; 16], data: [0; 24] };
        let n = name.len().min(15);
        r.name[..n].copy_from_slice(&name.as_bytes()[..n]);
        r
    }

    /// With the flags that `TUNSETIFF` takes.
    pub(crate) fn with_flags(mut self, flags: u16) -> Self {
        self.data[..2].copy_from_slice(&flags.to_ne_bytes());
        self
    }

    /// The name that the kernel filled in.
    pub(crate) fn name(&self) -> String {
        let end = self.name.iter().position(|&b| b == 0).unwrap_or(16);
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }
}

/// An ioctl whose argument is a `struct ifreq` without pointers.
pub(crate) fn ioctl_ifreq(fd: impl AsFd, request: u64, argument: &mut IfReq) -> io::Result<()> {
    // SAFETY: a whole ifreq (40 bytes) of ours, to be read and written.
    check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request as _, argument as *mut IfReq) }).map(drop)
}

/// An ioctl whose argument points to an `int`.
pub(crate) fn ioctl_int(fd: impl AsFd, request: u64, mut argument: c_int) -> io::Result<()> {
    // SAFETY: an int of ours.
    check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request as _, &raw mut argument) }).map(drop)
}

/// An ioctl whose argument is a number.
pub(crate) fn ioctl_value(fd: impl AsFd, request: u64, argument: u64) -> io::Result<()> {
    // SAFETY: no pointer.
    check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request as _, argument) }).map(drop)
}

/// Speed of an interface in Mbit/s, if its driver says (`ETHTOOL_GSET`).
pub(crate) fn speed_mbps(fd: impl AsFd, name: &str) -> Option<u32> {
    const SIOCETHTOOL: u64 = 0x8946;
    // struct ethtool_cmd, 44 bytes: the command first, speed at 12, its upper half at 28.
    let mut command = [0u32; 11];
    command[0] = 1;
    let mut r = IfReq::new(name);
    r.data[..8].copy_from_slice(&(command.as_mut_ptr() as usize as u64).to_ne_bytes());
    // SAFETY: the request holds a pointer to a whole ethtool_cmd of ours, which is written during the call.
    check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), SIOCETHTOOL as _, &raw mut r) }).ok()?;
    let low = u32::from(u16::from_ne_bytes([command[3].to_ne_bytes()[0], command[3].to_ne_bytes()[1]]));
    let high = u32::from(u16::from_ne_bytes([command[7].to_ne_bytes()[0], command[7].to_ne_bytes()[1]]));
    let speed = low | high << 16;
    (speed != 0 && speed != u32::MAX && speed != 0xffff).then_some(speed)
}

/// Reads into a buffer.
#[inline]
pub(crate) fn read(fd: impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: at most `len` bytes are written to the buffer.
    let n = unsafe { libc::read(fd.as_fd().as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// Writes bytes.
#[inline]
pub(crate) fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are borrowed for the call.
    let n = unsafe { libc::write(fd.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// Writes two pieces as one.
pub(crate) fn write_parts(fd: impl AsFd, a: &[u8], b: &[u8]) -> io::Result<usize> {
    let part = |p: &[u8]| libc::iovec { iov_base: p.as_ptr().cast_mut().cast(), iov_len: p.len() };
    let parts = [part(a), part(b)];
    // SAFETY: the kernel only reads through the two pieces, which are borrowed for the call.
    let n = unsafe { libc::writev(fd.as_fd().as_raw_fd(), parts.as_ptr(), 2) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

/// Reads a header and up to `most` bytes behind it, which replace what `rest` held. `None` if less than a whole
/// header came.
pub(crate) fn read_after_header<const N: usize>(
    fd: impl AsFd,
    rest: &mut Vec<u8>,
    most: usize,
) -> io::Result<Option<[u8; N]>> {
    let mut header = [0u8; N];
    rest.clear();
    rest.reserve(most);
    let spare = rest.spare_capacity_mut();
    let parts = [
        libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: N },
        libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len().min(most) },
    ];
    // SAFETY: at most their lengths are written to the two parts.
    let n = unsafe { libc::readv(fd.as_fd().as_raw_fd(), parts.as_ptr(), 2) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    let Some(n) = (n as usize).checked_sub(N) else { return Ok(None) };
    // SAFETY: so many bytes of the spare capacity were written.
    unsafe { rest.set_len(n.min(most)) };
    Ok(Some(header))
}
