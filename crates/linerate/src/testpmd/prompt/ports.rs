//! Commands about single ports: their life, filters, MTU, link, and how they spread packets.

use super::{
    grammar::{Value, Values},
    session::{Done, Session, told},
};
use crate::testpmd::rig::{RigPort, configure};
use linerate_port::{PortError, PortState, RssConfig, RssTypes};
use std::fmt::Write;

/// Does something with each of the ports that an argument names, up to the first that refuses.
fn each(
    s: &mut Session,
    v: &Values,
    at: usize,
    mut f: impl FnMut(&mut RigPort) -> Result<(), PortError>,
) -> Done {
    let ports = v.ports(at, s.job.rig.ports.len());
    for p in s.job.rig.ports.iter_mut().skip(ports.start).take(ports.len()) {
        if let Err(e) = f(p) {
            return Err(told(&p.fail(e)));
        }
    }
    Ok(())
}

/// `set promisc (PORT|all) (on|off)`
pub(super) fn promiscuous(s: &mut Session, v: &Values) -> Done {
    each(s, v, 0, |p| p.port.set_promiscuous(v.on(1), p.port.filters().all_multicast))
}

/// `set allmulti (PORT|all) (on|off)`
pub(super) fn all_multicast(s: &mut Session, v: &Values) -> Done {
    each(s, v, 0, |p| p.port.set_promiscuous(p.port.filters().promiscuous, v.on(1)))
}

/// `mac_addr (add|remove) PORT MAC`
pub(super) fn address(s: &mut Session, v: &Values) -> Done {
    let Some(&Value::Mac(mac)) = v.0.get(2) else { return Ok(()) };
    each(s, v, 1, |p| p.port.set_mac(mac, v.text(0) == "add"))
}

/// `rx_vlan (add|rm) VLAN PORT`
pub(super) fn vlan(s: &mut Session, v: &Values) -> Done {
    each(s, v, 2, |p| p.port.set_vlan(v.number(1) as u16, v.text(0) == "add"))
}

/// `set eth-peer PORT MAC`
pub(super) fn peer(s: &mut Session, v: &Values) -> Done {
    s.need_stopped()?;
    let Some(&Value::Mac(mac)) = v.0.get(1) else { return Ok(()) };
    if !mac.is_assignable() {
        return Err(format!("{mac} is no station's address\n  hint: such as 02:00:00:00:00:01"));
    }
    if let Some(slot) = s.job.plan.peers.get_mut(v.port(0)) {
        *slot = Some(mac);
    }
    Ok(())
}

/// `set (link-up|link-down) port PORT`
pub(super) fn link(s: &mut Session, v: &Values) -> Done {
    each(s, v, 1, |p| p.port.set_link(v.text(0) == "link-up"))
}

/// `port (start|stop|close) (PORT|all)`; a port that is so already is passed over.
pub(super) fn life(s: &mut Session, v: &Values) -> Done {
    s.need_stopped()?;
    let plan = s.job.plan.clone();
    let step = v.text(0);
    each(s, v, 1, |p| {
        let state = p.port.state();
        match step {
            "start" if state == PortState::Started => Ok(()),
            "start" => {
                let config = p.port.config();
                if (config.rx_queues, config.tx_queues) != plan.queues || p.descriptors != plan.descriptors {
                    configure(&plan, p).map_err(|e| match e {
                        crate::testpmd::error::TestpmdError::Port { source, .. } => source,
                        other => PortError::Invalid {
                            port: p.port.id(),
                            what: "configuration".into(),
                            why: other.to_string(),
                        },
                    })?;
                }
                p.port.start()
            }
            "stop" if state != PortState::Started => Ok(()),
            "stop" => p.port.stop(),
            _ if state == PortState::Closed => Ok(()),
            _ => p.port.close(),
        }
    })?;
    s.say("Done");
    Ok(())
}

/// `port config mtu PORT N`
pub(super) fn mtu(s: &mut Session, v: &Values) -> Done {
    each(s, v, 0, |p| p.port.set_mtu(u32::try_from(v.number(1)).unwrap_or(u32::MAX)))
}

/// `port config all (rxq|txq|rxd|txd) N`: counts when the ports are started again.
pub(super) fn queues(s: &mut Session, v: &Values) -> Done {
    if let Some(p) = s.job.rig.ports.iter().find(|p| p.port.state() == PortState::Started) {
        return Err(format!("port {} is started\n  hint: `port stop all` first", p.port.id()));
    }
    let n = v.number(1) as u16;
    let least = if v.text(0).ends_with('q') { 1 } else { 0 };
    if n < least {
        return Err(format!("{n} queues\n  hint: give 1 or more"));
    }
    let (queues, descriptors) = (s.job.plan.queues, s.job.plan.descriptors);
    if s.job.plan.built_in() && v.text(0).ends_with('q') {
        return Err("the built-in tester was set up for the queues of the command line\n  \
                    hint: name ports there, or give --rxq and --txq"
            .into());
    }
    match v.text(0) {
        "rxq" => s.job.plan.queues.0 = n,
        "txq" => s.job.plan.queues.1 = n,
        "rxd" => s.job.plan.descriptors.0 = n,
        _ => s.job.plan.descriptors.1 = n,
    }
    if let Err(e) = s.lay_out() {
        (s.job.plan.queues, s.job.plan.descriptors) = (queues, descriptors);
        return Err(told(&e));
    }
    Ok(())
}

