//! `show`: what there is, and what it has moved.

use super::{
    grammar::Values,
    session::{Done, Session, told},
};
use crate::testpmd::{live, streams};
use std::fmt::Write;

/// `show port (info|summary|stats|xstats) (PORT|all)`
pub(super) fn port(s: &mut Session, v: &Values) -> Done {
    let ports = v.ports(1, s.job.rig.ports.len());
    let mut t = String::new();
    match v.text(0) {
        "stats" => ports.for_each(|p| stats(s, p, &mut t)),
        "xstats" => ports.for_each(|p| xstats(s, p, &mut t)),
        "summary" => {
            _ = writeln!(
                t,
                "  {:<5} {:<17} {:<20} {:<10} {:<6}",
                "Port", "MAC address", "Name", "State", "Link"
            );
            ports.for_each(|p| summary(s, p, &mut t));
        }
        _ => ports.for_each(|p| info(s, p, &mut t)),
    }
    s.say(t.trim_end());
    Ok(())
}

fn stats(s: &mut Session, number: usize, t: &mut String) {
    let (Some(p), Some(last)) = (s.job.rig.ports.get(number), s.shown.get_mut(number)) else { return };
    let (now_ns, now) = (s.job.clock.now_ns(), p.port.stats());
    // The first time there is nothing to compare with: rates of 0.
    let (then, before) = last.replace((now_ns, now)).unwrap_or((now_ns, now));
    live::block(t, number, &now, &now.since(&before), now_ns.saturating_sub(then));
    _ = writeln!(t, "  {}", "#".repeat(76));
}

fn xstats(s: &Session, number: usize, t: &mut String) {
    let Some(p) = s.job.rig.ports.get(number) else { return };
    _ = writeln!(t, "###### NIC extended statistics for port {number}");
    for x in p.port.xstats().iter().filter(|x| !s.hide_zero || x.value > 0) {
        _ = writeln!(t, "{}: {}", x.name, x.value);
    }
}

fn link(up: bool) -> &'static str {
    if up { "up" } else { "down" }
}

fn summary(s: &mut Session, number: usize, t: &mut String) {
    let Some(p) = s.job.rig.ports.get_mut(number) else { return };
    let link = link(p.port.link().oper_up);
    let state = p.port.state().to_string();
    _ = writeln!(
        t,
        "  {number:<5} {:<17} {:<20} {state:<10} {link:<6}",
        p.mac.to_string(),
        p.port.info().name
    );
}

fn info(s: &mut Session, number: usize, t: &mut String) {
    let Some(p) = s.job.rig.ports.get_mut(number) else { return };
    let l = p.port.link();
    let (info, filters, config) = (p.port.info(), p.port.filters(), p.port.config());
    let on = |on| if on { "enabled" } else { "disabled" };
    let speed = l.speed_mbps.map_or("n/a".into(), |m| format!("{m} Mbps"));
    _ = writeln!(t, "\n********************* Infos for port {number:<2} *********************");
    for (what, value) in [
        ("Device name", info.name.clone()),
        ("Driver name", info.driver.into()),
        ("Description", p.spec.clone()),
        ("State", p.port.state().to_string()),
        ("MAC address", p.mac.to_string()),
        ("Connect to socket", info.node.map_or("any".into(), |n| n.to_string())),
        ("Link status", link(l.oper_up).into()),
        ("Link speed", speed),
        ("MTU", config.mtu.to_string()),
        ("Promiscuous mode", on(filters.promiscuous).into()),
        ("Allmulticast mode", on(filters.all_multicast).into()),
        ("Maximum number of MAC addresses", info.limits.max_mac_addresses.to_string()),
        ("Capabilities", format!("{:?}", info.capabilities)),
        ("RX offloads", format!("{:?}", info.rx_offloads)),
        ("TX offloads", format!("{:?}", info.tx_offloads)),
        ("Redirection table size", info.limits.reta_size.to_string()),
        ("Current number of RX queues", config.rx_queues.to_string()),
        ("Max possible RX queues", info.limits.max_rx_queues.to_string()),
        ("Current number of TX queues", config.tx_queues.to_string()),
        ("Max possible TX queues", info.limits.max_tx_queues.to_string()),
        ("RX descriptors", format!("{} to {}", info.limits.rx_descriptors.0, info.limits.rx_descriptors.1)),
        ("TX descriptors", format!("{} to {}", info.limits.tx_descriptors.0, info.limits.tx_descriptors.1)),
    ] {
        _ = writeln!(t, "{what}: {value}");
    }
}

/// `show config (rxtx|cores|fwd|txpkts)`
pub(super) fn config(s: &mut Session, v: &Values) -> Done {
    if !s.is_running() {
        s.lay_out().map_err(|e| told(&e))?;
    }
    let plan = &s.job.plan;
    match v.text(0) {
        "fwd" => {
            let parts = streams::share(s.job.streams.len(), s.job.cores.forward.len());
            s.job.introduce(&parts);
        }
        "cores" => {
            let list: Vec<_> = s.job.cores.forward.iter().map(|c| c.to_string()).collect();
            s.say(&format!("List of forwarding cores: {}", list.join(" ")));
        }
        "txpkts" => {
            let list: Vec<_> = plan.txonly.segments.iter().map(|n| n.to_string()).collect();
            s.say(&format!("Number of segments: {}\nSegment sizes: {}", list.len(), list.join(",")));
        }
        _ => {
            let mut t = format!(
                "  {} packet forwarding packets/burst={}\n  nb forwarding cores={} - nb forwarding ports={}",
                plan.mode.as_str(),
                s.job.rig.burst,
                plan.cores,
                plan.forward.len()
            );
            let wanted = |n: u16| if n == 0 { "default".into() } else { n.to_string() };
            for (number, p) in s.job.rig.ports.iter().enumerate() {
                let c = p.port.config();
                _ = write!(
                    t,
                    "\n  port {number}: RX queue number: {} Tx queue number: {}, RX desc={} TX desc={}, MTU {}",
                    c.rx_queues,
                    c.tx_queues,
                    wanted(plan.descriptors.0),
                    wanted(plan.descriptors.1),
                    c.mtu
                );
            }
            s.say(&t);
        }
    }
    Ok(())
}

/// `show fwd stats all`
pub(super) fn figures(s: &mut Session, _: &Values) -> Done {
    let text = s.figures().ok_or("nothing has been forwarded\n  hint: `start` begins")?;
    s.say(text.trim_end());
    Ok(())
}
