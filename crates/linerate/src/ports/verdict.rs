//! What a driver could do with an interface or the machine, and why not.

use super::machine::{Interface, Machine, Rights};
use std::io;

/// What a driver could do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it would work; `None` = cannot be told without trying.
    pub usable: Option<bool>,
    /// How, if that can be told.
    pub mode: Option<&'static str>,
    /// What is in the way, or what to know.
    pub why: Option<String>,
    /// The command or option that mends it.
    pub hint: Option<String>,
}

impl Verdict {
    fn yes(mode: Option<&'static str>) -> Self {
        Verdict { usable: Some(true), mode, why: None, hint: None }
    }

    fn no(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Verdict { usable: Some(false), mode: None, why: Some(why.into()), hint: Some(hint.into()) }
    }
}

/// A right that a driver needs: its name in messages and in `setcap`, and whether it is there.
type Need = (&'static str, fn(Rights) -> bool);

const XSK: &[Need] =
    &[("cap_net_admin", Rights::net_admin), ("cap_net_raw", Rights::net_raw), ("cap_bpf", Rights::bpf)];
const PACKET: &[Need] = &[("cap_net_raw", Rights::net_raw)];
const TAP: &[Need] = &[("cap_net_admin", Rights::net_admin)];

/// What is missing of the rights, as a verdict.
fn rights(rights: Option<Rights>, needs: &[Need]) -> Option<Verdict> {
    let Some(have) = rights else {
        let why = Some("the rights of this process cannot be read (/proc/self/status)".into());
        return Some(Verdict {
            usable: None,
            mode: None,
            why,
            hint: Some("mount -t proc proc /proc".into()),
        });
    };
    let missing: Vec<_> = needs.iter().filter(|(_, has)| !has(have)).map(|(n, _)| n.to_uppercase()).collect();
    if missing.is_empty() {
        return None;
    }
    let all: Vec<_> = needs.iter().map(|(name, _)| *name).collect();
    let hint = format!("run as root, or: setcap {}=ep PROGRAM", all.join(","));
    Some(Verdict::no(format!("no right: {} missing", missing.join(", ")), hint))
}

/// Drivers and kinds of interfaces of Linux 6 that run XDP programs themselves; others get them in the kernel's stack
/// (generic). A guess by the name, for a look: the port asks the kernel when it is opened, and says what it took.
const NATIVE: &[&str] = &[
    "atlantic",
    "bnxt_en",
    "bond",
    "cpsw",
    "dpaa2-eth",
    "dpaa_eth",
    "ena",
    "enetc",
    "fec",
    "fsl_dpaa2_eth",
    "fsl_enetc",
    "funeth",
    "gve",
    "hv_netvsc",
    "i40e",
    "iavf",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "ixgbevf",
    "mana",
    "mlx4_core",
    "mlx4_en",
    "mlx5_core",
    "mtk_soc_eth",
    "mvneta",
    "mvpp2",
    "netdevsim",
    "netsec",
    "nfp",
    "qede",
    "rvu_nicpf",
    "rvu_nicvf",
    "sfc",
    "thunder-nicvf",
    "tsnep",
    "tun",
    "veth",
    "virtio_net",
    "vmxnet3",
    "xen_netfront",
];

/// The interface through AF_XDP.
pub fn xsk(machine: &Machine, i: &Interface) -> Verdict {
    if i.link.mac.is_none() {
        return Verdict::no(
            "no Ethernet interface",
            format!("take an Ethernet interface, or packet:{}", i.link.name),
        );
    }
    if let Some(v) = rights(machine.rights, XSK) {
        return v;
    }
    let mode = i.driver.as_deref().map(|d| if NATIVE.contains(&d) { "native" } else { "generic" });
    down(Verdict::yes(mode), i)
}

/// The interface through a packet socket.
pub fn packet(machine: &Machine, i: &Interface) -> Verdict {
    if i.link.mac.is_none() {
        return Verdict::no("no Ethernet interface", "take an Ethernet interface");
    }
    rights(machine.rights, PACKET).unwrap_or_else(|| down(Verdict::yes(None), i))
}

/// It could be opened, and nothing would come.
fn down(mut v: Verdict, i: &Interface) -> Verdict {
    if !i.link.up {
        v.why = Some("the interface is down".into());
        v.hint = Some(format!("ip link set dev {} up", i.link.name));
    } else if !i.link.carrier {
        v.why = Some("no carrier".into());
        v.hint = Some("plug the cable in, or set the peer up".into());
    }
    v
}

/// A new interface through the tun device.
pub fn tap(machine: &Machine) -> Verdict {
    match machine.tun {
        Err(io::ErrorKind::NotFound) => {
            let hint = "modprobe tun (in a container: --device /dev/net/tun)";
            Verdict::no("there is no /dev/net/tun", hint)
        }
        Err(io::ErrorKind::PermissionDenied) => {
            Verdict::no("/dev/net/tun may not be opened", "run as root, or: chmod 0666 /dev/net/tun")
        }
        Err(other) => Verdict::no(format!("/dev/net/tun: {other}"), "modprobe tun"),
        Ok(()) => rights(machine.rights, TAP).unwrap_or_else(|| Verdict::yes(None)),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use linerate::{drivers::netif::LinkInfo, port::MacAddress};

    /// A machine with one interface, as root.
    pub fn machine(driver: Option<&str>) -> Machine {
        let mac = Some(MacAddress([2, 0, 0, 0, 0, 1]));
        let link = LinkInfo {
            index: 2,
            name: "e0".into(),
            mac,
            mtu: 1500,
            up: true,
            carrier: true,
            ..Default::default()
        };
        Machine {
            rights: Some(Rights(u64::MAX)),
            interfaces: Ok(vec![Interface { link, speed: None, driver: driver.map(Into::into) }]),
            tun: Ok(()),
            huge: Vec::new(),
            cpus: None,
            allowed: None,
        }
    }

    #[test]
    fn with_all_rights_the_mode_is_by_the_driver() {
        for (driver, mode) in [
            (Some("veth"), Some("native")),
            (Some("mlx5_core"), Some("native")),
            (Some("bridge"), Some("generic")),
            (None, None),
        ] {
            let m = machine(driver);
            let i = &m.interfaces.as_ref().unwrap()[0];
            assert_eq!(xsk(&m, i), Verdict::yes(mode));
            assert_eq!((packet(&m, i), tap(&m)), (Verdict::yes(None), Verdict::yes(None)));
        }
    }

    #[test]
    fn a_missing_right_is_named_with_the_command_that_gives_it() {
        let mut m = machine(None);
        m.rights = Some(Rights(1 << 13));
        let i = &m.interfaces.as_ref().unwrap()[0];
        let v = xsk(&m, i);
        assert_eq!(v.usable, Some(false));
        assert_eq!(v.why.as_deref(), Some("no right: CAP_NET_ADMIN, CAP_BPF missing"));
        assert!(v.hint.unwrap().contains("setcap cap_net_admin,cap_net_raw,cap_bpf=ep"));
        assert_eq!(packet(&m, i).usable, Some(true));
        assert!(tap(&m).why.unwrap().contains("CAP_NET_ADMIN"));
        m.rights = None;
        assert_eq!(tap(&m).usable, None, "unknown is not no");
    }

    #[test]
    fn what_is_in_the_way_is_said() {
        let mut m = machine(Some("tun"));
        if let Ok(i) = &mut m.interfaces {
            i[0].link.up = false;
        }
        let v = packet(&m, &m.interfaces.as_ref().unwrap()[0]);
        assert_eq!((v.usable, v.hint.as_deref()), (Some(true), Some("ip link set dev e0 up")));
        if let Ok(i) = &mut m.interfaces {
            i[0].link.mac = None;
        }
        assert_eq!(xsk(&m, &m.interfaces.as_ref().unwrap()[0]).usable, Some(false));
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied, io::ErrorKind::Other] {
            m.tun = Err(kind);
            let v = tap(&m);
            assert!(v.usable == Some(false) && v.hint.is_some(), "{v:?}");
        }
    }
}
