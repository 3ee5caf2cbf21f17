//! System calls that rustix lacks: `bpf(2)`, `SIOCETHTOOL`, a few socket options.
//!
//! Follows `linux/bpf.h`, `linux/sockios.h`, `linux/ethtool.h`, `asm-generic/socket.h`.
// UNSAFETY: raw system calls; every pointer given to the kernel comes from a reference that outlives the call, and
// the size given beside it is that of what it points to.

use rustix::io::Errno;
use std::{
    io,
    mem::{MaybeUninit, size_of},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// `SO_PREFER_BUSY_POLL`: the device's interrupts stay off while somebody polls.
pub(super) const SO_PREFER_BUSY_POLL: i32 = 69;
/// `SO_BUSY_POLL`: microseconds that a blocking call polls the device.
pub(super) const SO_BUSY_POLL: i32 = 46;
/// `SO_BUSY_POLL_BUDGET`: most packets of one such poll.
pub(super) const SO_BUSY_POLL_BUDGET: i32 = 70;
/// `SO_NETNS_COOKIE`: a number for the network namespace that no other has had since the machine started.
pub(super) const SO_NETNS_COOKIE: i32 = 71;
/// `SO_INCOMING_NAPI_ID`: the receive context that the last packet came from.
pub(super) const SO_INCOMING_NAPI_ID: i32 = 56;
/// `XDP_MAX_TX_SKB_BUDGET`: frames that one call sends in copy mode (Linux 6.17).
pub(super) const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// `bpf(2)`, for commands that give a number.
///
/// `attr` is one of the variants of `union bpf_attr`: plain integers and addresses, laid out as C does.
pub(super) fn bpf<A>(command: u32, attr: &mut A) -> io::Result<i64> {
    // SAFETY: `attr` is borrowed for the call, and its true size is told.
    let r = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<A>()) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r) }
}

/// `bpf(2)`, for commands that give a descriptor (close-on-exec as all of them are).
pub(super) fn bpf_fd<A>(command: u32, attr: &mut A) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the kernel made this descriptor for us and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sets a socket option whose value is a plain integer or a structure of such.
pub(super) fn set_option<T: Copy>(fd: impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let (fd, at, len) = (fd.as_fd().as_raw_fd(), std::ptr::from_ref(value).cast(), size_of::<T>());
    // SAFETY: `value` is borrowed for the call, and its true size is told.
    let r = unsafe { libc::setsockopt(fd, level, name, at, len as libc::socklen_t) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An integer as the kernel's C interfaces have them: any bits are a value.
pub(super) trait Plain: Copy {}
impl Plain for u32 {}
impl Plain for u64 {}

/// Reads a socket option.
pub(super) fn get_option<T: Plain>(fd: impl AsFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: `value` has room for `len` bytes, and the kernel writes no more.
    let r = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
    if r < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed before, and any bits are a value of a `Plain` type.
    Ok(unsafe { value.assume_init() })
}

/// An `ifreq` for the interface of this name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: an `ifreq` of zeros is one: an empty name and a union of integers and addresses.
    let mut ifr: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(Errno::NODEV.into());
    }
    for (to, from) in ifr.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(ifr)
}

/// Asks the driver of an interface through `SIOCETHTOOL`: `data` begins with the command and is answered in place.
///
/// The caller gives as many words as that command's structure has.
pub(super) fn ethtool(fd: BorrowedFd<'_>, name: &str, data: &mut [u32]) -> io::Result<()> {
    let mut ifr = request(name)?;
    ifr.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    // SAFETY: an `ifreq` of ours that points to `data`, which is borrowed for the call and as long as the command's
    // structure.
    let r = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut ifr) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The running kernel's release, such as `6.12.1`.
pub(super) fn kernel_release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if text.is_empty() { "unknown".into() } else { text.trim().into() }
}
