//! One frame at the start, to see whether it leaves: a zero-copy driver that never sends, or only when the process
//! ends, is found out before traffic depends on it.

use super::{
    XskError,
    mapped::Descriptor,
    socket::{Bound, Names},
};
use linerate_port::MacAddress;
use rustix::net::SendFlags;
use std::{
    thread,
    time::{Duration, Instant},
};

/// How long the frame may take.
const WAIT: Duration = Duration::from_millis(100);

/// A frame of the shortest length from the port to itself, of the type that is free for local experiments.
fn frame(mac: MacAddress) -> [u8; 60] {
    let mut f = [0; 60];
    f[..6].copy_from_slice(&mac.0);
    f[6..12].copy_from_slice(&mac.0);
    f[12..14].copy_from_slice(&0x88b5u16.to_be_bytes());
    f
}

/// Sends it and waits until it is completed.
///
/// # Errors
///
/// It was not, in time.
pub(super) fn run(
    bound: &mut Bound,
    mac: MacAddress,
    queue: u32,
    name: &dyn Fn() -> Names,
) -> Result<(), XskError> {
    let Some(side) = &mut bound.tx else { return Ok(()) };
    let Some(&number) = side.free.last() else { return Ok(()) };
    let at = side.umem.geometry().frame(number);
    side.umem.write(at, 0, &frame(mac));
    side.tx.push(Descriptor { address: at.base(), len: 60, options: 0 });
    side.tx.publish();
    let start = Instant::now();
    while side.completion.available(1) == 0 {
        if start.elapsed() > WAIT {
            return Err(XskError::DeadTransmit {
                name: name().name,
                queue,
                waited_ms: WAIT.as_millis() as u32,
            });
        }
        // Its outcome is what the completion ring shows.
        let _ = rustix::net::send(&side.socket, &[], SendFlags::DONTWAIT);
        thread::sleep(Duration::from_micros(100));
    }
    side.completion.release(1);
    Ok(())
}
