//! Limits and capabilities: MTU and scatter together, descriptors, and calls that a port lacks the means for.

use super::{
    Case,
    bench::{Lab, Q0, Stop, ensure},
};
use crate::{
    Capabilities, ETHER_OVERHEAD, FlowAction, FlowItem, FlowRule, MacAddress, PortConfig, PortError,
    RssConfig, RssTypes, RxOffloads, RxQueueConfig, TxOffloads, TxQueueConfig,
};

pub(super) const CASES: &[Case] = &[
    ("MTU and scatter are checked together", mtu),
    ("any number of descriptors is made to fit", descriptors),
    ("what a port cannot do is refused", capabilities),
];

/// Bug case 26: the last bytes of the valid MTU were refused, or the first beyond taken.
fn mtu(lab: &Lab<'_>) -> Result<(), Stop> {
    let room = 2048;
    let pool = lab.pool(4096, room);
    let mut b = lab.opened(1, pool.clone())?;
    let limits = b.port().info().limits;
    let with = |mtu, scatter| PortConfig {
        mtu,
        rx_offloads: if scatter { RxOffloads::SCATTER } else { RxOffloads::empty() },
        ..Default::default()
    };
    let scatter = b.can(Capabilities::SCATTER);
    for (mtu, ok) in [
        (limits.max_mtu, true),
        (limits.max_mtu + 1, false),
        (limits.min_mtu, true),
        (limits.min_mtu.wrapping_sub(1), false),
        (u32::MAX, false),
    ] {
        let e = b.port().configure(with(mtu, scatter)).err();
        let right = if ok { e.is_none() } else { matches!(e, Some(PortError::Range { what: "MTU", .. })) };
        ensure!(right, "MTU {mtu} of {} to {} gave {e:?}", limits.min_mtu, limits.max_mtu);
    }
    let exact = (u32::from(room) - ETHER_OVERHEAD).min(limits.max_mtu);
    b.configure(with(exact, false))?;
    b.start()?;
    b.flow(Q0, 10)?;
    b.stop(0)?;
    if exact < limits.max_mtu {
        let long = |e: &Option<PortError>| matches!(e, Some(PortError::FrameTooLong { .. }));
        let e = b.port().set_mtu(exact + 1).err();
        ensure!(long(&e), "MTU {} with buffers of {room} gave {e:?}", exact + 1);
        ensure!(b.port().config().mtu == exact, "a refused MTU stands");
        b.port().configure(with(exact + 1, false))?;
        let e = b.port().rx_queue_setup(Q0, RxQueueConfig::new(&pool)).err();
        ensure!(long(&e), "a queue for MTU {} with buffers of {room} gave {e:?}", exact + 1);
    }
    if scatter {
        let jumbo = limits.max_mtu.min(9000);
        b.configure(with(jumbo, true))?;
        b.port().set_mtu(limits.max_mtu)?;
        let e = b.port().set_mtu(limits.max_mtu + 1).err();
        ensure!(matches!(e, Some(PortError::Range { .. })), "MTU {} gave {e:?}", limits.max_mtu + 1);
        ensure!(b.port().config().mtu == limits.max_mtu, "the MTU is {}", b.port().config().mtu);
        b.port().set_mtu(jumbo)?;
        b.start()?;
        b.flow(Q0, 10)?;
        b.stop(0)?;
    }
    Ok(())
}

/// Bug case 37: 65535 descriptors wrapped to none.
fn descriptors(lab: &Lab<'_>) -> Result<(), Stop> {
    let pool = lab.pool(40_000, 1600);
    for descriptors in [0, 1, 33, 64, 1000, 4096, 65535] {
        let mut b = lab.opened(1, pool.clone())?;
        let config = b.config();
        b.port().configure(config)?;
        b.port().rx_queue_setup(Q0, RxQueueConfig { descriptors, ..RxQueueConfig::new(&pool) })?;
        b.port().tx_queue_setup(Q0, TxQueueConfig { descriptors, ..Default::default() })?;
        b.start()?;
        b.flow(Q0, 33)?;
        b.flow(Q0, 1)?;
        b.stop(0)?;
    }
    Ok(())
}

