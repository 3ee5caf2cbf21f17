//! What there is, for people.

use super::{
    machine::{Huge, Machine, has_huge},
    verdict::{Verdict, packet, tap, xsk},
};
use linerate::{drivers::DRIVERS, mem::HugeSize};
use std::fmt::{self, Write};

/// All of it, in lines.
pub fn text(m: &Machine) -> String {
    let mut out = String::new();
    // Writing into a text cannot fail.
    _ = all(&mut out, m);
    out
}

fn all(out: &mut String, m: &Machine) -> fmt::Result {
    writeln!(out, "Drivers (--port driver:device,key=value,...)")?;
    for d in DRIVERS {
        let form = match d.device {
            Some(device) if d.device_required => format!("{}:{device}", d.name),
            Some(device) => format!("{}[:{device}]", d.name),
            None => d.name.to_string(),
        };
        writeln!(out, "  {form:<18} {}", d.help)?;
        for k in d.keys {
            let often = if k.repeats { "; may be repeated" } else { "" };
            writeln!(out, "      {:<46} {}{often}", format!("{}={}", k.name, k.value), k.help)?;
        }
    }
    writeln!(out, "\nInterfaces of the kernel")?;
    match &m.interfaces {
        Err(why) => writeln!(out, "  not known: {why}")?,
        Ok(all) if all.is_empty() => writeln!(out, "  none")?,
        Ok(all) => {
            for i in all {
                let l = &i.link;
                let mac = l.mac.map_or_else(|| "no Ethernet address".into(), |m| m.to_string());
                let state = match (l.up, l.carrier) {
                    (true, true) => "up",
                    (true, false) => "up, no carrier",
                    (false, _) => "down",
                };
                let speed = i.speed.map_or_else(|| "speed not known".into(), |s| format!("{s} Mbit/s"));
                let driver = i.driver.as_deref().unwrap_or("not known");
                writeln!(
                    out,
                    "  {}: {mac}, MTU {}, {state}, {speed}, queues {} rx {} tx, driver {driver}",
                    l.name, l.mtu, l.rx_queues, l.tx_queues
                )?;
                verdict(out, &format!("xsk:{}", l.name), &xsk(m, i))?;
                verdict(out, &format!("packet:{}", l.name), &packet(m, i))?;
            }
        }
    }
    writeln!(out, "\nNew interfaces")?;
    verdict(out, "tap:NAME", &tap(m))?;
    writeln!(out, "\nHuge pages")?;
    for h in &m.huge {
        writeln!(out, "  {}: {} free of {}", h.size, h.counts.available, h.counts.total)?;
    }
    writeln!(out, "  {}", pool(&m.huge))?;
    writeln!(out, "\nCores")?;
    match (&m.cpus, &m.allowed) {
        (Some(cpus), allowed) => {
            for c in cpus {
                let may = match allowed.as_ref().map(|a| a.contains(&c.id.0)) {
                    Some(true) => "",
                    Some(false) => ", not for this process (taskset, cpuset)",
                    None => ", whether for this process is not known",
                };
                let (id, core) = (c.id.0, c.core);
                writeln!(out, "  {id}: physical core {core}, socket {}, node {}{may}", c.socket, c.node.0)?;
            }
        }
        (None, Some(allowed)) => {
            writeln!(out, "  for this process: {allowed:?}; their places are not known")?
        }
        (None, None) => writeln!(out, "  not known")?,
    }
    Ok(())
}

fn verdict(out: &mut String, port: &str, v: &Verdict) -> fmt::Result {
    let word = match v.usable {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known",
    };
    write!(out, "      {port:<20} {word}")?;
    match v.mode {
        Some("native") => write!(out, ", native XDP (in the driver)")?,
        Some(_) => write!(out, ", generic XDP (in the kernel's stack)")?,
        None => {}
    }
    if let Some(why) = &v.why {
        write!(out, ": {why}")?;
    }
    writeln!(out)?;
    match &v.hint {
        Some(hint) => writeln!(out, "          hint: {hint}"),
        None => Ok(()),
    }
}

/// What a pool of packet buffers would take.
fn pool(huge: &[Huge]) -> String {
    if has_huge(huge) {
        "a pool takes huge pages as long as enough are free".into()
    } else {
        let more = HugeSize::Size2M.command(64);
        format!("a pool takes ordinary pages, joined where the kernel can; for huge ones: {more}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{machine::Rights, verdict::tests::machine};
    use linerate::mem::HugeCounts;

    #[test]
    fn drivers_keys_and_interfaces_are_named_and_why_not() {
        let t = text(&machine(Some("veth")));
        for d in DRIVERS {
            assert!(t.contains(d.help) && d.keys.iter().all(|k| t.contains(k.help)), "{}", d.name);
        }
        assert!(t.contains("xsk:e0               yes, native XDP"), "{t}");
        let mut m = machine(None);
        m.rights = Some(Rights(0));
        let t = text(&m);
        assert!(
            t.contains("packet:e0            no: no right: CAP_NET_RAW missing\n          hint: run as root"),
            "{t}"
        );
        m.interfaces = Err("no answer".into());
        assert!(text(&m).contains("not known: no answer"));
    }

    #[test]
    fn the_command_for_huge_pages_is_given_where_there_are_none() {
        let huge =
            |available| vec![Huge { size: HugeSize::Size2M, counts: HugeCounts { total: 8, available } }];
        assert!(pool(&huge(0)).contains("sysctl -w vm.nr_hugepages="));
        assert!(!pool(&huge(8)).contains("sysctl"));
    }
}
