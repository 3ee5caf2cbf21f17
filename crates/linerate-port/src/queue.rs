//! Queues as their owner holds them: taken out of a port, polled, brought home by dropping them.

use crate::{EventSink, PortError, PortId, QueueId, RxDriver, RxProgram, TxDriver, classify::RxStage};
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
    /// One of the states below, and [`STAGED`]: one load tells an owner that there is nothing but to poll.
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
/// The bits of the state.
const STATE: u8 = 3;
/// A bit of its own: what is received goes through the stage. Changed by the port alone.
const STAGED: u8 = 4;

/// What both kinds of queue can do.
pub(crate) trait Switch {
    fn start(&mut self) -> Result<(), PortError>;
    fn stop(&mut self);
}

/// A receive queue's driver, and what software does behind it while the port is started.
pub(crate) struct RxParts {
    pub(crate) driver: Box<dyn RxDriver>,
    pub(crate) stage: Option<Box<RxStage>>,
}

impl Switch for RxParts {
    fn start(&mut self) -> Result<(), PortError> {
        if let Some(stage) = &mut self.stage {
            stage.begin();
        }
        self.driver.start()
    }
    fn stop(&mut self) {
        self.driver.stop();
        if let Some(stage) = &mut self.stage {
            stage.discard();
        }
    }
}

impl Switch for Box<dyn TxDriver> {
    fn start(&mut self) -> Result<(), PortError> {
        TxDriver::start(&mut **self)
    }
    fn stop(&mut self) {
        TxDriver::stop(&mut **self);
    }
}

impl QueueGate {
    pub(crate) fn new(events: EventSink, kind: &'static str, queue: QueueId) -> Self {
        QueueGate { want: AtomicU8::new(STOPPED), runs: AtomicBool::new(false), events, kind, queue }
    }

    /// Whether it runs and has no stage.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.want.load(Relaxed) == RUNNING
    }

    fn is_running(&self) -> bool {
        self.want.load(Relaxed) & STATE == RUNNING
    }

    fn is_staged(&self) -> bool {
        self.want.load(Relaxed) & STAGED != 0
    }

    /// Puts the stage into the receive path from the owner's next poll on, or takes it out.
    pub(crate) fn set_staged(&self, staged: bool) {
        if staged {
            self.want.fetch_or(STAGED, Relaxed);
        } else {
            self.want.fetch_and(!STAGED, Relaxed);
        }
    }

    /// Asks the owner of a queue that is out. The caller holds the lock of the queue's home.
    pub(crate) fn request(&self, run: bool) {
        let wish = if run { START } else { STOP };
        // Refused where there is nothing to ask for.
        let _ = self.want.fetch_update(Relaxed, Relaxed, |w| {
            (matches!(w & STATE, RUNNING | START) != run).then_some(w & STAGED | wish)
        });
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

    fn state(&self) -> u8 {
        if self.runs.load(Relaxed) { RUNNING } else { STOPPED }
    }

    /// Starts or stops a queue that is home.
    pub(crate) fn switch<D: Switch + ?Sized>(&self, driver: &mut D, run: bool) -> Result<(), PortError> {
        let done = self.turn(driver, run);
        self.want.store(self.want.load(Relaxed) & STAGED | self.state(), Relaxed);
        done
    }

    /// Carries out what the port asked for; whether the queue runs now. A start that fails is an event.
    fn attend<D: Switch + ?Sized>(&self, driver: &mut D) -> bool {
        loop {
            let want = self.want.load(Relaxed);
            if let Err(e) = self.turn(driver, matches!(want & STATE, START | RUNNING)) {
                self.events.queue_error(self.kind, self.queue, format!("{e}; {}", e.hint()));
            }
            // A newer wish that came meanwhile is carried out as well.
            let now = want & STAGED | self.state();
            if self.want.compare_exchange(want, now, Relaxed, Relaxed).is_ok() {
                return now & STATE == RUNNING;
            }
        }
    }
}

/// The place in the port to which a queue returns.
pub(crate) type Home<K> = Arc<Mutex<Option<K>>>;

