//! The mode io: packets go on as they came.

use crate::testpmd::engine::Mode;
use linerate_mbuf::Burst;

/// Touches nothing.
#[derive(Debug)]
pub(in crate::testpmd) struct Io;

impl Mode for Io {
    #[inline(always)]
    fn work(&mut self, _burst: &mut Burst, _max: usize) {}
}
