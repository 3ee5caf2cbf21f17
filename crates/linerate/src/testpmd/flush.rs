//! Throwing away what came before the start.

use linerate_mbuf::{BURST_MAX, Burst};
use linerate_port::RxQueue;
use std::{
    thread,
    time::{Duration, Instant},
};

/// Most packets that lay in a queue before the start: as many as it can have descriptors.
const FLUSH_MAX: usize = 32768;
/// Between the two looks.
const FLUSH_PAUSE: Duration = Duration::from_millis(10);

/// Throws away what lies in the receive queues, looking twice. An input without end is left after as many packets
/// as a queue can hold, and at the latest after a second.
pub(super) fn flush(queues: &mut [&mut RxQueue]) {
    let mut burst = Burst::new();
    for pass in 0..2 {
        for queue in queues.iter_mut() {
            let end = Instant::now() + Duration::from_secs(1);
            let mut left = FLUSH_MAX;
            loop {
                let got = queue.rx_burst(&mut burst, BURST_MAX);
                burst.free_all();
                left = left.saturating_sub(got);
                if got == 0 || left == 0 || Instant::now() >= end {
                    break;
                }
            }
        }
        if pass == 0 {
            thread::sleep(FLUSH_PAUSE);
        }
    }
}
