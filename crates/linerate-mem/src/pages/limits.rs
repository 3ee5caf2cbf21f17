//! How much ordinary memory may be taken before the kernel would start killing.
//!
//! Populating ordinary pages past what the machine or the control group has does not return an error: the kernel's
//! out-of-memory killer ends a process, most likely ours. So the room is read first and a request that does not fit
//! is refused. Between the reading and the taking others may take too; no interface of Linux closes that gap.
//!
//! Follows `proc_meminfo(5)` (MemAvailable) and `Documentation/admin-guide/cgroup-v2.rst` (memory.max, memory.stat).

use std::fmt;
use std::path::{Path, PathBuf};

/// Room for ordinary memory and what sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) set_by: MemLimit,
}

/// What limits the memory of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemLimit {
    /// The memory of the machine that is free or can be freed.
    Machine,
    /// The control group whose limit is the tightest.
    Cgroup(PathBuf),
}

impl fmt::Display for MemLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("the machine"),
            Self::Cgroup(path) => write!(f, "control group {}", path.display()),
        }
    }
}

/// The room now, or none where `/proc` does not tell.
pub(super) fn room() -> Option<Room> {
    room_at(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn room_at(proc: &Path, cgroup: &Path) -> Option<Room> {
    let machine = std::fs::read_to_string(proc.join("meminfo"))
        .ok()
        .and_then(|text| field(&text, "MemAvailable:"))
        .map(|kib| Room { bytes: kib.saturating_mul(1024), set_by: MemLimit::Machine });
    let groups = std::fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    groups
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
        .flat_map(|(controllers, path)| match controllers {
            "" => rooms_upwards(cgroup, path, "memory.max", "memory.current", "file "),
            c if c.split(',').any(|c| c == "memory") => rooms_upwards(
                &cgroup.join("memory"),
                path,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_cache ",
            ),
            _ => Vec::new(),
        })
        .chain(machine)
        .min_by_key(|room| room.bytes)
}

/// The room in every group from `path` up to the root: a limit anywhere above holds too.
fn rooms_upwards(root: &Path, path: &str, max: &str, used: &str, cache: &str) -> Vec<Room> {
    let read = |dir: &Path, name: &str| std::fs::read_to_string(dir.join(name)).ok();
    let number = |dir: &Path, name: &str| read(dir, name)?.trim().parse::<u64>().ok();
    // Only plain names below the root: a path such as /../.. (seen from a foreign namespace) leads nowhere good.
    let below = Path::new(path.trim_start_matches('/'));
    if below.components().any(|c| !matches!(c, std::path::Component::Normal(_))) {
        return Vec::new();
    }
    let top = root.join(below);
    top.ancestors()
        .take_while(|dir| dir.starts_with(root))
        .filter_map(|dir| {
            let limit = number(dir, max)?; // "max" is no number: no limit here
            let stat = read(dir, "memory.stat").unwrap_or_default();
            // Page cache is given back under pressure, shared memory is not.
            let shared = field(&stat, "shmem ").or_else(|| field(&stat, "total_shmem ")).unwrap_or(0);
            let cached = field(&stat, cache).unwrap_or(0).saturating_sub(shared);
            let held = number(dir, used)?.saturating_sub(cached);
            Some(Room { bytes: limit.saturating_sub(held), set_by: MemLimit::Cgroup(dir.to_path_buf()) })
        })
        .collect()
}

/// The first number behind `name` at the start of a line.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = dir.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(dir)
        }

        fn room(&self) -> Option<Room> {
            room_at(&self.0.path().join("proc"), &self.0.path().join("cg"))
        }
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    1000 kB\n");

    #[test]
    fn machine_alone() {
        let room = Tree::new(&[MEMINFO]).room().unwrap();
        assert_eq!(room, Room { bytes: 1_024_000, set_by: MemLimit::Machine });
        assert_eq!(Tree::new(&[]).room(), None);
    }

    #[test]
    fn tightest_group_wins_even_above_ours() {
        let tree = Tree::new(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("cg/a/b/memory.max", "max\n"),
            ("cg/a/b/memory.current", "5\n"),
            ("cg/a/memory.max", "500000\n"),
            ("cg/a/memory.current", "400000\n"),
            ("cg/a/memory.stat", "anon 1\nfile 60000\nshmem 10000\n"),
        ]);
        let want = MemLimit::Cgroup(tree.0.path().join("cg/a"));
        assert_eq!(tree.room().unwrap(), Room { bytes: 150_000, set_by: want });
    }

    #[test]
    fn container_root_and_version_one() {
        let root = Tree::new(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/\n"),
            ("cg/memory.max", "100"),
            ("cg/memory.current", "300"),
        ]);
        assert_eq!(root.room().unwrap().bytes, 0);
        let v1 = Tree::new(&[
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n3:memory:/x\n"),
            ("cg/memory/x/memory.limit_in_bytes", "9000"),
            ("cg/memory/x/memory.usage_in_bytes", "1000"),
        ]);
        assert_eq!(v1.room().unwrap().bytes, 8000);
    }

    #[test]
    fn hostile_contents_leave_the_machine() {
        for cgroup in ["", ":", "::", "0::", "0::/../..", "0::/\u{0}", "x\ny", "0::/a\n0::/a"] {
            let tree = Tree::new(&[
                MEMINFO,
                ("proc/self/cgroup", cgroup),
                ("cg/a/memory.max", "-1"),
                ("cg/a/memory.current", "99999999999999999999999"),
            ]);
            assert_eq!(tree.room().unwrap().set_by, MemLimit::Machine, "{cgroup:?}");
        }
    }
}
