//! What a driver implements.
//!
//! The port model calls a [`PortDriver`] only in the order of [`PortState`](crate::PortState)'s table, with
//! numbers already checked against its [`PortInfo`], so a driver checks only what the model cannot know.

use crate::{
    EventSink, FlowId, FlowRule, MacAddress, PortConfig, PortError, PortId, PortInfo, ProgramCounters,
    QueueId, RssConfig, RxProgram, RxQueueConfig, TxQueueConfig, Xstat,
    flow::FlowHits,
    stats::{SharedRx, SharedTx},
};
use linerate_mbuf::{Burst, Mbuf, SharedMbuf};
use linerate_mem::Clock;
use std::sync::Arc;

/// What a driver gets when its port is opened.
#[derive(Clone, Debug)]
pub struct DriverContext {
    /// Number of the port.
    pub port: PortId,
    /// The clock: real, or stepped by a test.
    pub clock: Clock,
    /// Where to report link changes, resets, removal.
    pub events: EventSink,
}

/// What a receive queue gets when it is set up.
#[derive(Clone, Debug)]
pub struct RxContext {
    /// Number of the port.
    pub port: PortId,
    /// Number of the queue.
    pub queue: QueueId,
    /// The port's configuration.
    pub config: PortConfig,
    /// The queue's configuration, with descriptors already rounded and in range.
    pub rx: RxQueueConfig,
    /// Counters to write.
    pub counters: SharedRx,
    /// Counters of a program's verdicts.
    pub program: Arc<ProgramCounters>,
    /// The clock.
    pub clock: Clock,
}

/// What a transmit queue gets when it is set up.
#[derive(Clone, Debug)]
pub struct TxContext {
    /// Number of the port.
    pub port: PortId,
    /// Number of the queue.
    pub queue: QueueId,
    /// The port's configuration.
    pub config: PortConfig,
    /// The queue's configuration, with descriptors already rounded and in range.
    pub tx: TxQueueConfig,
    /// Counters to write.
    pub counters: SharedTx,
    /// The clock.
    pub clock: Clock,
}

/// A port's control side.
///
/// The methods with a default are those of capabilities that a driver may lack; the port model does not call
/// them without the capability.
pub trait PortDriver: Send {
    /// What the port is and can do. Cheap; may change only when the port is not configured.
    fn info(&self) -> PortInfo;

    /// Takes a configuration.
    ///
    /// # Errors
    ///
    /// What the port model cannot check; then the former one stands.
    fn configure(&mut self, config: &PortConfig) -> Result<(), PortError>;

    /// Makes a receive queue, stopped. A second call for the same queue replaces it.
    ///
    /// # Errors
    ///
    /// It cannot be made; nothing is held.
    fn rx_queue(&mut self, context: RxContext) -> Result<Box<dyn RxDriver>, PortError>;

    /// Makes a transmit queue, stopped. A second call for the same queue replaces it.
    ///
    /// # Errors
    ///
    /// It cannot be made; nothing is held.
    fn tx_queue(&mut self, context: TxContext) -> Result<Box<dyn TxDriver>, PortError>;

    /// Starts the port, before its queues. Reports the link.
    ///
    /// # Errors
    ///
    /// It stays stopped.
    fn start(&mut self) -> Result<(), PortError>;

    /// Stops the port, after its queues were stopped. Cannot fail: a device that does not answer is removed.
    fn stop(&mut self);

    /// Gives everything back; called once, also for a removed device.
    fn close(&mut self);

    /// Looks at the device and reports what happened through the event sink. Control path.
    fn poll_events(&mut self) {}

    /// Sets the MTU, which lies within the limits.
    ///
    /// # Errors
    ///
    /// The device refused; the former one stands.
    fn set_mtu(&mut self, _mtu: u32) -> Result<(), PortError> {
        Ok(())
    }

    /// Sets the link up or down (capability `LINK_CONTROL`).
    ///
    /// # Errors
    ///
    /// The device refused.
    fn set_link(&mut self, _up: bool) -> Result<(), PortError> {
        Ok(())
    }

