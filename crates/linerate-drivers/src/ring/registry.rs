//! The ring ports of this process by name, so that two of them, or a port and a tester, find each other.

use super::{RingPortError, line::Line, port::Options};
use linerate_port::{EventSink, LinkCause, PortSpec, SpecError};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

static PORTS: Mutex<BTreeMap<String, Registered>> = Mutex::new(BTreeMap::new());

fn ports() -> MutexGuard<'static, BTreeMap<String, Registered>> {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Registered {
    peer: Option<String>,
    wiring: Wiring,
}

/// How a port is connected.
#[derive(Clone, Debug)]
pub(super) enum Wiring {
    /// To itself.
    Loop(Arc<Line>),
    /// To another port; ours is this side of the cable.
    Pair(Arc<Cable>, usize),
    /// To a tester: the line into the port and the one out of it.
    Far(Arc<Line>, Arc<Line>),
}

impl Wiring {
    /// The line that the port receives from, and the one that it sends into.
    pub(super) fn lines(&self) -> (Arc<Line>, Arc<Line>) {
        match self {
            Wiring::Loop(line) => (line.clone(), line.clone()),
            Wiring::Pair(cable, side) => (cable.lines[*side].clone(), cable.lines[1 - side].clone()),
            Wiring::Far(rx, tx) => (rx.clone(), tx.clone()),
        }
    }
}

/// What connects two ports: a line each way (`lines[side]` leads to that side), and what both must know.
#[derive(Debug)]
pub(super) struct Cable {
    lines: [Arc<Line>; 2],
    ends: Mutex<[Option<End>; 2]>,
}

#[derive(Debug)]
struct End {
    name: String,
    events: EventSink,
    /// Receive and transmit queues, once configured.
    queues: Option<(u16, u16)>,
    started: bool,
}

impl Cable {
    fn ends(&self) -> MutexGuard<'_, [Option<End>; 2]> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn configured(&self, side: usize, rx: u16, tx: u16) {
        if let Some(end) = &mut self.ends()[side] {
            end.queues = Some((rx, tx));
        }
    }

    /// Plugs in: the other port must be there, and each must receive on as many queues as the other sends on.
    /// The link is up when both sides are started.
    pub(super) fn start(&self, side: usize, peer: &str) -> Result<(), RingPortError> {
        let mut ends = self.ends();
        if let [Some(a), Some(b)] = &*ends
            && let (Some(qa), Some(qb)) = (a.queues, b.queues)
        {
            for (from, (_, tx), to, (rx, _)) in [(a, qa, b, qb), (b, qb, a, qa)] {
                if tx > rx {
                    let (from, to) = (from.name.clone(), to.name.clone());
                    return Err(RingPortError::Queues { from, tx, to, rx });
                }
            }
        }
        let missing = ends[1 - side].is_none();
        match &mut ends[side] {
            Some(me) if missing => {
                Err(RingPortError::PeerMissing { name: me.name.clone(), peer: peer.into() })
            }
            me => {
                me.iter_mut().for_each(|me| me.started = true);
                tell(&ends, side, LinkCause::Started);
                Ok(())
            }
        }
    }

    pub(super) fn stop(&self, side: usize) {
        let mut ends = self.ends();
        ends[side].iter_mut().for_each(|me| me.started = false);
        tell(&ends, side, LinkCause::Stopped);
    }
}

/// Tells both sides how the link is: `cause` is what `side` did.
fn tell(ends: &[Option<End>; 2], side: usize, cause: LinkCause) {
    let up = ends.iter().flatten().filter(|e| e.started).count() == 2;
    for (i, end) in ends.iter().enumerate() {
        if let Some(end) = end {
            end.events.link(up, None, if i == side { cause } else { LinkCause::Carrier });
        }
    }
}

/// A port's place among those of the process; dropping it frees the name.
#[derive(Debug)]
pub(super) struct Registration {
    name: String,
    pub(super) wiring: Wiring,
}

impl Drop for Registration {
    fn drop(&mut self) {
        ports().remove(&self.name);
        if let Wiring::Pair(cable, side) = &self.wiring {
            cable.ends()[*side] = None;
        }
    }
}

/// Enters a port and connects it.
pub(super) fn enter(
    spec: &PortSpec,
    name: &str,
    options: &Options,
    events: EventSink,
) -> Result<Registration, SpecError> {
    let mut ports = ports();
    if ports.contains_key(name) {
        let what = format!("port ring:{name} is open already");
        return Err(spec.bad_value("", what, "give it another name"));
    }
    if options.peer.as_deref() != Some(name)
        && let Some((other, _)) =
            ports.iter().find(|(n, p)| p.peer.as_deref() == Some(name) && options.peer.as_ref() != Some(*n))
    {
        let what = format!("ring:{other} is connected to ring:{name}, which must name it as its peer");
        return Err(spec.bad_value("peer", what, format!("write ring:{name},peer={other}")));
    }
    let line = || Arc::new(Line::new(name, options.size));
    let wiring = match &options.peer {
        None if options.far => Wiring::Far(line(), line()),
        None => Wiring::Loop(line()),
        Some(peer) if peer == name => {
            let what = "a port is no peer of itself";
            return Err(spec.bad_value("peer", what, format!("write ring:{name}: that loops back")));
        }
        Some(peer) => {
            let end = End { name: name.into(), events, queues: None, started: false };
            let (cable, side) = match ports.get(peer) {
                None => {
                    let lines = [Arc::new(Line::new(peer, options.size)), line()];
                    (Arc::new(Cable { lines, ends: Mutex::new([None, None]) }), 0)
                }
                Some(Registered { peer: Some(theirs), wiring: Wiring::Pair(cable, side) })
                    if theirs == name =>
                {
                    let size = cable.lines[0].size();
                    if spec.value("size").is_some() && size != options.size.capacity() {
                        let what = format!("ring:{peer} has size={size}");
                        return Err(spec.bad_value("size", what, format!("write size={size}")));
                    }
                    (cable.clone(), 1 - side)
                }
                Some(Registered { peer: theirs, .. }) => {
                    let what = match theirs {
                        Some(theirs) => format!("ring:{peer} is connected to ring:{theirs}"),
                        None => format!("ring:{peer} is not connected to another port"),
                    };
                    return Err(spec.bad_value("peer", what, format!("write ring:{peer},peer={name} there")));
                }
            };
            cable.ends()[side] = Some(end);
            Wiring::Pair(cable, side)
        }
    };
    ports.insert(name.into(), Registered { peer: options.peer.clone(), wiring: wiring.clone() });
    Ok(Registration { name: name.into(), wiring })
}

/// The lines into and out of a port with a far end.
pub(super) fn far_lines(name: &str) -> Result<(Arc<Line>, Arc<Line>), RingPortError> {
    match ports().get(name).map(|p| &p.wiring) {
        Some(Wiring::Far(rx, tx)) => Ok((rx.clone(), tx.clone())),
        Some(_) => Err(RingPortError::NoFarEnd { name: name.into() }),
        None => Err(RingPortError::NotOpen { name: name.into() }),
    }
}
