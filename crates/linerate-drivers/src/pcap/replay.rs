//! The receive queue that replays a capture from memory for ever.

use linerate_mbuf::{Burst, PacketType, RxTemplate};
use linerate_port::{PortError, ProgramCounters, RxContext, RxDriver, RxProgram, stats::SharedRx};
use std::sync::Arc;

use super::fill::{Buffers, copy};
use super::packets::Packets;
use super::screen::{SCREENED, Screen};

/// Packets of a file, over and over: one copy each into a fresh buffer, no call of the system.
#[derive(Debug)]
pub(super) struct ReplayRx {
    buffers: Buffers,
    counters: SharedRx,
    program: Arc<ProgramCounters>,
    screen: Option<Screen>,
    packets: Packets,
    /// The next packet.
    at: usize,
    /// For packets of one length that fit one buffer: a template that has the length in it.
    uniform: Option<(RxTemplate, u64)>,
}

impl ReplayRx {
    pub(super) fn new(context: RxContext, buffers: Buffers, packets: Packets) -> Self {
        let uniform = packets
            .uniform()
            .filter(|&len| usize::from(len) <= buffers.room && !buffers.stamp)
            .map(|len| (buffers.template.with_packet(PacketType::UNKNOWN, len), u64::from(len)));
        let (counters, program) = (context.counters, context.program);
        ReplayRx { buffers, counters, program, screen: None, packets, at: 0, uniform }
    }

    /// Copies packets into the buffers behind `start`; bytes and packets copied. Buffers that are left go back.
    fn fill_any(&mut self, burst: &mut Burst, start: usize) -> (u64, usize) {
        let (mut bytes, mut filled) = (0, 0);
        for m in burst.as_mut_slice().get_mut(start..).unwrap_or_default() {
            let packet = self.packets.packet(self.at);
            if !self.buffers.fill(m, packet.data, packet.time) {
                // Nothing is lost: the packet comes first next time.
                self.counters.nombuf.add(1);
                break;
            }
            bytes += packet.data.len() as u64;
            filled += 1;
            self.at = next(self.at, self.packets.len());
        }
        shorten(burst, start + filled);
        (bytes, filled)
    }

    /// Shows packets to the program, and copies those that pass.
    #[cold]
    #[inline(never)]
    fn fill_screened(&mut self, burst: &mut Burst, start: usize, shown: usize) -> (u64, usize) {
        let (mut bytes, mut filled, mut left) = (0, 0, shown);
        let Some(screen) = &mut self.screen else { return (0, 0) };
        while left > 0 {
            let (first, now) = (self.at, left.min(SCREENED));
            for _ in 0..now {
                screen.add(self.packets.data(self.at));
                self.at = next(self.at, self.packets.len());
            }
            screen.run(|n, data| {
                let time = self.packets.packet((first + n) % self.packets.len()).time;
                let slot = burst.as_mut_slice().get_mut(start + filled);
                if slot.is_some_and(|m| self.buffers.fill(m, data, time)) {
                    bytes += data.len() as u64;
                    filled += 1;
                } else {
                    self.counters.nombuf.add(1);
                }
            });
            left -= now;
        }
        shorten(burst, start + filled);
        (bytes, filled)
    }
}

/// The number after `at` in a circle of `len`.
#[inline(always)]
fn next(at: usize, len: usize) -> usize {
    if at + 1 >= len { 0 } else { at + 1 }
}

/// Frees what is behind the first `len` packets.
#[inline]
pub(super) fn shorten(burst: &mut Burst, len: usize) {
    while burst.len() > len {
        drop(burst.pop());
    }
}

impl RxDriver for ReplayRx {
    fn start(&mut self) -> Result<(), PortError> {
        self.at = 0;
        Ok(())
    }

    fn stop(&mut self) {}

    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        let (start, n) = (burst.len(), max.min(burst.room()));
        let template = match &self.uniform {
            Some((template, _)) if self.screen.is_none() => template,
            _ => &self.buffers.template,
        };
        let took = self.buffers.take(template, burst, n);
        if took < n {
            self.counters.nombuf.add((n - took) as u64);
        }
        let (bytes, filled) = match (&self.uniform, &self.screen) {
            (Some((_, len)), None) => {
                let mut rest = burst.as_mut_slice().get_mut(start..).unwrap_or_default();
                while !rest.is_empty() {
                    let run = rest.len().min(self.packets.len() - self.at);
                    let (now, later) = rest.split_at_mut(run);
                    for (m, data) in now.iter_mut().zip(self.packets.uniform_from(self.at)) {
                        copy(m.data_mut(), data);
                    }
                    self.at = if self.at + run >= self.packets.len() { 0 } else { self.at + run };
                    rest = later;
                }
                (took as u64 * len, took)
            }
            (None, None) => self.fill_any(burst, start),
            (_, Some(_)) => self.fill_screened(burst, start, took),
        };
        self.counters.packets.add(filled as u64);
        self.counters.bytes.add(bytes);
        filled
    }

    fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        self.screen = program.map(|p| Screen::new(p, self.program.clone()));
        Ok(())
    }
}
