//! What the kernel keeps of reserved huge pages: counts for messages, never for decisions (only the mapping itself
//! can tell whether there is a page, because others take them at the same time).
//!
//! Follows `Documentation/admin-guide/mm/hugetlbpage.rst`.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::topology::NumaNode;

/// A size of reserved huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HugeSize {
    /// 2 MiB.
    Size2M,
    /// 1 GiB.
    Size1G,
}

impl HugeSize {
    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Size2M => 2 << 20,
            Self::Size1G => 1 << 30,
        }
    }

    fn directory(self) -> String {
        format!("hugepages-{}kB", self.bytes() >> 10)
    }

    /// The command that makes the kernel keep `pages` pages of this size.
    #[must_use]
    pub fn command(self, pages: u64) -> String {
        match self {
            Self::Size2M => format!("sysctl -w vm.nr_hugepages={pages}"),
            Self::Size1G => {
                format!("echo {pages} > /sys/kernel/mm/hugepages/{}/nr_hugepages", self.directory())
            }
        }
    }
}

impl fmt::Display for HugeSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size2M => "2 MiB",
            Self::Size1G => "1 GiB",
        })
    }
}

/// The kernel's counts of one size of huge pages, in pages; all zero where the kernel has none of that size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HugeCounts {
    /// Pages the kernel keeps.
    pub total: u64,
    /// Of those, pages that nobody holds and nobody has a promise for.
    pub available: u64,
}

impl HugeCounts {
    /// The counts now, of the machine or of one node.
    #[must_use]
    pub fn read(size: HugeSize, node: Option<NumaNode>) -> Self {
        Self::read_at(Path::new("/sys"), size, node)
    }

    pub(super) fn read_at(sys: &Path, size: HugeSize, node: Option<NumaNode>) -> Self {
        let dir: PathBuf = match node {
            None => sys.join("kernel/mm/hugepages"),
            Some(node) => sys.join(format!("devices/system/node/node{}/hugepages", node.0)),
        };
        let dir = dir.join(size.directory());
        let count = |name: &str| -> u64 {
            std::fs::read_to_string(dir.join(name)).ok().and_then(|s| s.trim().parse().ok()).unwrap_or(0)
        };
        // A node has no resv_hugepages: promises are not made per node. Zero is then the honest answer.
        let free = count("free_hugepages");
        Self { total: count("nr_hugepages"), available: free.saturating_sub(count("resv_hugepages")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_from_the_right_files() {
        let sys = tempfile::tempdir().unwrap();
        let put = |dir: &str, total: &str, free: &str, resv: Option<&str>| {
            let dir = sys.path().join(dir);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("nr_hugepages"), total).unwrap();
            std::fs::write(dir.join("free_hugepages"), free).unwrap();
            if let Some(resv) = resv {
                std::fs::write(dir.join("resv_hugepages"), resv).unwrap();
            }
        };
        put("kernel/mm/hugepages/hugepages-2048kB", "512\n", "500\n", Some("20\n"));
        put("devices/system/node/node1/hugepages/hugepages-2048kB", "256\n", "7\n", None);
        put("kernel/mm/hugepages/hugepages-1048576kB", "garbage", "-3", Some(""));
        let read = |size, node| HugeCounts::read_at(sys.path(), size, node);
        assert_eq!(read(HugeSize::Size2M, None), HugeCounts { total: 512, available: 480 });
        assert_eq!(read(HugeSize::Size2M, Some(NumaNode(1))), HugeCounts { total: 256, available: 7 });
        assert_eq!(read(HugeSize::Size2M, Some(NumaNode(2))), HugeCounts::default());
        assert_eq!(read(HugeSize::Size1G, None), HugeCounts::default());
    }

    #[test]
    fn more_promised_than_free_is_none_available() {
        let sys = tempfile::tempdir().unwrap();
        let dir = sys.path().join("kernel/mm/hugepages/hugepages-2048kB");
        std::fs::create_dir_all(&dir).unwrap();
        for (name, count) in [("nr_hugepages", "4"), ("free_hugepages", "1"), ("resv_hugepages", "2")] {
            std::fs::write(dir.join(name), count).unwrap();
        }
        assert_eq!(HugeCounts::read_at(sys.path(), HugeSize::Size2M, None).available, 0);
    }
}
