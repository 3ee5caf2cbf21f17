//! One stream's source of numbered frames.

use super::FrameMaker;
use linerate_drivers::ring::FarSender;
use linerate_mbuf::{Burst, Mempool, PORT_NONE, PacketType, RxTemplate};

/// Frames sent at once.
const BURST: u64 = 32;
/// Most frames of a stream on their way: fewer than a ring holds.
pub(in crate::testpmd) const WINDOW: u64 = 512;
/// Turns after which the window has grown by a burst: the beginning is a ramp and no jump.
const RAMP: u64 = 64;

/// Sends frames 0, 1, 2, … into the far end of a port.
#[derive(Debug)]
pub(in crate::testpmd) struct Source {
    to_port: FarSender,
    maker: FrameMaker,
    pool: Mempool,
    template: RxTemplate,
    burst: Burst,
    /// The next frame's number: as many were sent.
    next: u64,
    offered: u64,
    /// Frames below this one are not waited for any more.
    given_up: u64,
    turns: u64,
}

impl Source {
    pub fn new(to_port: FarSender, maker: FrameMaker, pool: &Mempool) -> Self {
        let template = RxTemplate::new(pool, PORT_NONE).with_packet(PacketType::UNKNOWN, maker.len() as u16);
        Source {
            to_port,
            maker,
            pool: pool.clone(),
            template,
            burst: Burst::new(),
            next: 0,
            offered: 0,
            given_up: 0,
            turns: 0,
        }
    }

    /// Sends a burst if the window allows: `back` frames are not on their way any more; `None` = nothing comes
    /// back, and the far end's room is the limit.
    pub fn turn(&mut self, back: Option<u64>) {
        self.turns += 1;
        let window = WINDOW.min(BURST * (1 + self.turns / RAMP));
        let on_its_way = back.map_or(0, |back| self.next.saturating_sub(back.max(self.given_up)));
        let n = BURST.min(window.saturating_sub(on_its_way));
        if n == 0 || !self.pool.alloc_rx(&self.template, &mut self.burst, n as usize) {
            return;
        }
        for (m, sequence) in self.burst.as_mut_slice().iter_mut().zip(self.next..) {
            self.maker.write(m.data_mut(), sequence);
        }
        self.offered += n;
        // What was not taken is offered again with the same numbers.
        self.next += self.to_port.send(&mut self.burst) as u64;
        self.burst.free_all();
    }

    /// Waits no longer for what was sent so far.
    pub fn give_up(&mut self) {
        self.given_up = self.next;
    }

    /// The number of the next frame: as many as this were sent.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Frames that it wanted to send.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// Frames that the port has not taken yet.
    pub fn waiting(&self) -> u64 {
        self.to_port.waiting() as u64
    }
}