fn capabilities(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    let info = b.port().info().clone();
    let has = |c| info.capabilities.contains(c);
    let port = b.port();
    // As opened: a port that filters by software takes every frame until it is told otherwise.
    let filters = port.filters().clone();
    let rss = RssConfig {
        key: vec![0x6d; info.limits.rss_key_len.into()],
        types: info.rss_types & RssTypes::IPV4,
        reta: vec![0; usize::from(info.limits.reta_size.max(1))],
    };
    let eth = FlowItem::Eth { dst: None, src: None, ethertype: None };
    let rule = FlowRule {
        pattern: vec![eth],
        actions: vec![FlowAction::Count, FlowAction::Drop],
        ..Default::default()
    };
    let mac = MacAddress::peer(7);
    // A call that is right, whether the port can, and its name.
    let calls = [
        ("set_promiscuous", Capabilities::PROMISCUOUS, port.set_promiscuous(true, true).err()),
        ("set_promiscuous", Capabilities::PROMISCUOUS, port.set_promiscuous(false, true).err()),
        (
            "set_promiscuous",
            Capabilities::PROMISCUOUS,
            port.set_promiscuous(filters.promiscuous, filters.all_multicast).err(),
        ),
        ("set_mac", Capabilities::MAC_FILTER, port.set_mac(mac, true).err()),
        ("set_mac", Capabilities::MAC_FILTER, port.set_mac(mac, false).err()),
        ("set_vlan", Capabilities::VLAN_FILTER, port.set_vlan(4094, true).err()),
        ("set_vlan", Capabilities::VLAN_FILTER, port.set_vlan(4094, false).err()),
        ("set_rss", Capabilities::RSS, port.set_rss(rss.clone()).err()),
        ("set_link", Capabilities::LINK_CONTROL, port.set_link(true).err()),
    ];
    for (name, needs, e) in calls {
        let right = if has(needs) { e.is_none() } else { matches!(e, Some(PortError::Unsupported { .. })) };
        ensure!(right, "{name} gave {e:?}, the port has {:?}", info.capabilities);
    }
    match port.create_flow(rule) {
        Ok(id) => {
            ensure!(has(Capabilities::FLOW), "a flow rule was taken without the capability");
            port.flow_hits(id)?;
            port.destroy_flow(id)?;
            let e = port.flow_hits(id).err();
            ensure!(matches!(e, Some(PortError::Flow { .. })), "a destroyed rule gave {e:?}");
        }
        Err(PortError::Unsupported { .. }) => {
            ensure!(!has(Capabilities::FLOW), "flow rules are refused though the port has them");
        }
        Err(e) => return Err(e.into()),
    }
    ensure!(*port.filters() == filters, "filters stand that were taken out: {:?}", port.filters());
    if has(Capabilities::VLAN_FILTER) {
        let e = port.set_vlan(4095, true).err();
        ensure!(matches!(e, Some(PortError::Range { .. })), "VLAN 4095 gave {e:?}");
    }
    if has(Capabilities::MAC_FILTER) {
        let e = port.set_mac(MacAddress::default(), true).err();
        ensure!(matches!(e, Some(PortError::Invalid { .. })), "the zero address gave {e:?}");
    }
    if has(Capabilities::RSS) {
        let e = port.set_rss(RssConfig { reta: vec![1], ..rss }).err();
        ensure!(matches!(e, Some(PortError::Invalid { .. })), "a table that names queue 1 of 1 gave {e:?}");
    }
    b.flow(Q0, 10)?;
    b.stop(0)?;
    for offload in (RxOffloads::all() - info.rx_offloads).iter() {
        let e = b.port().configure(PortConfig { rx_offloads: offload, ..Default::default() }).err();
        ensure!(matches!(e, Some(PortError::Unsupported { .. })), "{offload:?} gave {e:?}");
    }
    for offload in (TxOffloads::all() - info.tx_offloads).iter() {
        let e = b.port().configure(PortConfig { tx_offloads: offload, ..Default::default() }).err();
        ensure!(matches!(e, Some(PortError::Unsupported { .. })), "{offload:?} gave {e:?}");
    }
    let e = b.port().reset().err();
    if has(Capabilities::RESET) {
        ensure!(e.is_none(), "reset gave {e:?}");
        ensure!(
            b.port().state() == crate::PortState::Opened,
            "after a reset the port is {}",
            b.port().state()
        );
    } else {
        ensure!(matches!(e, Some(PortError::Unsupported { .. })), "reset gave {e:?}");
    }
    b.configure(b.config())?;
    b.start()?;
    b.flow(Q0, 10)?;
    b.stop(0)
}