    /// Sets promiscuous and all-multicast mode (capability `PROMISCUOUS`).
    ///
    /// # Errors
    ///
    /// The device refused.
    fn set_promiscuous(&mut self, _promiscuous: bool, _all_multicast: bool) -> Result<(), PortError> {
        Ok(())
    }

    /// Adds or removes a MAC address (capability `MAC_FILTER`).
    ///
    /// # Errors
    ///
    /// The device refused.
    fn set_mac(&mut self, _address: MacAddress, _add: bool) -> Result<(), PortError> {
        Ok(())
    }

    /// Adds or removes a VLAN (capability `VLAN_FILTER`).
    ///
    /// # Errors
    ///
    /// The device refused.
    fn set_vlan(&mut self, _vlan: u16, _add: bool) -> Result<(), PortError> {
        Ok(())
    }

    /// Sets key, types and table (capability `RSS`), already checked.
    ///
    /// # Errors
    ///
    /// The device refused.
    fn set_rss(&mut self, _rss: &RssConfig) -> Result<(), PortError> {
        Ok(())
    }

    /// Creates a rule (capability `FLOW`), already checked.
    ///
    /// # Errors
    ///
    /// The device refused.
    fn create_flow(&mut self, _id: FlowId, _rule: &FlowRule) -> Result<(), PortError> {
        Ok(())
    }

    /// Destroys a rule that exists (capability `FLOW`).
    ///
    /// # Errors
    ///
    /// The device refused.
    fn destroy_flow(&mut self, _id: FlowId) -> Result<(), PortError> {
        Ok(())
    }

    /// What a counting rule has seen (capability `FLOW`).
    fn flow_hits(&self, _id: FlowId) -> FlowHits {
        FlowHits::default()
    }

    /// Resets the device (capability `RESET`); the port is then as opened.
    ///
    /// # Errors
    ///
    /// The device refused.
    fn reset(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// The driver's own counters, in a fixed order, monotone.
    fn xstats(&self) -> Vec<Xstat> {
        Vec::new()
    }
}

/// A receive queue's data path. Owned by one thread at a time.
pub trait RxDriver: Send {
    /// Posts buffers and begins.
    ///
    /// # Errors
    ///
    /// It stays stopped and holds nothing.
    fn start(&mut self) -> Result<(), PortError>;

    /// Ends, and gives every buffer that it holds back to its pool.
    fn stop(&mut self);

    /// Appends up to `max` received packets to `burst`, and returns how many.
    ///
    /// Never more than fit; never fewer for want of a multiple of anything. Every call, also one that finds
    /// nothing, refills what lacks buffers. Called only while started.
    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize;

    /// Puts a program into the receive path, or takes it out (capability `RX_PROGRAM`); gives back a program
    /// that it cannot take.
    fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        program.map_or(Ok(()), Err)
    }

    /// Packets waiting, if the driver can tell without receiving them.
    fn pending(&self) -> Option<usize> {
        None
    }

    /// Whether a finite input has ended and everything of it was delivered.
    fn is_exhausted(&self) -> bool {
        false
    }
}

/// A transmit queue's data path. Owned by one thread at a time.
pub trait TxDriver: Send {
    /// Begins.
    ///
    /// # Errors
    ///
    /// It stays stopped and holds nothing.
    fn start(&mut self) -> Result<(), PortError>;

    /// Ends; sends or frees every packet that it holds.
    fn stop(&mut self);

    /// Takes packets from the front of `burst` and returns how many; the others stay in it, in order.
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize;

    /// The same for shared packets. A driver whose receiver would own what it sends copies them.
    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize;

    /// Makes what was accepted so far visible to the device, if a doorbell was put off.
    fn flush(&mut self) {}

    /// Whether [`end_of_poll`](Self::end_of_poll) does anything; asked once, when the queue is taken.
    fn has_end_of_poll(&self) -> bool {
        false
    }

    /// Told once at the end of every turn of a polling loop, also when nothing was sent: the place for put-off
    /// doorbells and for freeing what has been sent.
    fn end_of_poll(&mut self) {}

    /// Frees what has been sent; how many packets are still on their way.
    fn reclaim(&mut self) -> usize {
        0
    }
}
