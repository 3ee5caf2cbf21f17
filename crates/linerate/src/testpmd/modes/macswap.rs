//! The mode macswap: source and destination MAC address change places.

use super::{Requests, gather::gathered};
use crate::testpmd::engine::Mode;
use linerate_mbuf::Burst;
use linerate_net::swap::mac_swap;

/// Swaps the addresses of every packet.
#[derive(Debug)]
pub(in crate::testpmd) struct MacSwap;

impl Mode for MacSwap {
    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, _max: usize) {
        for m in burst.as_mut_slice() {
            if m.segment_count() == 1 {
                mac_swap(m.data_mut());
            } else {
                gathered(m, mac_swap);
            }
            Requests::NONE.apply(m);
        }
    }
}