/// The hash types that `port config all rss` names.
pub(super) const RSS_TYPES: &[&str] = &["all", "none", "ip", "tcp", "udp", "sctp"];

fn types(name: &str) -> RssTypes {
    use RssTypes as T;
    match name {
        "all" => T::all(),
        "ip" => T::IPV4 | T::IPV6,
        "tcp" => T::IPV4_TCP | T::IPV6_TCP,
        "udp" => T::IPV4_UDP | T::IPV6_UDP,
        "sctp" => T::IPV4_SCTP | T::IPV6_SCTP,
        _ => T::empty(),
    }
}

/// What a port spreads by, or would if nothing else is said.
fn spread_of(p: &RigPort) -> RssConfig {
    let (info, config) = (p.port.info(), p.port.config());
    config.rss.clone().unwrap_or_else(|| {
        RssConfig::spread(config.rx_queues.max(1), info.limits.reta_size, RssTypes::empty())
    })
}

/// `port config all rss TYPES`
pub(super) fn rss(s: &mut Session, v: &Values) -> Done {
    let wanted = types(v.text(0));
    for p in &mut s.job.rig.ports {
        // `all` is all that the port knows; a type by name must be known.
        let types = if v.text(0) == "all" { wanted & p.port.info().rss_types } else { wanted };
        p.port.set_rss(RssConfig { types, ..spread_of(p) }).map_err(|e| told(&p.fail(e)))?;
    }
    Ok(())
}

/// `port config PORT rss reta (HASH,QUEUE)...`
pub(super) fn table(s: &mut Session, v: &Values) -> Done {
    let Some(p) = s.job.rig.ports.get_mut(v.port(0)) else { return Ok(()) };
    let mut rss = spread_of(p);
    for word in v.text(1).split_whitespace() {
        // Read wide, held against the table and the queues, then narrowed.
        let pair = word.trim_start_matches('(').trim_end_matches(')').split_once(',');
        let pair = pair.and_then(|(h, q)| Some((h.parse::<u64>().ok()?, q.parse::<u64>().ok()?)));
        let queues = u64::from(p.port.config().rx_queues);
        let slot = pair
            .filter(|&(_, q)| q < queues)
            .and_then(|(h, q)| Some((rss.reta.get_mut(usize::try_from(h).ok()?)?, q as u16)));
        let Some((slot, queue)) = slot else {
            return Err(format!(
                "{word:?} is not (HASH,QUEUE)\n  hint: HASH below {}, QUEUE below {queues}, such as (0,0)",
                p.port.info().limits.reta_size
            ));
        };
        *slot = queue;
    }
    p.port.set_rss(rss).map_err(|e| told(&p.fail(e)))
}

/// `show port PORT (mac|rss|flows)`: what a single port is set to.
pub(super) fn show_one(s: &mut Session, v: &Values) -> Done {
    let Some(p) = s.job.rig.ports.get(v.port(0)) else { return Ok(()) };
    let mut t = String::new();
    if v.text(1) == "mac" {
        _ = writeln!(t, "Number of MAC address added: {}", 1 + p.port.filters().mac.len());
        for mac in [&p.mac].into_iter().chain(&p.port.filters().mac) {
            _ = writeln!(t, "  {mac}");
        }
    } else if v.text(1) == "rss-hash" {
        let rss = spread_of(p);
        _ = writeln!(t, "RSS functions: {:?}", rss.types);
        let key: String = rss.key.iter().map(|b| format!("{b:02X}")).collect();
        _ = writeln!(t, "RSS key: {key}");
    } else {
        for (hash, queue) in spread_of(p).reta.iter().enumerate() {
            _ = writeln!(t, "RSS RETA configuration: hash index={hash}, queue={queue}");
        }
    }
    s.say(t.trim_end());
    Ok(())
}

/// `dump_mempool`
pub(super) fn pools(s: &mut Session, v: &Values) -> Done {
    let mut t = String::new();
    for pool in s.job.rig.pools.iter().chain(&s.job.tester_pool) {
        if !v.text(0).is_empty() && v.text(0) != pool.name() {
            continue;
        }
        let c = pool.counts();
        _ = writeln!(t, "mempool <{}>", pool.name());
        for (what, n) in [
            ("size", u64::from(c.total)),
            ("data_room", pool.data_room().into()),
            ("cache_size", pool.cache_size().into()),
            ("total_cache_count", c.cached.into()),
            ("common_pool_count", c.backend.into()),
            ("held", c.held.into()),
            ("allocation failures", c.failures),
        ] {
            _ = writeln!(t, "  {what}={n}");
        }
    }
    if t.is_empty() {
        let names: Vec<_> = s.job.rig.pools.iter().chain(&s.job.tester_pool).map(|p| p.name()).collect();
        return Err(format!("no pool {:?}\n  hint: allowed: {}", v.text(0), names.join(", ")));
    }
    s.say(t.trim_end());
    Ok(())
}
