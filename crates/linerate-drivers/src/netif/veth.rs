//! Pairs of virtual Ethernet interfaces, for tests, demonstrations and benchmarks.

use super::{
    NetIf, NetIfError,
    interface::{Rtnl, check_name},
    link::{IFINFO, IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO},
};

const RTM_NEWLINK: u16 = 16;
const ACK: u16 = 4;
const CREATE_EXCLUSIVE: u16 = 0x600;
const VETH_INFO_PEER: u16 = 1;

/// Makes a pair of interfaces, down; what the one sends the other receives.
///
/// # Errors
///
/// No right, a name is taken, or the kernel has no veth.
pub fn create(name: &str, peer: &str) -> Result<(NetIf, NetIf), NetIfError> {
    check_name(name)?;
    check_name(peer)?;
    let rtnl = Rtnl::new()?;
    let made = rtnl.request(
        (RTM_NEWLINK, ACK | CREATE_EXCLUSIVE),
        0,
        (0, 0),
        |m| {
            m.name(IFLA_IFNAME, name).nest(IFLA_LINKINFO, &[], |m| {
                m.name(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, &[], |m| {
                    m.nest(VETH_INFO_PEER, &[0; IFINFO], |m| {
                        m.name(IFLA_IFNAME, peer);
                    });
                });
            });
        },
        |_| {},
    );
    made.map_err(NetIfError::system(format!("making the interfaces {name} and {peer}")))?;
    Ok((NetIf::by_name(name)?, NetIf::by_name(peer)?))
}

/// Makes a bridge, down, and puts interfaces into it.
///
/// # Errors
///
/// No right, the name is taken, or the kernel has no bridge.
pub fn create_bridge(name: &str, ports: &[&NetIf]) -> Result<NetIf, NetIfError> {
    const IFLA_MASTER: u16 = 10;
    check_name(name)?;
    let rtnl = Rtnl::new()?;
    let fill = |m: &mut super::message::Message| {
        m.name(IFLA_IFNAME, name).nest(IFLA_LINKINFO, &[], |m| {
            m.name(IFLA_INFO_KIND, "bridge");
        });
    };
    let made = rtnl.request((RTM_NEWLINK, ACK | CREATE_EXCLUSIVE), 0, (0, 0), fill, |_| {});
    made.map_err(NetIfError::system(format!("making the bridge {name}")))?;
    let bridge = NetIf::by_name(name)?;
    for port in ports {
        let fill = |m: &mut super::message::Message| {
            m.attr(IFLA_MASTER, &bridge.index().to_ne_bytes());
        };
        let joined = rtnl.request((RTM_NEWLINK, ACK), port.index(), (0, 0), fill, |_| {});
        joined.map_err(NetIfError::system(format!("putting an interface into the bridge {name}")))?;
    }
    Ok(bridge)
}