pub(crate) fn at_home<K>(home: &Home<K>) -> std::sync::MutexGuard<'_, Option<K>> {
    home.lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $kept:ty) => {
        $(#[$doc])*
        pub struct $name {
            // Always there until drop; `Option` only so that drop can move it out.
            kept: Option<$kept>,
            gate: Arc<QueueGate>,
            home: Home<$kept>,
            port: PortId,
            queue: QueueId,
            driver_name: &'static str,
        }

        impl $name {
            pub(crate) fn new(
                kept: $kept,
                gate: Arc<QueueGate>,
                home: Home<$kept>,
                (port, queue): (PortId, QueueId),
                driver_name: &'static str,
            ) -> Self {
                $name { kept: Some(kept), gate, home, port, queue, driver_name }
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
            fn kept(&mut self) -> &mut $kept {
                // SAFETY: `kept` is `Some` from `new` until `drop`, which ends the last borrow.
                unsafe { self.kept.as_mut().unwrap_unchecked() }
            }

            /// Carries out what the port asked for; whether the queue runs now.
            #[cold]
            #[inline(never)]
            fn attend(&mut self) -> bool {
                let gate = self.gate.clone();
                gate.attend(self.kept())
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // Under the lock, so that a wish comes either before this or to a queue that is home.
                let home = self.home.clone();
                let mut home = at_home(&home);
                self.attend();
                *home = self.kept.take();
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
    RxQueue, RxParts
}
handle! {
    /// A transmit queue. Dropping it brings it home to its port.
    TxQueue, Box<dyn TxDriver>
}

impl RxQueue {
    /// Appends up to `max` received packets to `burst` and returns how many; 0 while the queue is stopped.
    #[inline(always)]
    pub fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        if !self.gate.is_plain() {
            return self.rx_otherwise(burst, max);
        }
        self.kept().driver.rx_burst(burst, max)
    }

    /// Where the port wants something else than a mere poll.
    #[inline(never)]
    fn rx_otherwise(&mut self, burst: &mut Burst, max: usize) -> usize {
        if !self.gate.is_running() && !self.attend() {
            return 0;
        }
        let staged = self.gate.is_staged();
        let RxParts { driver, stage } = self.kept();
        match stage {
            Some(stage) if staged => stage.rx_burst(&mut **driver, burst, max),
            _ => driver.rx_burst(burst, max),
        }
    }

    /// Whether software decides between the device and this queue, so that packets may come from other device
    /// queues too: their arrival does not wake who sleeps on the device.
    #[inline]
    pub fn is_staged(&self) -> bool {
        self.gate.is_staged()
    }

    /// Puts a program into the receive path, or takes it out.
    ///
    /// # Errors
    ///
    /// The port has no place for one.
    pub fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), PortError> {
        let (port, driver, what) = (self.port, self.driver_name, "place for a program".to_string());
        self.kept().driver.set_program(program).map_err(|_| PortError::Unsupported { port, driver, what })
    }

    /// Packets waiting, if the driver can tell without receiving them.
    pub fn pending(&mut self) -> Option<usize> {
        self.kept().pending()
    }

    /// Whether a finite input has ended and everything of it was delivered. With a stage in the path that is the input
    /// of all queues of the port.
    pub fn is_exhausted(&mut self) -> bool {
        let staged = self.gate.is_staged();
        let RxParts { driver, stage } = self.kept();
        match stage {
            Some(stage) if staged => stage.is_exhausted(&**driver),
            _ => driver.is_exhausted(),
        }
    }
}

impl RxParts {
    /// Packets waiting at the driver, if it can tell, and in the inbox.
    pub(crate) fn pending(&self) -> Option<usize> {
        let inbox = self.stage.as_ref().map_or(0, |s| s.waiting());
        self.driver.pending().map(|n| n + inbox)
    }
}

impl TxQueue {
    /// Sends packets from the front of `burst` and returns how many were taken; the others stay in it. Takes
    /// none while the queue is stopped.
    #[inline(always)]
    pub fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        if !self.gate.is_plain() && !self.attend() {
            return 0;
        }
        self.kept().tx_burst(burst)
    }

    /// As [`tx_burst`](Self::tx_burst), for shared packets.
    #[inline(always)]
    pub fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        if !self.gate.is_plain() && !self.attend() {
            return 0;
        }
        self.kept().tx_burst_shared(burst)
    }

    /// Makes what was accepted so far visible to the device, if a doorbell was put off.
    #[inline(always)]
    pub fn flush(&mut self) {
        if self.gate.is_plain() || self.attend() {
            self.kept().flush();
        }
    }

    /// Whether [`end_of_poll`](Self::end_of_poll) does anything: a loop may ask once and leave the calls out.
    pub fn has_end_of_poll(&mut self) -> bool {
        self.kept().has_end_of_poll()
    }

    /// To be called at the end of every turn of a polling loop, also when nothing was sent.
    #[inline(always)]
    pub fn end_of_poll(&mut self) {
        if self.gate.is_plain() || self.attend() {
            self.kept().end_of_poll();
        }
    }

    /// Frees what has been sent; how many packets are still on their way.
    pub fn reclaim(&mut self) -> usize {
        self.kept().reclaim()
    }
}
