//! The ports and pools of a run: opened, configured and started together, or not at all.

use super::{
    error::TestpmdError,
    plan::{BUILT_IN_PORTS, Plan},
    pools::{self, Need},
};
use linerate_mbuf::{BURST_MAX, Mempool};
use linerate_mem::{Clock, NumaNode};
use linerate_net::MacAddr;
use linerate_port::{
    Capabilities, ETHER_OVERHEAD, Port, PortConfig, PortError, PortId, PortSpec, PortState, QueueId,
    RxOffloads, RxQueueConfig, TxOffloads, TxQueueConfig,
};

/// A port, and how it was described.
#[derive(Debug)]
pub(super) struct RigPort {
    pub spec: String,
    pub port: Port,
    pub mac: MacAddr,
    /// Where its queues' buffers come from.
    pub pool: Mempool,
    /// Descriptors of its queues as last asked for: receive, transmit.
    pub descriptors: (u16, u16),
}

/// All of them.
#[derive(Debug)]
pub(super) struct Rig {
    pub ports: Vec<RigPort>,
    pub pools: Vec<Mempool>,
    /// Packets of a burst.
    pub burst: usize,
}

/// Name of the device of a port of the run without `--port`.
pub(super) fn built_in_name(number: usize) -> String {
    format!("p{number}")
}

impl RigPort {
    /// Names the port in an error.
    pub fn fail(&self, source: PortError) -> TestpmdError {
        TestpmdError::Port { spec: self.spec.clone(), source }
    }
}

impl Rig {
    /// Opens, configures and starts every port.
    ///
    /// # Errors
    ///
    /// What the first port that cannot be made says; the others are closed again, and none has moved a packet.
    pub fn set_up(plan: &Plan, clock: &Clock, streams: usize) -> Result<Rig, TestpmdError> {
        let specs = if plan.built_in() { built_in_specs() } else { plan.ports.clone() };
        let mut opened = Vec::new();
        for (number, spec) in specs.iter().enumerate() {
            let id = PortId(number as u16);
            let port = linerate_drivers::open(spec, id, clock.clone())
                .map_err(|source| TestpmdError::Port { spec: spec.text().into(), source })?;
            opened.push((spec.text().to_string(), port));
        }
        for (spec, port) in &opened {
            allows(plan, port).map_err(|source| TestpmdError::Port { spec: spec.clone(), source })?;
        }
        let burst = burst_of(plan, &opened)?;
        let limits: Vec<_> = opened.iter().map(|(_, p)| p.info().limits).collect();
        // At a prompt bursts and cores can grow later, the pool cannot.
        let room = if plan.prompt.is_some() { BURST_MAX } else { burst };
        let sized = Plan { cores: if plan.prompt.is_some() { streams } else { plan.cores }, ..plan.clone() };
        let need = Need::of(&sized, &limits, streams, room);
        let buffers = match plan.prompt {
            // Fewer may do for what is wanted; a start that wants more is refused.
            Some(_) => plan.buffers.map_or(need.total(), u64::from),
            None => need.buffers(plan.buffers)?,
        };
        let nodes: Vec<_> = opened.iter().map(|(_, p)| node_of(plan, p)).collect();
        let mut pools: Vec<(Option<NumaNode>, Mempool)> = Vec::new();
        for &node in &nodes {
            if pools.iter().all(|(n, _)| *n != node) {
                let name = format!("mbufs{}", pools.len());
                pools.push((node, pools::make(plan, &name, buffers, node)?));
            }
        }
        let mut ports = Vec::new();
        for ((spec, port), node) in opened.into_iter().zip(nodes) {
            let Some((_, pool)) = pools.iter().find(|(n, _)| *n == node) else { continue };
            let mac = MacAddr::new(port.info().mac.0);
            ports.push(RigPort { spec, port, mac, pool: pool.clone(), descriptors: plan.descriptors });
        }
        let mut rig = Rig { ports, pools: pools.into_iter().map(|(_, p)| p).collect(), burst };
        for p in &mut rig.ports {
            configure(plan, p)?;
        }
        for p in &mut rig.ports {
            if let Err(source) = p.port.start() {
                return Err(p.fail(source));
            }
        }
        Ok(rig)
    }

    /// Stops every port that is started; what those say that do not.
    pub fn stop(&mut self) -> Vec<TestpmdError> {
        use PortState::{Closed, Configured, Opened};
        self.each(Port::stop, &[Opened, Configured, Closed])
    }

    /// Closes every port that is not closed; what those say that do not.
    pub fn close(&mut self) -> Vec<TestpmdError> {
        self.each(Port::close, &[PortState::Closed])
    }

    /// Takes a step with every port but those in these states.
    fn each(
        &mut self,
        step: fn(&mut Port) -> Result<(), PortError>,
        not_in: &[PortState],
    ) -> Vec<TestpmdError> {
        let mut faults = Vec::new();
        for p in self.ports.iter_mut().filter(|p| !not_in.contains(&p.port.state())) {
            if let Err(source) = step(&mut p.port) {
                faults.push(p.fail(source));
            }
        }
        faults
    }
}

fn built_in_specs() -> Vec<PortSpec> {
    let spec = |n| format!("ring:{},far=1,bytes=1", built_in_name(n)).parse();
    (0..BUILT_IN_PORTS).filter_map(|n| spec(n).ok()).collect()
}

