//! Why nothing moves: the first check that fails, in one line.

use super::{modes::ModeName, rig::Rig, run::StreamView};
use linerate_port::PortStats;

/// What is known of a run that moves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    LinkDown { port: usize, name: String },
    PoolEmpty { pool: String, total: u32 },
    QueueStopped { port: usize, queue: u16 },
    Exhausted { port: usize },
    NothingFits { port: usize, errors: u64 },
    NothingArrives,
    NothingTaken,
}

/// Which options help when a port has refused every frame that came, if one has.
pub(super) fn refused(port: usize, stats: &PortStats) -> Option<String> {
    (stats.rx_packets == 0 && stats.rx_errors > 0)
        .then(|| Cause::NothingFits { port, errors: stats.rx_errors }.why())
}

impl Cause {
    /// The line.
    pub fn line(&self, seconds: u64) -> String {
        format!("no packet for {seconds} s: {}", self.why())
    }

    fn why(&self) -> String {
        match self {
            Cause::LinkDown { port, name } => format!("the link of port {port} ({name}) is down"),
            Cause::PoolEmpty { pool, total } => format!(
                "pool {pool} is empty, all {total} buffers are held; give more with --total-num-mbufs"
            ),
            Cause::QueueStopped { port, queue } => {
                format!("queue {queue} of port {port} or of the port that it sends to is stopped")
            }
            Cause::Exhausted { port } => format!("the input of port {port} has ended"),
            Cause::NothingArrives => {
                "nothing arrives: links are up, buffers are free, queues run; is there a sender? \
                 (ring ports need --tx-first)"
                    .into()
            }
            Cause::NothingFits { port, errors } => format!(
                "port {port} has received nothing and refused {errors} frames: if they are too long, give \
                 --enable-scatter, a larger --mbuf-size, or a larger --max-pkt-len"
            ),
            Cause::NothingTaken => "the transmit ports take nothing".into(),
        }
    }
}

/// The first check that fails.
pub(super) fn cause(rig: &mut Rig, streams: &[StreamView], mode: ModeName) -> Cause {
    for s in streams {
        for port in [s.plan.rx.0, s.plan.tx.0] {
            let Some(p) = rig.ports.get_mut(port) else { continue };
            if !p.port.link().oper_up {
                return Cause::LinkDown { port, name: p.port.info().name.clone() };
            }
        }
    }
    for pool in &rig.pools {
        let counts = pool.counts();
        if counts.free == 0 {
            return Cause::PoolEmpty { pool: pool.name().into(), total: counts.total };
        }
    }
    if let Some(s) = streams.iter().find(|s| s.shown.stopped.get() != 0) {
        return Cause::QueueStopped { port: s.plan.rx.0, queue: s.plan.rx.1 };
    }
    if let Some(s) = streams.iter().find(|s| s.shown.ended.get() != 0) {
        return Cause::Exhausted { port: s.plan.rx.0 };
    }
    for s in streams {
        let Some(p) = rig.ports.get(s.plan.rx.0) else { continue };
        let stats = p.port.stats();
        if stats.rx_packets == 0 && stats.rx_errors > 0 {
            return Cause::NothingFits { port: s.plan.rx.0, errors: stats.rx_errors };
        }
    }
    if mode.counts_sent() { Cause::NothingTaken } else { Cause::NothingArrives }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testpmd::{plan::tests::plan, streams::StreamPlan};
    use linerate_mbuf::Burst;
    use linerate_mem::Clock;

    #[test]
    fn frames_that_are_all_refused_have_options_that_help() {
        let stats = |rx_packets, rx_errors| PortStats { rx_packets, rx_errors, ..PortStats::default() };
        let said = refused(1, &stats(0, 7)).unwrap();
        for part in ["port 1", "7 frames", "--enable-scatter", "--mbuf-size", "--max-pkt-len"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!((refused(1, &stats(1, 7)), refused(1, &stats(0, 0))), (None, None));
    }

    // User pain 81.
    #[test]
    fn the_first_check_that_fails_is_named() {
        let plan = plan(&["--port=null:no-rx=1", "--total-num-mbufs=2000"]).unwrap();
        let mut rig = Rig::set_up(&plan, &Clock::real(), 1).unwrap();
        let streams = [StreamView { plan: StreamPlan { rx: (0, 0), tx: (0, 0) }, shown: Default::default() }];
        let say = |rig: &mut Rig| cause(rig, &streams, ModeName::Io).line(3);
        assert!(say(&mut rig).starts_with("no packet for 3 s: nothing arrives"));
        assert_eq!(cause(&mut rig, &streams, ModeName::Txonly), Cause::NothingTaken);
        streams[0].shown.ended.set(1);
        assert!(say(&mut rig).contains("the input of port 0 has ended"));
        streams[0].shown.stopped.set(1);
        assert!(say(&mut rig).contains("is stopped"));
        let mut bursts: Vec<Burst> = (0..4).map(|_| Burst::new()).collect();
        bursts.iter_mut().for_each(|b| assert!(rig.pools[0].alloc_bulk(b, 500)));
        assert!(say(&mut rig).contains("all 2000 buffers are held"), "{}", say(&mut rig));
        assert!(rig.stop().is_empty());
        assert!(say(&mut rig).contains("the link of port 0 (null) is down"));
        drop(bursts);
        assert!(rig.close().is_empty());
    }
}
