//! A receive queue that the device does not have: everything comes into its inbox.

use crate::{PortError, RxDriver};
use linerate_mbuf::Burst;

/// Stands in the place of a driver's queue.
#[derive(Debug)]
pub(crate) struct NoDevice;

impl RxDriver for NoDevice {
    fn start(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn stop(&mut self) {}

    fn rx_burst(&mut self, _burst: &mut Burst, _max: usize) -> usize {
        0
    }

    fn pending(&self) -> Option<usize> {
        Some(0)
    }

    fn is_exhausted(&self) -> bool {
        true
    }
}
