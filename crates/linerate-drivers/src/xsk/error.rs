//! What can go wrong with AF_XDP ports.

use linerate_mem::MemError;
use linerate_port::{PortError, PortId};
use std::io;
use thiserror::Error;

/// Why an AF_XDP port cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum XskError {
    /// The interface has no Ethernet frames.
    #[error("{name} has no Ethernet frames")]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// Fewer queues than asked for.
    #[error("{name} has {have} {kind} queues; wanted are {count} from {start} on")]
    NoQueue {
        /// The interface.
        name: String,
        /// "receive" or "transmit".
        kind: &'static str,
        /// First queue wanted.
        start: u32,
        /// How many.
        count: u32,
        /// How many there are.
        have: u32,
    },
    /// The kernel has no AF_XDP.
    #[error("this kernel has no AF_XDP: {source}")]
    NoKernel {
        /// What it said.
        source: io::Error,
    },
    /// A right is missing.
    #[error("{what} of {name} is not permitted: {source}")]
    NoRights {
        /// The interface.
        name: String,
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program is attached already.
    #[error("{name} has an XDP program already: number {id}{}{}", named(.program), held(.holder))]
    ProgramThere {
        /// The interface.
        name: String,
        /// The program's number.
        id: u32,
        /// Its name, if we may know it.
        program: Option<String>,
        /// Which process holds it.
        holder: Option<String>,
    },
    /// The program cannot be attached in the mode asked for.
    #[error("{name} (driver {driver}, kernel {kernel}) takes no XDP program in {mode} mode: {source}")]
    Attach {
        /// The interface.
        name: String,
        /// Its driver.
        driver: String,
        /// The kernel.
        kernel: String,
        /// The mode.
        mode: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The driver has no zero-copy.
    #[error("{name} (driver {driver}, kernel {kernel}) has no zero-copy: {source}")]
    NoZeroCopy {
        /// The interface.
        name: String,
        /// Its driver.
        driver: String,
        /// The kernel.
        kernel: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Somebody else has the queue.
    #[error("queue {queue} of {name} is in use{}", held(.holder))]
    QueueBusy {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
        /// By whom, as far as can be known.
        holder: Option<String>,
    },
    /// A port of this process has the queue.
    #[error("queue {queue} of {name} belongs to another port of this process")]
    QueueTaken {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
    },
    /// A frame size that the kernel does not take.
    #[error("packet memory cannot be divided into frames of {wanted} bytes")]
    FrameSize {
        /// The size asked for.
        wanted: u32,
        /// Those that it takes.
        legal: String,
    },
    /// A packet of the MTU does not fit a frame, and the kernel cannot spread it.
    #[error("{name}: a frame of MTU {mtu} does not fit {room} bytes, and {why}")]
    TooLong {
        /// The interface.
        name: String,
        /// The MTU.
        mtu: u32,
        /// Bytes that one frame of packet memory takes.
        room: u32,
        /// Why it is not spread over several.
        why: &'static str,
    },
    /// Unaligned frames need huge pages.
    #[error("unaligned frames need huge pages: {why}")]
    Unaligned {
        /// Why there are none.
        why: String,
        /// What mends it.
        mend: String,
    },
    /// Locked memory is limited.
    #[error("{need} bytes of packet memory must be locked, the limit (RLIMIT_MEMLOCK) is {limit}")]
    LockedMemory {
        /// Bytes needed.
        need: u64,
        /// The hard limit.
        limit: u64,
    },
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemError),
    /// The port was opened in another network namespace.
    #[error("{name} is in another network namespace than this thread")]
    OtherNamespace {
        /// The interface.
        name: String,
    },
    /// What was sent at the start for a test never left.
    #[error("queue {queue} of {name}: a first frame was not sent within {waited_ms} ms")]
    DeadTransmit {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
        /// How long it was waited for.
        waited_ms: u32,
    },
    /// The system refused something else.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

fn named(program: &Option<String>) -> String {
    program.as_ref().map_or(String::new(), |n| format!(" ({n})"))
}

fn held(holder: &Option<String>) -> String {
    holder.as_ref().map_or(String::new(), |h| format!(", held by {h}"))
}

impl XskError {
    /// What mends it.
    pub fn hint(&self) -> String {
        match self {
            XskError::NotEthernet { .. } => "take an Ethernet interface".into(),
            XskError::NoQueue { name, have, .. } => {
                format!("choose start_queue and queues within 0 to {}, or give it more: ethtool -L {name} combined N", have.saturating_sub(1))
            }
            XskError::NoKernel { .. } => "use a kernel built with CONFIG_XDP_SOCKETS, or --port packet:NAME".into(),
            XskError::NoRights { .. } => {
                "run as root, or give the program CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF: setcap cap_net_admin,cap_net_raw,cap_bpf=ep PROGRAM".into()
            }
            XskError::ProgramThere { name, holder, .. } => match holder {
                Some(_) => "end the process that holds it".into(),
                None => format!("take it off if nobody needs it: ip link set dev {name} xdp off"),
            },
            XskError::Attach { name, mode, .. } if *mode == "native" => {
                format!("write mode=auto or mode=generic; a large MTU or large receive offload may be in the way: ethtool -k {name}")
            }
            XskError::Attach { .. } => "`ip -d link` shows what else is attached; use --port packet:NAME".into(),
            XskError::NoZeroCopy { .. } => "write mode=auto, which copies where it must".into(),
            XskError::QueueBusy { .. } => "end the process that uses it, or choose another start_queue".into(),
            XskError::QueueTaken { .. } => "give each port queues of its own: start_queue=, queues=".into(),
            XskError::FrameSize { legal, .. } => format!("leave frame_size out, or choose one of: {legal}"),
            XskError::TooLong { .. } => "lower the MTU, or use a kernel of 6.6 or later".into(),
            XskError::Unaligned { mend, .. } => format!("{mend}, or leave unaligned=1 out"),
            XskError::LockedMemory { need, .. } => {
                format!("ulimit -l {} (LimitMEMLOCK={need} in a systemd unit), or CAP_IPC_LOCK", need.div_ceil(1024))
            }
            XskError::Memory(e) => e.hint(),
            XskError::OtherNamespace { .. } => "open and start the port in the same namespace".into(),
            XskError::DeadTransmit { .. } => "write mode=native,force_copy=1, or busy_budget=0".into(),
            XskError::System { .. } => "`dmesg` may say more".into(),
        }
    }

    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| XskError::System { what, source }
    }

    pub(super) fn at(self, port: PortId) -> PortError {
        let hint = self.hint();
        PortError::Driver { port, source: Box::new(self), hint }
    }
}
