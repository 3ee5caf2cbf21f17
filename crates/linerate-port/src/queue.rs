//! Queues as their owner holds them: taken out of a port, polled, brought home by dropping them.

use crate::{EventSink, PortError, PortId, QueueId, RxDriver, RxProgram, TxDriver};
use core::fmt;
use linerate_mbuf::{Burst, Mbuf, SharedMbuf};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
};

/// What a queue is to do, and what it does. Read at each poll; changed by the port.
///
/// All accesses are relaxed: no data is published by it. Whoever starts, stops or polls a driver has it, and it
/// moves between port and owner through the lock of its [`Home`].
#[derive(Debug)]
pub(crate) struct QueueGate {
    want: AtomicU8,
    /// The driver was started and not stopped since. Touched only by whoever has the driver.
    runs: AtomicBool,
    events: EventSink,
    kind: &'static str,
    queue: QueueId,
}

const STOPPED: u8 = 0;
const RUNNING: u8 = 1;
/// A wish of the port's that the queue's owner has not seen yet.
const STOP: u8 = 2;
const START: u8 = 3;

/// What both kinds of driver can do.
pub(crate) trait Switch {
    fn start(&mut self) -> Result<(), PortError>;
    fn stop(&mut self);
}

impl Switch for dyn RxDriver + '_ {
    fn start(&mut self) -> Result<(), PortError> {
        RxDriver::start(self)
    }
    fn stop(&mut self) {
        RxDriver::stop(self);
    }
}

impl Switch for dyn TxDriver + '_ {
    fn start(&mut self) -> Result<(), PortError> {
        TxDriver::start(self)
    }
    fn stop(&mut self) {
        TxDriver::stop(self);
    }
}

impl QueueGate {
    pub(crate) fn new(events: EventSink, kind: &'static str, queue: QueueId) -> Self {
        QueueGate { want: AtomicU8::new(STOPPED), runs: AtomicBool::new(false), events, kind, queue }
    }

    #[inline(always)]
    fn is_running(&self) -> bool {
        self.want.load(Relaxed) == RUNNING
    }

    /// Asks the owner of a queue that is out. The caller holds the lock of the queue's home.
    pub(crate) fn request(&self, run: bool) {
        if matches!(self.want.load(Relaxed), RUNNING | START) != run {
            self.want.store(if run { START } else { STOP }, Relaxed);
        }
    }

    /// Starts or stops a driver that the caller has; nothing if it is so already.
    fn turn<D: Switch + ?Sized>(&self, driver: &mut D, run: bool) -> Result<(), PortError> {
        if self.runs.load(Relaxed) == run {
            return Ok(());
        }
        if run {
            driver.start()?;
        } else {
            driver.stop();
        }
        self.runs.store(run, Relaxed);
        Ok(())
    }

    /// Starts or stops a queue that is home.
    pub(crate) fn switch<D: Switch + ?Sized>(&self, driver: &mut D, run: bool) -> Result<(), PortError> {
        let done = self.turn(driver, run);
        let runs = self.runs.load(Relaxed);
        self.want.store(if runs { RUNNING } else { STOPPED }, Relaxed);
        done
    }

    /// Carries out what the port asked for; whether the queue runs now. A start that fails is an event.
    fn attend<D: Switch + ?Sized>(&self, driver: &mut D) -> bool {
        loop {
            let want = self.want.load(Relaxed);
            if let Err(e) = self.turn(driver, matches!(want, START | RUNNING)) {
                self.events.queue_error(self.kind, self.queue, format!("{e}; {}", e.hint()));
            }
            let runs = self.runs.load(Relaxed);
            // A newer wish that came meanwhile is carried out as well.
            let now = if runs { RUNNING } else { STOPPED };
            if self.want.compare_exchange(want, now, Relaxed, Relaxed).is_ok() {
                return runs;
            }
        }
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

            /// Carries out what the port asked for; whether the queue runs now.
            #[cold]
            #[inline(never)]
            fn attend(&mut self) -> bool {
                let gate = self.gate.clone();
                gate.attend(self.driver())
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // Under the lock, so that a wish comes either before this or to a queue that is home.
                let home = self.home.clone();
                let mut home = at_home(&home);
                self.attend();
                *home = self.driver.take();
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
        if self.gate.is_running() || self.attend() {
            self.driver().flush();
        }
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
