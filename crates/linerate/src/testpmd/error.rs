//! Why a run could not be made, or did not end well: the facts, and what mends it.

use linerate_mbuf::{DEFAULT_HEADROOM, PoolError};
use linerate_mem::CoreError;
use linerate_net::builder::BuildError;
use linerate_port::{ETHER_OVERHEAD, PortError};
use std::path::PathBuf;
use thiserror::Error;

/// Why `linerate testpmd` ends with exit status 1.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(super) enum TestpmdError {
    /// Two options, or an option and a number of ports, do not go together.
    #[error("{option}: {why}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong with it here.
        why: String,
        /// What mends it.
        hint: String,
    },
    /// Packets of these lengths cannot be made.
    #[error("--txpkts {list}: {why}")]
    TxPackets {
        /// The lengths.
        list: String,
        /// What is wrong with them.
        why: String,
    },
    /// A frame that cannot be built.
    #[error(transparent)]
    Frame(BuildError),
    /// A port refused.
    #[error("--port {spec}: {source}")]
    Port {
        /// Its description.
        spec: String,
        /// What it said.
        source: PortError,
    },
    /// The pool is too small for the queues.
    #[error("--total-num-mbufs {have}: the ports and cores need {need} ({why})")]
    PoolTooSmall {
        /// Buffers asked for.
        have: u32,
        /// Buffers needed.
        need: u32,
        /// What they are needed for.
        why: String,
    },
    /// The pool could not be made.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A core could not be had.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// Fewer cores than wanted.
    #[error("{wanted} cores are wanted, {have} can be had")]
    Cores {
        /// Forwarding cores asked for.
        wanted: usize,
        /// Cores that this process may use.
        have: usize,
    },
    /// A file cannot be read or written.
    #[error("{option} {}: {source}", path.display())]
    File {
        /// The option that names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of a file is wrong.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The system refused a thread or a signal handler.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A forwarding thread ended by a panic, which has been printed.
    #[error("forwarding core {core} failed")]
    Panicked {
        /// Which of the forwarding cores.
        core: usize,
    },
}

impl TestpmdError {
    /// The option or command that mends it.
    pub fn hint(&self) -> String {
        match self {
            TestpmdError::Option { hint, .. } => hint.clone(),
            TestpmdError::TxPackets { .. } => {
                "give lengths such as --txpkts 64 or --txpkts 64,1400: at least 42 bytes, no segment empty"
                    .into()
            }
            TestpmdError::Frame(e) => e.hint().into(),
            TestpmdError::Port { source: PortError::FrameTooLong { frame, .. }, .. } => {
                let size = frame + u32::from(DEFAULT_HEADROOM);
                format!("give --enable-scatter, a smaller --max-pkt-len, or --mbuf-size {size} or more")
            }
            TestpmdError::Port { source: PortError::Range { what: "MTU", min, max, wanted, .. }, .. } => {
                let frame = |mtu: u64| mtu + u64::from(ETHER_OVERHEAD);
                if wanted < min {
                    let size = frame(*min) + u64::from(DEFAULT_HEADROOM);
                    format!("give --mbuf-size {size} or more, or a larger --max-pkt-len")
                } else {
                    format!("give a --max-pkt-len for an MTU of at most {max}")
                }
            }
            TestpmdError::Port { source, .. } => source.hint(),
            TestpmdError::PoolTooSmall { need, .. } => {
                format!(
                    "give --total-num-mbufs {need} or more, or leave it out; --rxd, --txd and --mbcache make the need smaller"
                )
            }
            TestpmdError::Pool(e) => e.hint(),
            TestpmdError::Core(e) => e.hint(),
            TestpmdError::Cores { have, .. } => {
                format!(
                    "give --nb-cores {have} or fewer, or widen what the process may use (`taskset`, the container's cpuset)"
                )
            }
            TestpmdError::File { .. } => "look at the path and its rights with `ls -l`".into(),
            TestpmdError::Line { .. } => "a line is a MAC address such as 02:00:00:00:00:01".into(),
            TestpmdError::System { .. } => "see the limits with `ulimit -a`".into(),
            TestpmdError::Panicked { .. } => {
                "this is a fault of the program: please report what it printed".into()
            }
        }
    }
}
