//! The redirect program: six instructions that give a frame to the socket of the queue it came in by, or to the
//! kernel's own stack if that queue has none; the map from queue to socket; and the link that holds the program to
//! the interface for exactly as long as its descriptor lives, so that a killed process leaves nothing attached.
//!
//! Follows `linux/bpf.h` (`union bpf_attr`, `struct xdp_md`) and the kernel's `bpf_redirect_map` helper.

use super::sys;
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

const BPF_MAP_CREATE: u32 = 0;
const BPF_MAP_UPDATE_ELEM: u32 = 2;
const BPF_MAP_DELETE_ELEM: u32 = 3;
const BPF_PROG_LOAD: u32 = 5;
const BPF_PROG_GET_FD_BY_ID: u32 = 13;
const BPF_OBJ_GET_INFO_BY_FD: u32 = 15;
const BPF_LINK_CREATE: u32 = 28;

const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_ATTACH_XDP: u32 = 37;
/// The program takes frames that lie in several pieces.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
/// What the program says when the queue has no socket.
const XDP_PASS: i32 = 2;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const MD_RX_QUEUE_INDEX: i16 = 16;

const NAME: [u8; 16] = *b"linerate_xsk\0\0\0\0";

/// Where in the kernel a program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// In the driver, before the kernel makes its own packet.
    Native,
    /// In the kernel's stack, behind that: any driver, slower.
    Generic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Insn {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn insn(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Insn {
    let registers = if cfg!(target_endian = "little") { dst | src << 4 } else { dst << 4 | src };
    Insn { code, registers, offset, immediate }
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);`
fn redirect(map: i32) -> [Insn; 6] {
    [
        insn(0x61, 2, 1, MD_RX_QUEUE_INDEX, 0), // r2 = *(u32 *)(r1 + rx_queue_index)
        insn(0x18, 1, 1, 0, map),               // r1 = the map of this descriptor (two slots)
        insn(0, 0, 0, 0, 0),
        insn(0xb7, 3, 0, 0, XDP_PASS), // r3 = what to say if there is no socket
        insn(0x85, 0, 0, 0, BPF_FUNC_REDIRECT_MAP), // call
        insn(0x95, 0, 0, 0, 0),        // exit with r0
    ]
}

/// From queue numbers to sockets.
#[derive(Debug)]
pub(super) struct XskMap(OwnedFd);

impl XskMap {
    /// A map for queues below this number.
    pub(super) fn new(queues: u32) -> io::Result<Self> {
        #[repr(C)]
        struct Attr {
            map_type: u32,
            key_size: u32,
            value_size: u32,
            max_entries: u32,
            map_flags: u32,
            inner_map_fd: u32,
            numa_node: u32,
            map_name: [u8; 16],
        }
        let mut attr = Attr {
            map_type: BPF_MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: queues.max(1),
            map_flags: 0,
            inner_map_fd: 0,
            numa_node: 0,
            map_name: NAME,
        };
        Ok(XskMap(sys::bpf_fd(BPF_MAP_CREATE, &mut attr)?))
    }

    /// Gives the frames of a queue to a socket.
    pub(super) fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd();
        self.element(BPF_MAP_UPDATE_ELEM, queue, Some(&value))
    }

    /// Gives the frames of a queue back to the kernel's stack.
    pub(super) fn remove(&self, queue: u32) -> io::Result<()> {
        self.element(BPF_MAP_DELETE_ELEM, queue, None)
    }

    fn element(&self, command: u32, queue: u32, value: Option<&i32>) -> io::Result<()> {
        #[repr(C)]
        struct Attr {
            map_fd: u32,
            pad: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let address = |p: *const i32| p.expose_provenance() as u64;
        let mut attr = Attr {
            map_fd: self.0.as_raw_fd() as u32,
            pad: 0,
            key: std::ptr::from_ref(&queue).expose_provenance() as u64,
            value: value.map_or(0, |v| address(v)),
            flags: 0,
        };
        sys::bpf(command, &mut attr).map(|_| ())
    }
}

/// A loaded program. It is used for one attempt to attach and no more: one that failed must not spoil the next.
#[derive(Debug)]
pub(super) struct Program(OwnedFd);

impl Program {
    /// Loads the redirect program for a map; with `pieces` it takes frames that lie in several pieces.
    pub(super) fn load(map: &XskMap, pieces: bool) -> io::Result<Self> {
        #[repr(C)]
        struct Attr {
            prog_type: u32,
            insn_cnt: u32,
            insns: u64,
            license: u64,
            log_level: u32,
            log_size: u32,
            log_buf: u64,
            kern_version: u32,
            prog_flags: u32,
            prog_name: [u8; 16],
            prog_ifindex: u32,
            expected_attach_type: u32,
        }
        let code = redirect(map.0.as_raw_fd());
        let mut attr = Attr {
            prog_type: BPF_PROG_TYPE_XDP,
            insn_cnt: code.len() as u32,
            insns: code.as_ptr().expose_provenance() as u64,
            license: c"Dual MIT/GPL".as_ptr().expose_provenance() as u64,
            log_level: 0,
            log_size: 0,
            log_buf: 0,
            kern_version: 0,
            prog_flags: if pieces { BPF_F_XDP_HAS_FRAGS } else { 0 },
            prog_name: NAME,
            prog_ifindex: 0,
            expected_attach_type: BPF_ATTACH_XDP,
        };
        Ok(Program(sys::bpf_fd(BPF_PROG_LOAD, &mut attr)?))
    }

    /// Its number in the kernel.
    pub(super) fn id(&self) -> io::Result<u32> {
        info(&self.0).map(|i| i.id)
    }

    /// Attaches it; it stays for as long as the link that this gives.
    pub(super) fn attach(&self, index: u32, hook: Hook) -> io::Result<OwnedFd> {
        #[repr(C)]
        struct Attr {
            prog_fd: u32,
            target_ifindex: u32,
            attach_type: u32,
            flags: u32,
        }
        let flags = match hook {
            Hook::Native => XDP_FLAGS_DRV_MODE,
            Hook::Generic => XDP_FLAGS_SKB_MODE,
        };
        let prog_fd = self.0.as_raw_fd() as u32;
        let mut attr = Attr { prog_fd, target_ifindex: index, attach_type: BPF_ATTACH_XDP, flags };
        sys::bpf_fd(BPF_LINK_CREATE, &mut attr)
    }
}

/// The front of `struct bpf_prog_info`, up to the name.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Info {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    jited_len: u32,
    xlated_len: u32,
    jited: u64,
    xlated: u64,
    load_time: u64,
    uid: u32,
    map_count: u32,
    maps: u64,
    name: [u8; 16],
}

fn info(program: &OwnedFd) -> io::Result<Info> {
    #[repr(C)]
    struct Attr {
        fd: u32,
        len: u32,
        info: u64,
    }
    let mut info = Info::default();
    let mut attr = Attr {
        fd: program.as_raw_fd() as u32,
        len: size_of::<Info>() as u32,
        info: (&raw mut info).expose_provenance() as u64,
    };
    sys::bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(info)
}

/// The name of a program by its number, if we may know it.
pub(super) fn program_name(id: u32) -> Option<String> {
    #[repr(C)]
    struct Attr {
        id: u32,
        next: u32,
        flags: u32,
    }
    let fd = sys::bpf_fd(BPF_PROG_GET_FD_BY_ID, &mut Attr { id, next: 0, flags: 0 }).ok()?;
    let info = info(&fd).ok()?;
    Some(super::netlink::text(&info.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_laid_out_as_the_kernel_reads_them() {
        assert_eq!(size_of::<Insn>(), 8);
        let code = redirect(0x1234);
        // The 64-bit load names a map by descriptor: source register 1, and the upper half is zero.
        assert_eq!((code[1].code, code[1].immediate), (0x18, 0x1234));
        if cfg!(target_endian = "little") {
            assert_eq!((code[0].registers, code[1].registers), (0x12, 0x11));
        }
        assert_eq!(code[2], insn(0, 0, 0, 0, 0));
        assert_eq!(std::mem::offset_of!(Info, name), 64);
        assert!(NAME.ends_with(&[0]));
    }
}
