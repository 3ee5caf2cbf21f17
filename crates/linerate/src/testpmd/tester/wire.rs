//! Connecting the tester: a source and a check at the far ends of each stream's ports.

use super::{Check, FrameMaker, Lane, Source, Tester, Way};
use crate::testpmd::{
    error::TestpmdError,
    modes::{ModeName, StreamContext, txonly::TxOnly},
    plan::Plan,
    rig::{Rig, built_in_name},
    streams::StreamPlan,
};
use linerate_mbuf::Mempool;
use linerate_mem::Clock;
use linerate_net::MacAddr;

/// The tester for these streams, of each its modes' context; frames come from `pool`.
///
/// # Errors
///
/// A far end that is not there, or frames that cannot be made.
pub(in crate::testpmd) fn wire(
    plan: &Plan,
    rig: &Rig,
    streams: &[StreamPlan],
    contexts: &[StreamContext],
    (pool, clock): (&Mempool, &Clock),
) -> Result<Tester, TestpmdError> {
    let mode = plan.mode;
    let len = usize::from(plan.frame_size);
    let seed = clock.now_cycles();
    let far = |port: usize, queue: u16| {
        linerate_drivers::ring::far_end(&built_in_name(port), queue).map_err(|e| TestpmdError::Option {
            option: "--port",
            why: e.to_string(),
            hint: e.hint(),
        })
    };
    let mut ends = Vec::new();
    for &StreamPlan { rx, .. } in streams {
        let (sender, receiver) = far(rx.0, rx.1)?;
        ends.push((rx, Some(sender), Some(receiver)));
    }
    let mut lanes = Vec::new();
    for (number, (s, context)) in streams.iter().zip(contexts).enumerate() {
        let way = Way {
            stream: number as u16,
            tester: MacAddr::new([2, 0x54, 0, 0, 0, s.rx.0 as u8]),
            near: rig.ports[s.rx.0].mac,
            out: context.own,
            peer: context.peer,
        };
        let sender = ends.iter_mut().find(|e| e.0 == s.rx).and_then(|e| e.1.take());
        let receiver = ends.iter_mut().find(|e| e.0 == s.tx).and_then(|e| e.2.take());
        let source = sender.filter(|_| mode != ModeName::Txonly).map(|sender| {
            let maker = FrameMaker::sent(&way, mode, len, seed).map_err(TestpmdError::Frame)?;
            Ok::<_, TestpmdError>(Source::new(sender, maker, pool))
        });
        let check = receiver.filter(|_| mode.sends_back()).map(|receiver| {
            let check = if mode == ModeName::Txonly {
                Check::made(receiver, *TxOnly::new(context, &plan.txonly)?.headers())
            } else {
                let rewrite = plan.csum.mac_rewrite;
                let maker = FrameMaker::expected(&way, plan.rewrite(), rewrite, len, seed)
                    .map_err(TestpmdError::Frame)?;
                Check::numbered(receiver, maker)
            };
            Ok::<_, TestpmdError>(match plan.inject {
                Some(inject) => check.with_injector(inject, pool),
                None => check,
            })
        });
        lanes.push(Lane { source: source.transpose()?, check: check.transpose()? });
    }
    Ok(Tester::new(lanes, clock.scale()))
}
