//! `set` and `clear`: how the next start is to be.

use super::{
    grammar::{Value, Values},
    session::{Done, Session, told},
};
use crate::testpmd::plan::{self, Plan};
use std::time::Duration;

/// Notes a change of the plan, which counts from the next start on.
fn change(s: &mut Session, f: impl FnOnce(&mut Plan)) -> Done {
    s.need_stopped()?;
    f(&mut s.job.plan);
    Ok(())
}

/// `set fwd MODE`
pub(super) fn mode(s: &mut Session, v: &Values) -> Done {
    set_mode(s, v, 0)
}

/// `set fwd MODE retry`
pub(super) fn mode_retry(s: &mut Session, v: &Values) -> Done {
    let retries = s.retries;
    set_mode(s, v, retries)
}

/// At once while nothing runs; else nothing is changed.
fn set_mode(s: &mut Session, v: &Values, retries: u32) -> Done {
    let Some(&Value::Mode(mode)) = v.0.first() else { return Ok(()) };
    change(s, |p| (p.mode, p.retries) = (mode, retries))?;
    s.say(&format!(
        "Set {} packet forwarding mode{}",
        mode.as_str(),
        if retries > 0 { " with retry" } else { "" }
    ));
    Ok(())
}

/// `set burst N`
pub(super) fn burst(s: &mut Session, v: &Values) -> Done {
    s.need_stopped()?;
    s.job.rig.burst = v.number(0) as usize;
    s.say(&format!("Number of packets per burst set to {}", s.job.rig.burst));
    Ok(())
}

/// `set burst tx delay MICROSECONDS retry N`
pub(super) fn retries(s: &mut Session, v: &Values) -> Done {
    s.need_stopped()?;
    s.retries = v.number(1) as u32;
    s.job.plan.retry_delay = Duration::from_micros(v.number(0));
    if s.job.plan.retries > 0 {
        s.job.plan.retries = s.retries;
        return Ok(());
    }
    s.say("Counts when offers are repeated: set fwd MODE retry");
    Ok(())
}

/// `set nbcore N`
pub(super) fn cores(s: &mut Session, v: &Values) -> Done {
    let before = s.job.plan.cores;
    change(s, |p| p.cores = v.number(0) as usize)?;
    if let Err(e) = s.lay_out() {
        s.job.plan.cores = before;
        return Err(told(&e));
    }
    s.say(&format!("Number of forwarding cores set to {}", s.job.plan.cores));
    Ok(())
}

/// `set nbport N`
pub(super) fn ports(s: &mut Session, v: &Values) -> Done {
    let (wanted, have) = (v.number(0), s.job.rig.ports.len());
    if wanted > have as u64 {
        return Err(format!("{wanted} ports are wanted, there are {have}\n  hint: give 1 to {have}"));
    }
    change(s, |p| p.forward = (0..wanted as usize).collect())?;
    s.say(&format!("Number of forwarding ports set to {wanted}"));
    Ok(())
}

/// `set portlist X,Y-Z`
pub(super) fn port_list(s: &mut Session, v: &Values) -> Done {
    let list = plan::port_list("set portlist", v.text(0), s.job.rig.ports.len()).map_err(|e| told(&e))?;
    change(s, |p| p.forward = list)
}

/// `set txpkts A,B,...`
pub(super) fn tx_packets(s: &mut Session, v: &Values) -> Done {
    let wrong =
        |part: &str| format!("{part:?} is not a length from 1 to 65535\n  hint: such as 64 or 64,1400");
    let mut segments = Vec::new();
    for part in v.text(0).split(',') {
        // Read wide, held against the bounds, then narrowed.
        let n = part.parse::<u64>().ok().and_then(|n| u16::try_from(n).ok()).ok_or_else(|| wrong(part))?;
        segments.push(n);
    }
    for p in &s.job.rig.ports {
        let most = usize::from(p.port.info().limits.max_tx_segments);
        let several = p.port.config().tx_offloads.contains(linerate_port::TxOffloads::MULTI_SEGS);
        if segments.len() > if several { most } else { 1 } {
            return Err(format!(
                "{} segments: port {} is not set up to send so many\n  \
                 hint: begin with as many on the command line: --txpkts",
                segments.len(),
                p.port.id()
            ));
        }
    }
    let mut made = s.job.plan.txonly.clone();
    made.segments = segments;
    made.check(s.job.plan.data_room).map_err(|e| told(&e))?;
    change(s, |p| p.txonly = made)
}

/// `set flush_rx (on|off)`
pub(super) fn flush(s: &mut Session, v: &Values) -> Done {
    change(s, |p| p.flush_rx = v.on(0))
}

/// `set record-core-cycles (on|off)`
pub(super) fn cycles(s: &mut Session, v: &Values) -> Done {
    change(s, |p| p.record_cycles = v.on(0))
}

/// `set record-burst-stats (on|off)`
pub(super) fn bursts(s: &mut Session, v: &Values) -> Done {
    change(s, |p| p.record_bursts = v.on(0))
}

/// `set xstats-hide-zero (on|off)`
pub(super) fn hide(s: &mut Session, v: &Values) -> Done {
    s.hide_zero = v.on(0);
    Ok(())
}

/// `clear port (stats|xstats) (PORT|all)`
pub(super) fn clear_port(s: &mut Session, v: &Values) -> Done {
    for port in v.ports(1, s.job.rig.ports.len()) {
        s.clear_port(port);
        s.say(&format!("NIC statistics for port {port} cleared"));
    }
    Ok(())
}
