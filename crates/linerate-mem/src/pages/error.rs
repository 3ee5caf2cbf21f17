//! Why memory was not given, with the facts and what mends it.

use std::fmt;

use super::huge::{HugeCounts, HugeSize};
use super::limits::MemLimit;
use crate::ids::IdList;
use crate::topology::NumaNode;

/// Why a [`PageRequest`](super::PageRequest) was refused.
#[derive(Debug, thiserror::Error)]
pub enum MemError {
    /// Nothing, or more than an address space holds, was asked for.
    #[error("{bytes} bytes cannot be allocated")]
    BadSize {
        /// The size asked for.
        bytes: usize,
    },
    /// The alignment is no power of two or above 1 GiB.
    #[error("alignment {align} is not a power of two up to 1 GiB")]
    BadAlign {
        /// The alignment asked for.
        align: usize,
    },
    /// Fewer reserved huge pages are left than needed.
    #[error("no {size} huge pages free{}: {need} needed, {} of {} available", OnNode(*node), counts.available, counts.total)]
    NoHugePages {
        /// Their size.
        size: HugeSize,
        /// How many were needed.
        need: u64,
        /// What the kernel had just after the refusal.
        counts: HugeCounts,
        /// The node, if only its pages would do.
        node: Option<NumaNode>,
    },
    /// The kernel or the processor has no huge pages of this size.
    #[error("no {size} huge pages on this system: {source}")]
    HugeUnsupported {
        /// Their size.
        size: HugeSize,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// Not enough ordinary memory.
    #[error("out of memory: {need} bytes needed, {have} left in {limit}")]
    OutOfMemory {
        /// Bytes needed.
        need: u64,
        /// Bytes that can be had.
        have: u64,
        /// What sets the limit.
        limit: MemLimit,
    },
    /// The process may not make a file (in memory) of this size.
    #[error("file size limit: {need} bytes needed, {have} allowed")]
    FileSizeLimit {
        /// Bytes needed.
        need: u64,
        /// The limit in bytes.
        have: u64,
    },
    /// Memory on this node is refused.
    #[error("memory on NUMA node {node} refused (online: {online}): {source}")]
    NodeRefused {
        /// The node asked for.
        node: NumaNode,
        /// The nodes that there are.
        online: IdList,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// A system call failed in a way that has no name of its own here.
    #[error("{call} for {bytes} bytes failed: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Bytes asked for.
        bytes: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl MemError {
    /// The command or option that mends it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::BadSize { .. } => "ask for at least one byte and less than the machine has".into(),
            Self::BadAlign { .. } => "use an alignment such as 64, 4096 or 2097152".into(),
            Self::NoHugePages { size, need, counts, node: None } if counts.available < *need => {
                let command = size.command(counts.total + (need - counts.available));
                format!("`{command}` (as root) gives them")
            }
            Self::NoHugePages { size, need, counts, node: Some(node) } if counts.available < *need => {
                format!(
                    "`echo {} > /sys/devices/system/node/node{node}/hugepages/hugepages-{}kB/nr_hugepages` (as root) \
                 gives them",
                    counts.total + (need - counts.available),
                    size.bytes() >> 10
                )
            }
            // There are pages, yet they were refused: taken and given back meanwhile, or a control group's limit.
            Self::NoHugePages { size, .. } => format!(
                "enough are free now: try again, or raise hugetlb.{}.max of the control group",
                if *size == HugeSize::Size1G { "1GB" } else { "2MB" }
            ),
            Self::HugeUnsupported { .. } => "use ordinary pages or another huge page size".into(),
            Self::OutOfMemory { limit: MemLimit::Machine, .. } => {
                "use fewer or smaller buffers, or end what else uses the memory (`free -m`)".into()
            }
            Self::OutOfMemory { limit: MemLimit::Cgroup(path), .. } => {
                format!("use fewer or smaller buffers, or raise {}/memory.max", path.display())
            }
            Self::FileSizeLimit { .. } => "`ulimit -f unlimited` before the start lifts it".into(),
            Self::NodeRefused { online, source, .. } if source.raw_os_error() == Some(libc::EPERM) => {
                format!(
                    "this process may not choose nodes (a container's system call filter?): allow mbind, or leave the \
                 node open; online: {online}"
                )
            }
            Self::NodeRefused { online, .. } => format!("choose one of the nodes {online}"),
            Self::Os { source, .. } => match source.raw_os_error() {
                Some(libc::ENOMEM) => {
                    "look at `ulimit -v`, `sysctl vm.max_map_count` and `free -m`, or use fewer buffers"
                        .into()
                }
                Some(libc::EMFILE) => "`ulimit -n 4096` before the start allows more open files".into(),
                _ => "`dmesg` may say more".into(),
            },
        }
    }
}

/// " on node 3", or nothing.
struct OnNode(Option<NumaNode>);

impl fmt::Display for OnNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |node| write!(f, " on node {node}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(available: u64, node: Option<u32>) -> MemError {
        let counts = HugeCounts { total: 512, available };
        MemError::NoHugePages { size: HugeSize::Size2M, need: 19, counts, node: node.map(NumaNode) }
    }

    #[test]
    fn need_have_and_the_command_are_said() {
        let err = short(10, None);
        assert_eq!(err.to_string(), "no 2 MiB huge pages free: 19 needed, 10 of 512 available");
        assert_eq!(err.hint(), "`sysctl -w vm.nr_hugepages=521` (as root) gives them");
        let err = short(0, Some(1));
        assert_eq!(err.to_string(), "no 2 MiB huge pages free on node 1: 19 needed, 0 of 512 available");
        assert!(err.hint().contains("node1/hugepages/hugepages-2048kB/nr_hugepages"));
        assert!(err.hint().contains("echo 531 >"));
    }

    #[test]
    fn enough_free_and_still_refused_points_at_the_control_group() {
        assert!(short(400, None).hint().contains("hugetlb.2MB.max"));
    }
}
