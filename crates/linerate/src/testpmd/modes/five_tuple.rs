//! The mode 5tswap: a packet is turned round, addresses and ports of all layers.

use super::{Requests, gather::gathered};
use crate::testpmd::engine::Mode;
use linerate_mbuf::Burst;
use linerate_net::swap::five_tuple_swap;

/// Swaps MACs, IP addresses and TCP/UDP ports; no checksum changes by that.
#[derive(Debug)]
pub(in crate::testpmd) struct FiveTupleSwap;

impl Mode for FiveTupleSwap {
    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, _max: usize) {
        for m in burst.as_mut_slice() {
            if m.segment_count() == 1 {
                five_tuple_swap(m.data_mut());
            } else {
                gathered(m, five_tuple_swap);
            }
            Requests::NONE.apply(m);
        }
    }
}
