//! The machine's processors: which share a core, an L3 cache, a socket, a NUMA node, and which we may use.
//!
//! Follows `Documentation/ABI/stable/sysfs-devices-system-cpu`, `…/testing/sysfs-devices-system-cpu` (cache) and
//! `…/stable/sysfs-devices-node`. The root of the file tree is a parameter, so that tests bring machines along.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::cores::CoreId;
use crate::ids::{IdList, IdListError};

/// A NUMA node's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumaNode(pub u32);

impl fmt::Display for NumaNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One logical processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub id: CoreId,
    /// The number of its physical core, unique within the socket.
    pub core: u32,
    /// The number of its socket.
    pub socket: u32,
    /// Its node; node 0 where the kernel knows no nodes.
    pub node: NumaNode,
    /// All logical processors of the same physical core, itself included.
    pub siblings: IdList,
    /// All logical processors behind the same L3 cache, itself included; empty where there is none or it is not told.
    pub l3: IdList,
}

/// The processors that are online, ascending by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>,
    nodes: IdList,
}

/// Why the topology could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A file that every kernel has is missing or cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file holds no list of numbers.
    #[error("{path}: {source}", path = path.display())]
    BadList {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        source: IdListError,
    },
    /// A file holds no number.
    #[error("{path}: {text:?} is not a number", path = path.display())]
    BadNumber {
        /// The file.
        path: PathBuf,
        /// Its first 80 characters.
        text: String,
    },
    /// No processor is online.
    #[error("{path} names no processor", path = path.display())]
    NoCpus {
        /// The file.
        path: PathBuf,
    },
}

impl TopologyError {
    /// What mends it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { .. } => {
                "mount sysfs (`mount -t sysfs sysfs /sys`) or let the container see it".into()
            }
            Self::BadList { source, .. } => format!("not written by Linux? {}", source.hint()),
            Self::BadNumber { .. } | Self::NoCpus { .. } => "not written by Linux? look at the file".into(),
        }
    }
}

/// How close two logical processors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Closeness {
    /// They are the same.
    Same,
    /// Two threads of one physical core.
    SameCore,
    /// Two cores behind one L3 cache.
    SameL3,
    /// Two cores of one node.
    SameNode,
    /// Cores of different nodes.
    OtherNode,
}

impl Topology {
    /// Reads this machine.
    ///
    /// # Errors
    /// [`TopologyError`], naming the file.
    pub fn read() -> Result<Self, TopologyError> {
        Self::read_at(Path::new("/sys"))
    }

