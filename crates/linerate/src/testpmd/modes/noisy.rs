//! The mode noisy: a neighbour that holds packets back in a FIFO and wears out the caches.

use super::{ModeName, StreamContext};
use crate::testpmd::{engine::Mode, error::TestpmdError};
use linerate_mbuf::{Burst, Mbuf};
use linerate_mem::{CycleScale, cycles_between, rdtsc};
use std::{collections::VecDeque, hint::black_box};

/// What the mode does to a packet beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::testpmd) enum NoisyForward {
    /// As the mode io
    Io,
    /// As the mode mac
    Mac,
    /// As the mode macswap
    Macswap,
    /// As the mode 5tswap
    #[value(name = "5tswap")]
    FiveTupleSwap,
}

impl NoisyForward {
    /// The mode that does just that.
    pub fn mode(self) -> ModeName {
        match self {
            NoisyForward::Io => ModeName::Io,
            NoisyForward::Mac => ModeName::Mac,
            NoisyForward::Macswap => ModeName::Macswap,
            NoisyForward::FiveTupleSwap => ModeName::FiveTupleSwap,
        }
    }
}

/// How noisy it is to be.
#[derive(Clone, Copy, Debug)]
pub(in crate::testpmd) struct NoisyPlan {
    pub forward: NoisyForward,
    /// Packets that the FIFO holds; 0 = there is none.
    pub fifo: u32,
    /// Milliseconds without a packet after which it is emptied; 0 = never.
    pub flush_ms: u32,
    /// MiB of memory that are looked up.
    pub memory: u32,
    /// Random reads a packet.
    pub reads: u32,
    /// Random writes a packet.
    pub writes: u32,
    /// Random reads with a write to the same place a packet.
    pub reads_writes: u32,
}

impl NoisyPlan {
    /// Checks that there is memory to look up.
    ///
    /// # Errors
    ///
    /// Look-ups without memory.
    pub fn check(&self) -> Result<(), TestpmdError> {
        if self.memory == 0 && (self.reads | self.writes | self.reads_writes) != 0 {
            return Err(TestpmdError::Option {
                option: "--noisy-lkup-memory",
                why: "look-ups are wanted in 0 MiB".into(),
                hint: "give the memory that is looked up, such as --noisy-lkup-memory 64".into(),
            });
        }
        Ok(())
    }
}

/// Does what `inner` does, noisily.
#[derive(Debug)]
pub(in crate::testpmd) struct Noisy<M> {
    inner: M,
    fifo: VecDeque<Mbuf>,
    /// Packets that the FIFO holds at most.
    size: usize,
    /// Cycles without a packet after which it is emptied.
    flush: Option<u64>,
    /// When a packet came last.
    last: u64,
    /// What is looked up.
    memory: Vec<u64>,
    plan: NoisyPlan,
    random: u64,
}

impl<M: Mode> Noisy<M> {
    pub fn new(inner: M, stream: &StreamContext, plan: &NoisyPlan, scale: CycleScale) -> Self {
        let looks = plan.reads | plan.writes | plan.reads_writes != 0;
        let words = if looks { (plan.memory as usize) << 17 } else { 0 };
        Noisy {
            inner,
            fifo: VecDeque::with_capacity(plan.fifo as usize + 1),
            size: plan.fifo as usize,
            flush: (plan.flush_ms > 0).then(|| scale.ns_to_cycles(u64::from(plan.flush_ms) * 1_000_000)),
            last: rdtsc(),
            // Written, so that each page is one of its own and not the kernel's page of zeros.
            memory: vec![1; words],
            plan: *plan,
            random: 0x9E37_79B9_7F4A_7C15 ^ u64::from(stream.core),
        }
    }

    /// A place in the memory, by chance.
    #[inline(always)]
    fn place(&mut self) -> Option<&mut u64> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let at = ((u128::from(self.random) * self.memory.len() as u128) >> 64) as usize;
        self.memory.get_mut(at)
    }

    /// Reads and writes as they are wanted for so many packets.
    #[inline(never)]
    fn look_up(&mut self, packets: usize) {
        for _ in 0..packets {
            for _ in 0..self.plan.writes {
                if let Some(word) = self.place() {
                    *word = black_box(0);
                }
            }
            for _ in 0..self.plan.reads {
                black_box(self.place().copied());
            }
            for _ in 0..self.plan.reads_writes {
                if let Some(word) = self.place() {
                    *word = black_box(word.wrapping_add(1));
                }
            }
        }
    }

    /// Takes a burst in. If the FIFO has no room for it, as many packets as arrived come out first; the order is kept.
    #[inline(never)]
    fn delay(&mut self, burst: &mut Burst) {
        if self.flush.is_some() {
            self.last = rdtsc();
        }
        let arrived = burst.len();
        let out = if self.fifo.len() + arrived <= self.size { 0 } else { arrived };
        let mut to_send = Burst::new();
        for m in burst.drain() {
            self.fifo.push_back(m);
            // One comes out where one goes in: it holds one too many for this moment, and has the room.
            if out > 0
                && let Some(oldest) = self.fifo.pop_front()
            {
                drop(to_send.push(oldest));
            }
        }
        *burst = to_send;
    }
}

