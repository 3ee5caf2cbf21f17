//! What happens to an interface, as the events of the port that is made of it.

use super::{LinkEvent, LinkInfo, LinkWatch, NetIf, NetIfError};
use linerate_port::{EventSink, LinkCause};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// An interface and the events of its port: link up and down, removal, and the MTU as it is now.
#[derive(Debug)]
pub struct PortLink {
    interface: NetIf,
    watch: LinkWatch,
    events: EventSink,
    /// The MTU as last heard of. Relaxed: a number that stands for itself.
    mtu: Arc<AtomicU32>,
    started: bool,
}

impl PortLink {
    /// Hears of changes from now on, and tells the port once it is started.
    ///
    /// # Errors
    ///
    /// The interface is gone, or cannot be listened to.
    pub fn new(interface: NetIf, events: EventSink) -> Result<Self, NetIfError> {
        let watch = LinkWatch::new(&interface)?;
        let mtu = Arc::new(AtomicU32::new(interface.info()?.mtu));
        Ok(PortLink { interface, watch, events, mtu, started: false })
    }

    /// The interface.
    pub fn interface(&self) -> &NetIf {
        &self.interface
    }

    /// Its MTU as last heard of.
    pub fn mtu(&self) -> &Arc<AtomicU32> {
        &self.mtu
    }

    /// Reports the link from now on.
    ///
    /// # Errors
    ///
    /// The interface is gone.
    pub fn start(&mut self) -> Result<(), NetIfError> {
        // What happened meanwhile is in the present state.
        self.poll();
        let info = self.interface.info()?;
        self.started = true;
        self.report(&info, LinkCause::Started);
        Ok(())
    }

    /// Reports the link down, and nothing more of it until the next start.
    pub fn stop(&mut self) {
        self.started = false;
        self.events.link(false, None, LinkCause::Stopped);
    }

    fn report(&self, info: &LinkInfo, cause: LinkCause) {
        self.mtu.store(info.mtu, Relaxed);
        if !self.started {
            return;
        }
        let now = self.events.link_now();
        // Whether it is wanted up is told only together with an administrator's change.
        let cause = if !info.up || (info.is_running() && !now.admin_up) { LinkCause::Admin } else { cause };
        let speed = if info.is_running() { self.interface.speed_mbps() } else { None };
        self.events.link(info.is_running(), speed, cause);
    }

    /// Tells the port everything that happened since the last call. Never waits.
    pub fn poll(&mut self) {
        let mut heard = Vec::new();
        self.watch.poll(&self.interface, |e| heard.push(e));
        for e in heard {
            match e {
                LinkEvent::Changed(info) => self.report(&info, LinkCause::Carrier),
                LinkEvent::Removed => {
                    if self.started {
                        self.events.link(false, None, LinkCause::Fault);
                    }
                    self.events.removed();
                }
            }
        }
    }
}
