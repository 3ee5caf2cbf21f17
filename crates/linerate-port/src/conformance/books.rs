//! Counters and events: what is told agrees with what happened.

use super::{
    Case, Input,
    bench::{Bench, Lab, Q0, Stop, ensure, inapplicable},
};
use crate::{Capabilities, LinkCause, PortEvent, QueueId, Xstat};
use std::collections::BTreeMap;

pub(super) const CASES: &[Case] = &[
    ("counters agree with the traffic", counters),
    ("counters are reset and never go back", reset),
    ("every link change is one event", link),
    ("events that nobody takes are counted", overflow),
];

fn by_name(x: Vec<Xstat>) -> Result<BTreeMap<String, u64>, Stop> {
    let n = x.len();
    let map: BTreeMap<_, _> = x.into_iter().map(|x| (x.name, x.value)).collect();
    ensure!(map.len() == n, "a name of an extended counter occurs twice");
    Ok(map)
}

fn agree(b: &mut Bench) -> Result<(), Stop> {
    let bytes = b.can(Capabilities::BYTE_COUNTS);
    let s = b.port().stats();
    let sum = |of: fn(&super::bench::Lane) -> u64, b: &Bench| b.lanes.iter().map(of).sum::<u64>();
    let want = [
        ("rx_packets", Some(s.rx_packets), Some(sum(|l| l.rx_packets, b))),
        ("tx_packets", Some(s.tx_packets), Some(sum(|l| l.tx_packets, b))),
        ("rx_bytes", s.rx_bytes, bytes.then(|| sum(|l| l.rx_bytes, b))),
        ("tx_bytes", s.tx_bytes, bytes.then(|| sum(|l| l.tx_bytes, b))),
        ("tx_errors", Some(s.tx_errors), Some(0)),
    ];
    for (name, counted, seen) in want {
        ensure!(counted == seen, "{name} is {counted:?}, the suite saw {seen:?}");
    }
    let x = by_name(b.port().xstats())?;
    let of = |name: &str| x.get(name).copied();
    for (name, value) in [
        ("rx_good_packets", Some(s.rx_packets)),
        ("tx_good_packets", Some(s.tx_packets)),
        ("rx_good_bytes", s.rx_bytes),
        ("tx_good_bytes", s.tx_bytes),
        ("rx_missed_errors", Some(s.rx_missed)),
        ("rx_errors", Some(s.rx_errors)),
        ("tx_errors", Some(s.tx_errors)),
        ("rx_mbuf_allocation_errors", Some(s.rx_nombuf)),
    ] {
        ensure!(of(name) == value, "{name} is {:?}, the port's counter {value:?}", of(name));
    }
    for (kind, packets, all_bytes) in [("rx", s.rx_packets, s.rx_bytes), ("tx", s.tx_packets, s.tx_bytes)] {
        let each =
            |what: &str| (0..b.queues).map(|q| of(&format!("{kind}_q{q}_{what}"))).sum::<Option<u64>>();
        let (p, y) = (each("packets"), each("bytes"));
        ensure!(p == Some(packets), "{kind} queues have {p:?} packets, the port {packets}");
        ensure!(y == all_bytes, "{kind} queues have {y:?} bytes, the port {all_bytes:?}");
    }
    Ok(())
}

fn counters(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(2)?;
    agree(&mut b)?;
    for n in [1, 5, 32, 33, 64] {
        for q in 0..b.queues {
            b.flow(QueueId(q), n)?;
        }
        agree(&mut b)?;
    }
    b.stop(0)?;
    agree(&mut b)?;
    b.start()?;
    b.flow(Q0, 9)?;
    agree(&mut b)?;
    b.stop(0)
}

