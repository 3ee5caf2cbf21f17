//! The mode mac: both MAC addresses are those of the way out.

use super::{Requests, StreamContext, gather::gathered};
use crate::testpmd::engine::Mode;
use linerate_mbuf::Burst;
use linerate_net::swap::MacPair;

/// Writes the peer's address as destination and the transmit port's as source.
#[derive(Debug)]
pub(in crate::testpmd) struct Mac(MacPair);

impl Mac {
    pub fn new(stream: &StreamContext) -> Self {
        Mac(MacPair::new(stream.peer, stream.own))
    }
}

impl Mode for Mac {
    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, _max: usize) {
        for m in burst.as_mut_slice() {
            if m.segment_count() == 1 {
                self.0.write(m.data_mut());
            } else {
                gathered(m, |front| self.0.write(front));
            }
            Requests::NONE.apply(m);
        }
    }
}
