//! What is read of the machine. What cannot be found out is `None`.

use linerate::{
    drivers::netif::{LinkInfo, NetIf},
    mem::{Cpu, HugeCounts, HugeSize, Topology, allowed_cores},
};
use std::{fs, io, path::Path};

/// Capabilities by their bit in `CapEff` (capabilities(7)).
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const SYS_ADMIN: u32 = 21;
const BPF: u32 = 39;

/// What this process may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub u64);

impl Rights {
    /// Reads them from the text of `/proc/self/status`.
    pub fn parse(status: &str) -> Option<Rights> {
        let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok().map(Rights)
    }

    fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 != 0
    }

    /// Raw and packet sockets, AF_XDP sockets.
    pub fn net_raw(self) -> bool {
        self.has(NET_RAW)
    }

    /// Changing interfaces, attaching programs to them.
    pub fn net_admin(self) -> bool {
        self.has(NET_ADMIN)
    }

    /// Loading programs; who administers the system may too.
    pub fn bpf(self) -> bool {
        self.has(BPF) || self.has(SYS_ADMIN)
    }
}

/// A network interface.
#[derive(Clone, Debug)]
pub struct Interface {
    pub link: LinkInfo,
    /// In Mbit/s.
    pub speed: Option<u32>,
    /// The kernel's driver: of the device, or the kind of a virtual one.
    pub driver: Option<String>,
}

/// Reserved huge pages of a size.
#[derive(Clone, Copy, Debug)]
pub struct Huge {
    pub size: HugeSize,
    pub counts: HugeCounts,
}

/// Whether a pool would find huge pages.
pub fn has_huge(huge: &[Huge]) -> bool {
    huge.iter().any(|h| h.counts.available > 0)
}

/// All of it.
#[derive(Debug)]
pub struct Machine {
    pub rights: Option<Rights>,
    /// Interfaces, or why they are not known.
    pub interfaces: Result<Vec<Interface>, String>,
    /// Whether `/dev/net/tun` may be opened for reading and writing; what the system said if not.
    pub tun: Result<(), io::ErrorKind>,
    pub huge: Vec<Huge>,
    pub cpus: Option<Vec<Cpu>>,
    /// Numbers of the cores that this process may run on.
    pub allowed: Option<Vec<u32>>,
}

impl Machine {
    /// Looks at the machine, without a trace.
    pub fn look() -> Machine {
        let status = fs::read_to_string("/proc/self/status").ok();
        let huge = |size| Huge { size, counts: HugeCounts::read(size, None) };
        Machine {
            rights: status.as_deref().and_then(Rights::parse),
            interfaces: interfaces(),
            tun: tun(Path::new("/dev/net/tun")),
            huge: vec![huge(HugeSize::Size2M), huge(HugeSize::Size1G)],
            cpus: Topology::read().ok().map(|t| t.cpus().to_vec()),
            allowed: allowed_cores().ok().map(|c| c.into_iter().map(|c| c.0).collect()),
        }
    }
}

fn interfaces() -> Result<Vec<Interface>, String> {
    let links = NetIf::all().map_err(|e| format!("{e} ({})", e.hint()))?;
    let look = |link: LinkInfo| {
        // By its number: the name may be another's by now.
        let speed = NetIf::by_index(link.index).ok().and_then(|i| i.speed_mbps());
        let driver = device_driver(Path::new("/sys/class/net"), &link.name).or_else(|| link.kind.clone());
        Interface { link, speed, driver }
    };
    Ok(links.into_iter().map(look).collect())
}

/// The driver of an interface's device, by the link that the kernel keeps to it.
fn device_driver(net: &Path, name: &str) -> Option<String> {
    let link = fs::read_link(net.join(name).join("device/driver")).ok()?;
    Some(link.file_name()?.to_str()?.to_string())
}

/// Opening the device makes no interface: that takes a further call on it.
fn tun(path: &Path) -> Result<(), io::ErrorKind> {
    fs::OpenOptions::new().read(true).write(true).open(path).map(drop).map_err(|e| e.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_the_effective_ones() {
        let of =
            |mask: &str| Rights::parse(&format!("Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{mask}\n"));
        let none = of("0000000000000000").unwrap();
        assert!(!none.net_raw() && !none.net_admin() && !none.bpf());
        let raw = of("0000000000002000").unwrap();
        assert!(raw.net_raw() && !raw.net_admin() && !raw.bpf());
        let admin = of("0000008000001000").unwrap();
        assert!(!admin.net_raw() && admin.net_admin() && admin.bpf());
        assert!(of("0000000000200000").unwrap().bpf());
        assert_eq!((of("x"), Rights::parse("")), (None, None));
    }

    #[test]
    fn the_tun_device_is_looked_at_and_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tun");
        assert_eq!(tun(&path), Err(io::ErrorKind::NotFound));
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        assert_eq!(tun(&path), Ok(()));
    }

    #[test]
    fn a_driver_is_the_name_that_the_link_ends_in() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("eth7/device")).unwrap();
        assert_eq!(device_driver(dir.path(), "eth7"), None);
        std::os::unix::fs::symlink("../../bus/drivers/igc", dir.path().join("eth7/device/driver")).unwrap();
        assert_eq!(device_driver(dir.path(), "eth7").as_deref(), Some("igc"));
    }
}