impl<M: Mode> Mode for Noisy<M> {
    const HOLDS: bool = true;

    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, max: usize) {
        self.inner.work(burst, max);
        if !self.memory.is_empty() {
            self.look_up(burst.len());
        }
        if self.size > 0 {
            self.delay(burst);
        }
    }

    #[inline(always)]
    fn release(&mut self, burst: &mut Burst, max: usize, all: bool) {
        if self.fifo.is_empty() {
            return;
        }
        if all || self.flush.is_some_and(|after| cycles_between(self.last, rdtsc()) >= after) {
            for m in self.fifo.drain(..max.min(self.fifo.len())) {
                drop(burst.push(m));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testpmd::modes::{
        five_tuple::FiveTupleSwap,
        io::Io,
        macswap::MacSwap,
        tests::{frames, load, pool, stream, through},
    };
    use linerate_mem::Clock;

    const QUIET: NoisyPlan = NoisyPlan {
        forward: NoisyForward::Io,
        fifo: 0,
        flush_ms: 0,
        memory: 0,
        reads: 0,
        writes: 0,
        reads_writes: 0,
    };

    fn noisy<M: Mode>(inner: M, plan: NoisyPlan) -> Noisy<M> {
        Noisy::new(inner, &stream(&pool()), &plan, Clock::real().scale())
    }

    #[test]
    fn without_noise_it_is_the_inner_mode() {
        let looks = NoisyPlan { memory: 1, reads: 3, writes: 2, reads_writes: 1, ..QUIET };
        for plan in [QUIET, looks] {
            assert_eq!(through(noisy(Io, plan), &frames(40)), frames(40));
            assert_eq!(through(noisy(MacSwap, plan), &frames(40)), through(MacSwap, &frames(40)));
            let swapped = through(FiveTupleSwap, &frames(40));
            assert_eq!(through(noisy(FiveTupleSwap, plan), &frames(40)), swapped);
        }
    }

    #[test]
    fn look_ups_are_made_in_all_of_the_memory() {
        let mut mode = noisy(Io, NoisyPlan { memory: 1, reads_writes: 4, ..QUIET });
        mode.look_up(1000);
        let words = &mode.memory;
        assert_eq!((words.len(), words.iter().sum::<u64>()), (1 << 17, (1 << 17) + 4000));
        for part in words.chunks(words.len() / 8) {
            assert!(part.iter().filter(|&&w| w > 1).count() > 300);
        }
        let mut mode = noisy(Io, NoisyPlan { memory: 1, writes: 5, ..QUIET });
        mode.look_up(100);
        assert!((490..=500).contains(&mode.memory.iter().filter(|&&w| w == 0).count()));
        assert!(NoisyPlan { reads: 1, ..QUIET }.check().is_err());
        assert!(NoisyPlan { reads: 1, memory: 1, ..QUIET }.check().is_ok());
    }

    #[test]
    fn the_fifo_holds_what_it_may_and_keeps_the_order() {
        let pool = pool();
        for size in [1, 7, 32, 100] {
            let mut mode = noisy(Io, NoisyPlan { fifo: size as u32, ..QUIET });
            let (mut burst, mut out) = (Burst::new(), Vec::new());
            let all = frames(300);
            let mut at = 0;
            for n in [10, 20, 32, 1, 32, 64, 5, 32, 32, 32, 3, 32, 5] {
                load(&pool, &mut burst, &all[at..at + n]);
                at += n;
                let held = mode.fifo.len();
                mode.work(&mut burst, 64);
                let fits = held + n <= size;
                assert_eq!(burst.len(), if fits { 0 } else { n });
                assert_eq!(mode.fifo.len(), if fits { held + n } else { held });
                out.extend(burst.drain().map(|m| m.data().to_vec()));
            }
            mode.release(&mut burst, 64, false);
            assert!(burst.is_empty(), "nothing is flushed by time");
            while !mode.fifo.is_empty() {
                mode.release(&mut burst, 4, true);
                assert!((1..=4).contains(&burst.len()));
                out.extend(burst.drain().map(|m| m.data().to_vec()));
            }
            assert_eq!(out, all, "a FIFO of {size}");
        }
        assert_eq!(pool.counts().held, 0);
    }

    #[test]
    fn it_is_emptied_after_a_while_without_packets() {
        let pool = pool();
        let mut mode = noisy(Io, NoisyPlan { fifo: 64, flush_ms: 20, ..QUIET });
        let mut burst = Burst::new();
        load(&pool, &mut burst, &frames(10));
        mode.work(&mut burst, 32);
        let from = std::time::Instant::now();
        while burst.is_empty() {
            mode.release(&mut burst, 32, false);
            assert!(from.elapsed().as_secs() < 10);
        }
        assert!(from.elapsed().as_millis() >= 19);
        assert_eq!(burst.len(), 10);
    }
}