    /// Reads a machine whose `/sys` is at `sys`.
    ///
    /// # Errors
    /// [`TopologyError`], naming the file.
    pub fn read_at(sys: &Path) -> Result<Self, TopologyError> {
        let cpu_dir = sys.join("devices/system/cpu");
        let node_dir = sys.join("devices/system/node");
        let online_file = cpu_dir.join("online");
        let online = list(&online_file)?;
        if online.is_empty() {
            return Err(TopologyError::NoCpus { path: online_file });
        }
        // A kernel without NUMA has no such directory: one node, number 0.
        let nodes = optional(list(&node_dir.join("online")))?;
        let mut node_cpus = Vec::with_capacity(nodes.as_ref().map_or(0, IdList::len));
        for node in nodes.iter().flat_map(IdList::iter) {
            let cpus = optional(list(&node_dir.join(format!("node{node}/cpulist"))))?;
            node_cpus.push((NumaNode(node), cpus.unwrap_or_default()));
        }
        let cpus = online
            .iter()
            .map(|id| {
                let dir = cpu_dir.join(format!("cpu{id}"));
                let topology = dir.join("topology");
                // Small boards and some virtual machines leave these files out: then each stands alone.
                let alone = || IdList::from_iter([id]);
                let siblings = match optional(list(&topology.join("core_cpus_list")))? {
                    Some(list) => Some(list),
                    None => optional(list(&topology.join("thread_siblings_list")))?, // the name before 5.3
                };
                let node = node_cpus.iter().find(|(_, cpus)| cpus.contains(id)).map(|&(node, _)| node);
                Ok(Cpu {
                    id: CoreId(id),
                    core: optional(number(&topology.join("core_id")))?.unwrap_or(id),
                    socket: optional(number(&topology.join("physical_package_id")))?.unwrap_or(0),
                    node: node.unwrap_or(NumaNode(0)),
                    siblings: siblings.filter(|list| list.contains(id)).unwrap_or_else(alone),
                    l3: l3_of(&dir)?,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { cpus, nodes: nodes.filter(|n| !n.is_empty()).unwrap_or_else(|| IdList::from_iter([0])) })
    }

    /// The processors, ascending by number; never empty.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The processor with number `id`, if it is online.
    #[must_use]
    pub fn cpu(&self, id: CoreId) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().and_then(|at| self.cpus.get(at))
    }

    /// The nodes that are online, those without processors too; never empty.
    #[must_use]
    pub fn nodes(&self) -> &IdList {
        &self.nodes
    }

    /// How close two processors are; none if one of them is not online.
    #[must_use]
    pub fn closeness(&self, a: CoreId, b: CoreId) -> Option<Closeness> {
        let (first, second) = (self.cpu(a)?, self.cpu(b)?);
        Some(if a == b {
            Closeness::Same
        } else if first.siblings.contains(b.0) {
            Closeness::SameCore
        } else if first.l3.contains(b.0) {
            Closeness::SameL3
        } else if first.node == second.node {
            Closeness::SameNode
        } else {
            Closeness::OtherNode
        })
    }
}

/// The processors behind the L3 cache of the processor whose directory is `dir`.
fn l3_of(dir: &Path) -> Result<IdList, TopologyError> {
    // Index numbers are dense and few; sixteen is more than any processor has.
    for index in 0..16 {
        let cache = dir.join(format!("cache/index{index}"));
        match optional(number(&cache.join("level")))? {
            None => break,
            Some(3) => return Ok(optional(list(&cache.join("shared_cpu_list")))?.unwrap_or_default()),
            Some(_) => {}
        }
    }
    Ok(IdList::default())
}

fn text(path: &Path) -> Result<String, TopologyError> {
    std::fs::read_to_string(path).map_err(|source| TopologyError::Unreadable { path: path.into(), source })
}

fn list(path: &Path) -> Result<IdList, TopologyError> {
    text(path)?.parse().map_err(|source| TopologyError::BadList { path: path.into(), source })
}

/// A number; the kernel's -1 ("not known") reads as 0.
fn number(path: &Path) -> Result<u32, TopologyError> {
    let text = text(path)?;
    match text.trim() {
        "-1" => Ok(0),
        digits => digits.parse().map_err(|_| TopologyError::BadNumber {
            path: path.into(),
            text: text.chars().take(80).collect(),
        }),
    }
}

/// A file that need not be there.
fn optional<T>(read: Result<T, TopologyError>) -> Result<Option<T>, TopologyError> {
    match read {
        Err(TopologyError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `/sys` of our own making.
    struct Sys(tempfile::TempDir);

    impl Sys {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
            let path = self.0.path().join("devices/system").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
            self
        }

        fn read(&self) -> Result<Topology, TopologyError> {
            Topology::read_at(self.0.path())
        }

        /// Two sockets of two cores of two threads, a node and an L3 each; node 2 has memory only.
        fn two_sockets() -> Self {
            let sys = Self::new();
            sys.put("cpu/online", "0-7\n").put("node/online", "0-2\n");
            sys.put("node/node0/cpulist", "0-1,4-5\n").put("node/node1/cpulist", "2-3,6-7\n");
            sys.put("node/node2/cpulist", "\n");
            for cpu in 0..8 {
                let (socket, core, twin) = ((cpu % 4) / 2, cpu % 2, (cpu + 4) % 8);
                sys.put(&format!("cpu/cpu{cpu}/topology/core_id"), format!("{core}\n"));
                sys.put(&format!("cpu/cpu{cpu}/topology/physical_package_id"), format!("{socket}\n"));
                let pair = format!("{},{}\n", cpu.min(twin), cpu.max(twin));
                sys.put(&format!("cpu/cpu{cpu}/topology/core_cpus_list"), pair);
                sys.put(&format!("cpu/cpu{cpu}/cache/index0/level"), "1\n");
                sys.put(&format!("cpu/cpu{cpu}/cache/index1/level"), "3\n");
                let l3 = if socket == 0 { "0-1,4-5\n" } else { "2-3,6-7\n" };
                sys.put(&format!("cpu/cpu{cpu}/cache/index1/shared_cpu_list"), l3);
            }
            sys
        }
    }

    #[test]
    fn two_sockets_are_seen_as_they_are() {
        let topology = Sys::two_sockets().read().unwrap();
        assert_eq!(topology.cpus().len(), 8);
        assert_eq!(topology.nodes().to_string(), "0-2");
        let cpu = topology.cpu(CoreId(6)).unwrap();
        assert_eq!((cpu.core, cpu.socket, cpu.node), (0, 1, NumaNode(1)));
        assert_eq!((cpu.siblings.to_string(), cpu.l3.to_string()), ("2,6".into(), "2-3,6-7".into()));
        let close = |a, b| topology.closeness(CoreId(a), CoreId(b));
        assert_eq!(close(1, 1), Some(Closeness::Same));
        assert_eq!(close(1, 5), Some(Closeness::SameCore));
        assert_eq!(close(0, 5), Some(Closeness::SameL3));
        assert_eq!(close(0, 2), Some(Closeness::OtherNode));
        assert_eq!(close(0, 8), None);
    }

    #[test]
    fn a_bare_machine_is_one_node_of_lone_cores() {
        let sys = Sys::new();
        let topology = sys.put("cpu/online", "0,2").read().unwrap();
        assert_eq!(topology.nodes().to_string(), "0");
        let cpu = topology.cpu(CoreId(2)).unwrap();
        assert_eq!(
            (cpu.core, cpu.socket, cpu.node, cpu.siblings.to_string()),
            (2, 0, NumaNode(0), "2".into())
        );
        assert!(cpu.l3.is_empty());
        assert_eq!(topology.closeness(CoreId(0), CoreId(2)), Some(Closeness::SameNode));
    }

    #[test]
    fn hostile_files_are_errors_that_name_the_file() {
        type Is = fn(&TopologyError) -> bool;
        let cases: [(&str, &[u8], Is); 9] = [
            (
                "cpu/online",
                b"0-x",
                |e| matches!(e, TopologyError::BadList { source, .. } if source.column == 3),
            ),
            ("cpu/online", b"", |e| matches!(e, TopologyError::NoCpus { .. })),
            ("cpu/online", b"0-4000000000", |e| matches!(e, TopologyError::BadList { .. })),
            ("cpu/online", b"\xff\xfe", |e| matches!(e, TopologyError::Unreadable { .. })),
            ("node/online", b"1-0", |e| matches!(e, TopologyError::BadList { .. })),
            (
                "node/node1/cpulist",
                b"2,,3",
                |e| matches!(e, TopologyError::BadList { source, .. } if source.column == 3),
            ),
            ("cpu/cpu3/topology/core_id", b"abc", |e| matches!(e, TopologyError::BadNumber { .. })),
            ("cpu/cpu3/topology/physical_package_id", b"99999999999", |e| {
                matches!(e, TopologyError::BadNumber { .. })
            }),
            ("cpu/cpu3/cache/index1/level", b"", |e| matches!(e, TopologyError::BadNumber { .. })),
        ];
        for (file, bytes, is) in cases {
            let sys = Sys::two_sockets();
            let err = sys.put(file, bytes).read().unwrap_err();
            assert!(is(&err), "{file}: {err}");
            assert!(err.to_string().contains(file), "{err}");
            assert!(!err.hint().is_empty());
        }
        assert!(matches!(Sys::new().read(), Err(TopologyError::Unreadable { .. })));
    }

    #[test]
    fn unknown_numbers_and_foreign_siblings_are_survived() {
        let sys = Sys::two_sockets();
        sys.put("cpu/cpu3/topology/physical_package_id", "-1\n")
            .put("cpu/cpu3/topology/core_cpus_list", "0-1\n");
        let topology = sys.read().unwrap();
        let cpu = topology.cpu(CoreId(3)).unwrap();
        assert_eq!((cpu.socket, cpu.siblings.to_string()), (0, "3".into()));
    }

    #[test]
    fn this_machine_reads() {
        if !Path::new("/sys/devices/system/cpu/online").exists() {
            crate::skip("this_machine_reads", "no sysfs here");
            return;
        }
        let topology = Topology::read().unwrap();
        for core in crate::cores::allowed_cores().unwrap() {
            let cpu = topology.cpu(core).expect("an allowed core is online");
            assert!(cpu.siblings.contains(core.0));
            assert!(topology.nodes().contains(cpu.node.0));
        }
    }
}