fn burst_of(plan: &Plan, opened: &[(String, Port)]) -> Result<usize, TestpmdError> {
    if let Some(burst) = plan.burst {
        return Ok(burst.into());
    }
    let preferred = opened.first().map_or(0, |(_, p)| p.info().limits.preferred_burst);
    if preferred == 0 || usize::from(preferred) > BURST_MAX {
        return Err(TestpmdError::Option {
            option: "--burst 0",
            why: format!("the first port prefers bursts of {preferred}; 1 to {BURST_MAX} are possible"),
            hint: "give --burst 32".into(),
        });
    }
    Ok(preferred.into())
}

fn node_of(plan: &Plan, port: &Port) -> Option<NumaNode> {
    let ports = port.info().node.map(|n| NumaNode(n.into())).filter(|_| plan.numa);
    plan.node.or(ports)
}

/// Configures a port and its queues as the plan says; it must be stopped.
///
/// # Errors
///
/// What the port says, or what it cannot do.
pub(super) fn configure(plan: &Plan, p: &mut RigPort) -> Result<(), TestpmdError> {
    let info = p.port.info();
    let (mut rx_offloads, mut tx_offloads) = (RxOffloads::empty(), TxOffloads::empty());
    if plan.scatter {
        if !info.rx_offloads.contains(RxOffloads::SCATTER) {
            let (port, driver) = (info_id(p), info.driver);
            return Err(p.fail(PortError::Unsupported {
                port,
                driver,
                what: "scatter (--enable-scatter)".into(),
            }));
        }
        rx_offloads |= RxOffloads::SCATTER;
    }
    let made_segments = if plan.makes_packets() { plan.txonly.segments.len() } else { 1 };
    if made_segments > usize::from(info.limits.max_tx_segments)
        || made_segments > 1 && !info.capabilities.contains(Capabilities::MULTI_SEGMENT)
    {
        let (port, driver) = (info_id(p), info.driver);
        let what = format!("way to send {made_segments} segments (--txpkts)");
        return Err(p.fail(PortError::Unsupported { port, driver, what }));
    }
    if made_segments > 1 || plan.scatter {
        tx_offloads |= info.tx_offloads & TxOffloads::MULTI_SEGS;
    }
    let config = PortConfig {
        rx_queues: plan.queues.0,
        tx_queues: plan.queues.1,
        mtu: mtu(plan),
        rx_offloads,
        tx_offloads,
        rss: None,
    };
    let pool = p.pool.clone();
    let port = &mut p.port;
    let done = port.configure(config).and_then(|()| {
        for q in 0..plan.queues.0 {
            let rx = RxQueueConfig { descriptors: plan.descriptors.0, ..RxQueueConfig::new(&pool) };
            port.rx_queue_setup(QueueId(q), rx)?;
        }
        for q in 0..plan.queues.1 {
            let tx = TxQueueConfig { descriptors: plan.descriptors.1, ..TxQueueConfig::default() };
            port.tx_queue_setup(QueueId(q), tx)?;
        }
        Ok(())
    });
    p.descriptors = plan.descriptors;
    done.map_err(|source| p.fail(source))
}

/// Whether a port allows so many queues and such frames, asked before any memory is taken for them.
fn allows(plan: &Plan, port: &Port) -> Result<(), PortError> {
    let (id, l) = (port.id(), port.info().limits);
    let mtu = mtu(plan);
    for (what, wanted, min, max) in [
        ("receive queues", plan.queues.0.into(), 0, l.max_rx_queues.into()),
        ("transmit queues", plan.queues.1.into(), 0, l.max_tx_queues.into()),
        ("MTU", mtu, l.min_mtu, l.max_mtu),
    ] {
        if !(min..=max).contains(&wanted) {
            let (wanted, min, max) = (wanted.into(), min.into(), max.into());
            return Err(PortError::Range { port: id, what, wanted, min, max });
        }
    }
    let (frame, room) = (mtu + ETHER_OVERHEAD, u32::from(plan.data_room));
    if frame > room && !plan.scatter {
        return Err(PortError::FrameTooLong { port: id, mtu, frame, room, pool: "mbufs0".into() });
    }
    Ok(())
}

fn info_id(p: &RigPort) -> PortId {
    p.port.id()
}

/// The MTU that is asked for; without a word about it 1500, or what fits a buffer, or the tester's frames.
fn mtu(plan: &Plan) -> u32 {
    let Some(mtu) = plan.mtu else {
        let fits = u32::from(plan.data_room).saturating_sub(ETHER_OVERHEAD);
        let frames =
            if plan.built_in() { u32::from(plan.frame_size).saturating_sub(ETHER_OVERHEAD) } else { 0 };
        let usual = 1500.max(frames);
        return if plan.scatter { usual } else { usual.min(fits) };
    };
    mtu
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testpmd::plan::tests::plan;

    #[test]
    fn what_a_port_does_not_allow_is_refused_before_memory_is_taken() {
        for (args, says, mends) in [
            (&["--rxq=1024"][..], "allowed are 0 to 64", "0 to 64"),
            (&["--txq=65"], "allowed are 0 to 64", "0 to 64"),
            (&["--mbuf-size=192"], "MTU", "--mbuf-size 218"),
            (&["--max-pkt-len=9018"], "a buffer of pool mbufs0 holds 2048", "--enable-scatter"),
        ] {
            // So many buffers that no machine has the memory.
            let all = [&["--port=null", "--total-num-mbufs=268435456"], args].concat();
            let e = Rig::set_up(&plan(&all).unwrap(), &Clock::real(), 1).unwrap_err();
            assert!(e.to_string().contains(says), "{e}");
            assert!(e.hint().contains(mends), "{}", e.hint());
        }
    }
}
