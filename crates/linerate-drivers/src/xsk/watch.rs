//! A device that receives while none of it reaches the sockets: found out, and told with the first check that fails.

use super::{
    attach::Attachment,
    device::{Device, State},
    lane::Lane,
};
use linerate_port::{EventSink, QueueId};
use std::sync::Arc;

/// Packets that the device must have received for silence on the sockets to mean something.
const ENOUGH: u64 = 16;
/// How long that silence lasts before it is told.
const SILENCE_NS: u64 = 1_000_000_000;

/// Compares what the device receives with what the sockets do, from a start of the port on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// The device's packets, and a number that changes when the sockets get one, as last seen to move.
    device: u64,
    sockets: u64,
    since_ns: u64,
    told: bool,
}

impl Watch {
    /// The port is started.
    pub(super) fn new(device: &Device, sockets: u64, now_ns: u64) -> Self {
        let device = device.state().map_or(0, |s| s.rx_packets);
        Watch { device, sockets, since_ns: now_ns, told: false }
    }

    /// Looks; a mismatch is told once. Asks the kernel once a second at most.
    pub(super) fn look(
        &mut self,
        device: &Device,
        attachment: &Attachment,
        lanes: &[Arc<Lane>],
        first_queue: u32,
        (sockets, now_ns): (u64, u64),
        events: &EventSink,
    ) {
        let waited = now_ns.saturating_sub(self.since_ns) > SILENCE_NS;
        if self.told || !waited {
            return;
        }
        let Ok(state) = device.state() else { return };
        let came = state.rx_packets.saturating_sub(self.device);
        if sockets == self.sockets && came >= ENOUGH {
            let why = first_failing(device, &state, attachment, lanes, first_queue);
            let what = format!("{}: {came} packets came in and none reached this port: {why}", state.name);
            events.queue_error("rx", QueueId(0), what);
            self.told = true;
        }
        (self.device, self.sockets, self.since_ns) = (state.rx_packets, sockets, now_ns);
    }
}

fn first_failing(
    device: &Device,
    state: &State,
    attachment: &Attachment,
    lanes: &[Arc<Lane>],
    first_queue: u32,
) -> String {
    if state.program != Some(attachment.program) {
        let now = state.program.map_or("none".into(), |p| format!("number {p}"));
        return format!("the program attached is {now}, ours is number {}", attachment.program);
    }
    if let Some(q) = lanes.iter().position(|l| l.socket().is_none()) {
        return format!("queue {q} has no socket");
    }
    let (have, _) = device.queues();
    let end = first_queue + lanes.len() as u32;
    if first_queue > 0 || end < have {
        return format!(
            "they may be on other queues: it takes {first_queue} to {} of {have}; ethtool -X {} start {first_queue} equal {}",
            end.saturating_sub(1),
            state.name,
            lanes.len()
        );
    }
    "the driver does not redirect them; write mode=generic".into()
}
