//! The mode rxonly: packets end here.

use crate::testpmd::engine::Mode;
use linerate_mbuf::Burst;

/// Frees what comes.
#[derive(Debug)]
pub(in crate::testpmd) struct RxOnly;

impl Mode for RxOnly {
    const SENDS: bool = false;

    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, _max: usize) {
        burst.free_all();
    }
}
