//! `flow`: rules as the port model writes them.

use super::{
    grammar::Values,
    session::{Done, Session, told},
};
use linerate_port::{FlowId, FlowRule};
use std::fmt::Write;

/// The rule that the argument writes.
fn rule(v: &Values, at: usize) -> Result<FlowRule, String> {
    v.text(at).parse().map_err(|e: linerate_port::SpecError| e.to_string())
}

/// `flow create PORT RULE`
pub(super) fn create(s: &mut Session, v: &Values) -> Done {
    let rule = rule(v, 1)?;
    let Some(p) = s.job.rig.ports.get_mut(v.port(0)) else { return Ok(()) };
    let id = p.port.create_flow(rule).map_err(|e| told(&p.fail(e)))?;
    s.say(&format!("Flow rule #{} created", id.0));
    Ok(())
}

/// `flow validate PORT RULE`
pub(super) fn validate(s: &mut Session, v: &Values) -> Done {
    let rule = rule(v, 1)?;
    let Some(p) = s.job.rig.ports.get(v.port(0)) else { return Ok(()) };
    rule.check(p.port.config().rx_queues).map_err(|e| format!("{e}\n  hint: {}", e.hint()))?;
    s.say("Flow rule validated");
    Ok(())
}

/// The number as a rule's, which it is only if it fits.
fn id(number: u64) -> FlowId {
    FlowId(u32::try_from(number).unwrap_or(u32::MAX))
}

/// `flow destroy PORT rule N`
pub(super) fn destroy(s: &mut Session, v: &Values) -> Done {
    let Some(p) = s.job.rig.ports.get_mut(v.port(0)) else { return Ok(()) };
    p.port.destroy_flow(id(v.number(1))).map_err(|e| told(&p.fail(e)))?;
    s.say(&format!("Flow rule #{} destroyed", v.number(1)));
    Ok(())
}

/// `flow flush PORT`
pub(super) fn flush(s: &mut Session, v: &Values) -> Done {
    let Some(p) = s.job.rig.ports.get_mut(v.port(0)) else { return Ok(()) };
    let ids: Vec<_> = p.port.flows().map(|(id, _)| id).collect();
    ids.into_iter().try_for_each(|id| p.port.destroy_flow(id)).map_err(|e| told(&p.fail(e)))
}

/// `flow query PORT N count`
pub(super) fn query(s: &mut Session, v: &Values) -> Done {
    let Some(p) = s.job.rig.ports.get(v.port(0)) else { return Ok(()) };
    let hits = p.port.flow_hits(id(v.number(1))).map_err(|e| told(&p.fail(e)))?;
    s.say(&format!("COUNT:\n hits_set: 1\n bytes_set: 1\n hits: {}\n bytes: {}", hits.packets, hits.bytes));
    Ok(())
}

/// `flow list PORT`
pub(super) fn list(s: &mut Session, v: &Values) -> Done {
    let Some(p) = s.job.rig.ports.get(v.port(0)) else { return Ok(()) };
    let mut rules: Vec<_> = p.port.flows().collect();
    rules.sort_by_key(|(id, r)| (r.priority, *id));
    let mut t = format!("{:<8}{:<8}{:<8}{:<8}Rule", "ID", "Group", "Prio", "Attr");
    for (id, r) in rules {
        _ = write!(t, "\n{:<8}{:<8}{:<8}{:<8}{r}", id.0, 0, r.priority, "i--");
    }
    s.say(&t);
    Ok(())
}
