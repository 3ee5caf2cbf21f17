//! Queues as their owner holds them: taken out of a port, polled, brought home by dropping them.

use crate::{PortError, PortId, QueueId, RxDriver, RxProgram, TxDriver};
use core::fmt;
use linerate_mbuf::{Burst, Mbuf, SharedMbuf};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{
        AtomicU8,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// What a queue is to do. Read at each poll; changed by the port.
#[derive(Debug)]
pub(crate) struct QueueGate(AtomicU8);

const STOPPED: u8 = 0;
const RUNNING: u8 = 1;
const STOP: u8 = 2;
const START: u8 = 3;

impl QueueGate {
    pub(crate) fn new() -> Self {
        QueueGate(AtomicU8::new(STOPPED))
    }

    #[inline(always)]
    fn is_running(&self) -> bool {
        self.0.load(Relaxed) == RUNNING
    }

    /// Whether it runs or will at its next poll.
    pub(crate) fn is_on(&self) -> bool {
        matches!(self.0.load(Acquire), RUNNING | START)
    }

    /// Asks the owner of a queue that is out to start or stop it at its next poll.
    pub(crate) fn request(&self, run: bool) {
        self.0.store(if run { START } else { STOP }, Release);
    }

    pub(crate) fn set(&self, running: bool) {
        self.0.store(if running { RUNNING } else { STOPPED }, Release);
    }

    /// Ends a request, unless another one came meanwhile.
    fn finish(&self, request: u8, running: bool) {
        let to = if running { RUNNING } else { STOPPED };
        // A newer request stays and is seen at the next poll.
        let _ = self.0.compare_exchange(request, to, Release, Relaxed);
    }
}

/// The place in the port to which a queue returns.
pub(crate) type Home<D> = Arc<Mutex<Option<Box<D>>>>;

pub(crate) fn at_home<D: ?Sized>(home: &Home<D>) -> std::sync::MutexGuard<'_, Option<Box<D>>> {
    home.lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $driver:ident) => {
        $(#[$doc])*
        pub struct $name {
            // Always there until drop; `Option` only so that drop can move it out.
            driver: Option<Box<dyn $driver>>,
            gate: Arc<QueueGate>,
            home: Home<dyn $driver>,
            port: PortId,
            queue: QueueId,
            driver_name: &'static str,
        }

        impl $name {
            pub(crate) fn new(
                driver: Box<dyn $driver>,
                gate: Arc<QueueGate>,
                home: Home<dyn $driver>,
                (port, queue): (PortId, QueueId),
                driver_name: &'static str,
            ) -> Self {
                $name { driver: Some(driver), gate, home, port, queue, driver_name }
            }

            /// The port it belongs to.
            #[inline]
            pub fn port(&self) -> PortId {
                self.port
            }

            /// Its number.
            #[inline]
            pub fn queue(&self) -> QueueId {
                self.queue
            }

            /// Name of its driver.
            pub fn driver_name(&self) -> &'static str {
                self.driver_name
            }

            /// Whether it runs; the port can stop a single queue.
            #[inline]
            pub fn is_running(&self) -> bool {
                self.gate.is_running()
            }

            #[inline(always)]
            fn driver(&mut self) -> &mut dyn $driver {
                // SAFETY: `driver` is `Some` from `new` until `drop`, which ends the last borrow.
                unsafe { self.driver.as_deref_mut().unwrap_unchecked() }
            }

            /// Carries out a request of the port; whether the queue runs now.
            #[cold]
            #[inline(never)]
            fn attend(&mut self) -> bool {
                match self.gate.0.load(Acquire) {
                    STOP => {
                        self.driver().stop();
                        self.gate.finish(STOP, false);
                        false
                    }
                    START => {
                        let ok = self.driver().start().is_ok();
                        self.gate.finish(START, ok);
                        ok
                    }
                    state => state == RUNNING,
                }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.attend();
                *at_home(&self.home) = self.driver.take();
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("port", &self.port).field("queue", &self.queue).finish()
            }
        }
    };
}

handle! {
    /// A receive queue. Dropping it brings it home to its port.
    RxQueue, RxDriver
}
handle! {
    /// A transmit queue. Dropping it brings it home to its port.
    TxQueue, TxDriver
}

impl RxQueue {
    /// Appends up to `max` received packets to `burst` and returns how many; 0 while the queue is stopped.
    #[inline(always)]
    pub fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        if !self.gate.is_running() && !self.attend() {
            return 0;
        }
        self.driver().rx_burst(burst, max)
    }

    /// Puts a program into the receive path, or takes it out.
    ///
    /// # Errors
    ///
    /// The port has no place for one.
    pub fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), PortError> {
        let (port, driver, what) = (self.port, self.driver_name, "place for a program".to_string());
        self.driver().set_program(program).map_err(|_| PortError::Unsupported { port, driver, what })
    }

    /// Packets waiting, if the driver can tell without receiving them.
    pub fn pending(&mut self) -> Option<usize> {
        self.driver().pending()
    }

    /// Whether a finite input has ended and everything of it was delivered.
    pub fn is_exhausted(&mut self) -> bool {
        self.driver().is_exhausted()
    }
}

impl TxQueue {
    /// Sends packets from the front of `burst` and returns how many were taken; the others stay in it. Takes
    /// none while the queue is stopped.
    #[inline(always)]
    pub fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        if !self.gate.is_running() && !self.attend() {
            return 0;
        }
        self.driver().tx_burst(burst)
    }

    /// As [`tx_burst`](Self::tx_burst), for shared packets.
    #[inline(always)]
    pub fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        if !self.gate.is_running() && !self.attend() {
            return 0;
        }
        self.driver().tx_burst_shared(burst)
    }

    /// Makes what was accepted so far visible to the device, if a doorbell was put off.
    #[inline(always)]
    pub fn flush(&mut self) {
        self.driver().flush();
    }

    /// Whether [`end_of_poll`](Self::end_of_poll) does anything: a loop may ask once and leave the calls out.
    pub fn has_end_of_poll(&mut self) -> bool {
        self.driver().has_end_of_poll()
    }

    /// To be called at the end of every turn of a polling loop, also when nothing was sent.
    #[inline(always)]
    pub fn end_of_poll(&mut self) {
        if self.gate.is_running() || self.attend() {
            self.driver().end_of_poll();
        }
    }

    /// Frees what has been sent; how many packets are still on their way.
    pub fn reclaim(&mut self) -> usize {
        self.driver().reclaim()
    }
}
