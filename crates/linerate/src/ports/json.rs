//! What there is, for programs. What could not be found out is `null`.

use super::{
    machine::{Machine, has_huge},
    verdict::{Verdict, packet, tap, xsk},
};
use linerate::drivers::DRIVERS;
use serde_json::{Value, json};

fn verdict(v: &Verdict) -> Value {
    json!({"usable": v.usable, "mode": v.mode, "why": v.why, "hint": v.hint})
}

/// All of it.
pub fn value(m: &Machine) -> Value {
    let drivers = DRIVERS.iter().map(|d| {
        let keys = d
            .keys
            .iter()
            .map(|k| json!({"name": k.name, "value": k.value, "help": k.help, "repeats": k.repeats}));
        json!({
            "name": d.name,
            "help": d.help,
            "device": d.device,
            "device_required": d.device_required,
            "keys": keys.collect::<Vec<_>>(),
        })
    });
    let interfaces = m.interfaces.as_ref().ok().map(|all| {
        let each = all.iter().map(|i| {
            let l = &i.link;
            json!({
                "name": l.name,
                "index": l.index,
                "mac": l.mac.map(|m| m.to_string()),
                "mtu": l.mtu,
                "up": l.up,
                "carrier": l.carrier,
                "speed_mbps": i.speed,
                "rx_queues": l.rx_queues,
                "tx_queues": l.tx_queues,
                "kind": l.kind,
                "driver": i.driver,
                "xsk": verdict(&xsk(m, i)),
                "packet": verdict(&packet(m, i)),
            })
        });
        each.collect::<Vec<_>>()
    });
    let rights = m
        .rights
        .map(|r| json!({"cap_net_raw": r.net_raw(), "cap_net_admin": r.net_admin(), "cap_bpf": r.bpf()}));
    let huge = m.huge.iter().map(|h| {
        let (total, free) = (h.counts.total, h.counts.available);
        json!({"bytes": h.size.bytes(), "total": total, "free": free})
    });
    let cores = m.cpus.as_ref().map(|cpus| {
        let each = cpus.iter().map(|c| {
            let allowed = m.allowed.as_ref().map(|a| a.contains(&c.id.0));
            json!({"id": c.id.0, "core": c.core, "socket": c.socket, "node": c.node.0, "allowed": allowed})
        });
        each.collect::<Vec<_>>()
    });
    json!({
        "drivers": drivers.collect::<Vec<_>>(),
        "interfaces": interfaces,
        "interfaces_why": m.interfaces.as_ref().err(),
        "rights": rights,
        "tap": verdict(&tap(m)),
        "huge_pages": huge.collect::<Vec<_>>(),
        "pool_takes": if has_huge(&m.huge) { "huge pages" } else { "ordinary pages" },
        "cores": cores,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::verdict::tests::machine;

    #[test]
    fn what_is_not_known_is_null() {
        let mut m = machine(None);
        let v = value(&m);
        let i = &v["interfaces"][0];
        assert_eq!(
            (&i["speed_mbps"], &i["driver"], &i["xsk"]["mode"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert_eq!((&i["mac"], &i["xsk"]["usable"]), (&json!("02:00:00:00:00:01"), &json!(true)));
        assert_eq!((&v["cores"], &v["interfaces_why"]), (&Value::Null, &Value::Null));
        m.rights = None;
        m.interfaces = Err("why".into());
        let v = value(&m);
        assert_eq!(
            (&v["rights"], &v["interfaces"], &v["interfaces_why"]),
            (&Value::Null, &Value::Null, &json!("why"))
        );
        assert_eq!(v["tap"]["usable"], Value::Null);
    }
}