/// Bug case 32, as far as a software counter goes: never back, 0 after a reset.
fn reset(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    b.flow(Q0, 40)?;
    b.port().reset_stats();
    let left: Vec<_> = b.port().xstats().into_iter().filter(|x| x.value != 0).collect();
    ensure!(left.is_empty(), "after a reset: {left:?}");
    for lane in &mut b.lanes {
        lane.count_anew();
    }
    if let Input::Finite(_) = b.input {
        b.stop(0)?;
        b.start()?;
    }
    b.flow(Q0, 17)?;
    agree(&mut b)?;
    let before = b.port().stats();
    b.stop(0)?;
    // Set up anew, not configured: the counters go on.
    let pool = b.pool.clone();
    b.port().rx_queue_setup(Q0, crate::RxQueueConfig::new(&pool))?;
    b.port().tx_queue_setup(Q0, crate::TxQueueConfig::default())?;
    let after = b.port().stats();
    let kept = (after.rx_packets, after.tx_packets) == (before.rx_packets, before.tx_packets);
    ensure!(kept, "a queue set up anew changed {before:?} to {after:?}");
    b.start()?;
    b.flow(Q0, 3)?;
    agree(&mut b)?;
    b.stop(0)?;
    b.configure(b.config())?;
    let s = b.port().stats();
    ensure!((s.rx_packets, s.tx_packets) == (0, 0), "after configure: {s:?}");
    Ok(())
}

fn link(lab: &Lab<'_>) -> Result<(), Stop> {
    let mut b = lab.started(1)?;
    let mut events = b.port().events();
    for _ in 0..300 {
        if b.port().link().oper_up {
            break;
        }
        b.rig.settle();
    }
    events.extend(b.port().events());
    let state = b.port().link();
    ensure!(state.oper_up, "the link of a started port is down: {state:?}");
    let ups: Vec<_> = links(&events).collect();
    ensure!(ups.len() == 1, "the link came up once and {} events tell of it: {ups:?}", ups.len());
    ensure!(ups[0] == state, "the event says {:?}, the port {state:?}", ups[0]);
    b.flow(Q0, 10)?;
    let more = b.port().events();
    ensure!(more.is_empty(), "nothing happened, and there are events: {more:?}");
    if b.can(Capabilities::LINK_CONTROL) {
        b.port().set_link(false)?;
        b.port().set_link(false)?;
        let down: Vec<_> = links(&b.port().events()).collect();
        let one = matches!(&down[..], [l] if !l.oper_up && !l.admin_up && l.cause == LinkCause::Admin);
        ensure!(one, "setting the link down twice gave {down:?}");
        b.port().set_link(true)?;
        let up: Vec<_> = links(&b.port().events()).collect();
        ensure!(matches!(&up[..], [l] if l.oper_up && l.admin_up), "setting the link up gave {up:?}");
        b.flow(Q0, 10)?;
    }
    b.stop(0)?;
    let down: Vec<_> = links(&b.port().events()).collect();
    let one =
        matches!(&down[..], [l] if !l.oper_up && l.since_ns >= state.since_ns && l.changes > state.changes);
    ensure!(one, "stopping gave {down:?}");
    Ok(())
}

fn links(events: &[PortEvent]) -> impl Iterator<Item = crate::LinkState> {
    let only = |e: &PortEvent| match e {
        PortEvent::Link(l) => Some(*l),
        _ => None,
    };
    events.iter().filter_map(only).collect::<Vec<_>>().into_iter()
}

fn overflow(lab: &Lab<'_>) -> Result<(), Stop> {
    let pool = lab.pool(4096, 2048);
    let mut b = lab.opened(1, pool)?;
    b.configure(b.config())?;
    b.rig.settle();
    b.port().events();
    b.start()?;
    b.stop(0)?;
    let each = b.port().events().len() as u64;
    if each == 0 {
        return inapplicable("it tells nothing about its link");
    }
    for _ in 0..300 {
        b.port().start()?;
        b.port().stop()?;
    }
    let events = b.port().events();
    let (Some(PortEvent::Lost(lost)), kept) = (events.first(), events.len() as u64 - 1) else {
        return Err(Stop::Failed(format!("{} events were kept and none lost", events.len())));
    };
    ensure!(lost + kept == 300 * each, "{lost} lost and {kept} kept of {} events", 300 * each);
    ensure!(b.port().events().is_empty(), "events come twice");
    Ok(())
}
