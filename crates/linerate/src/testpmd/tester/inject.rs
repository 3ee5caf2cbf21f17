//! Harm done on purpose to frames that come back, so that one can see the check find it.

use linerate_mbuf::{Burst, Mbuf, Mempool};
use std::str::FromStr;

/// What is done to one frame in so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::testpmd) struct Inject {
    kind: Kind,
    every: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Drop,
    Corrupt,
    Duplicate,
    Reorder,
}

impl FromStr for Inject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "wanted drop=N, corrupt=N, dup=N or reorder=N, N from 1".to_string();
        let (kind, every) = text.split_once('=').ok_or_else(wrong)?;
        let kind = match kind {
            "drop" => Kind::Drop,
            "corrupt" => Kind::Corrupt,
            "dup" => Kind::Duplicate,
            "reorder" => Kind::Reorder,
            _ => return Err(wrong()),
        };
        match every.parse() {
            Ok(every) if every > 0 => Ok(Inject { kind, every }),
            _ => Err(wrong()),
        }
    }
}

/// Harms one frame in so many.
#[derive(Debug)]
pub(super) struct Injector {
    plan: Inject,
    seen: u64,
    held: Option<Mbuf>,
    pool: Mempool,
}

impl Injector {
    pub fn new(plan: Inject, pool: &Mempool) -> Self {
        Injector { plan, seen: 0, held: None, pool: pool.clone() }
    }

    /// Whether a frame is held back.
    pub fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Lets a frame go that waits for one that does not come.
    pub fn release(&mut self, burst: &mut Burst) {
        if let Some(m) = self.held.take() {
            drop(burst.push(m));
        }
    }

    /// Goes over a burst.
    pub fn harm(&mut self, burst: &mut Burst) {
        if burst.is_empty() {
            return;
        }
        let mut out = Burst::new();
        for mut m in burst.drain() {
            self.seen += 1;
            let now = self.seen.is_multiple_of(self.plan.every);
            let mut before = None;
            match self.plan.kind {
                Kind::Drop if now => continue,
                Kind::Corrupt if now => {
                    // Every byte in its turn, headers too.
                    let at = (self.seen / self.plan.every) as usize;
                    let data = m.data_mut();
                    let at = at % data.len().max(1);
                    if let Some(byte) = data.get_mut(at) {
                        *byte ^= 0x10;
                    }
                }
                Kind::Duplicate if now => before = m.copy(&self.pool, 0, u32::MAX),
                // Held back until the next one has passed.
                Kind::Reorder if now && self.held.is_none() => {
                    self.held = Some(m);
                    continue;
                }
                _ => {}
            }
            // A full burst frees what does not fit; a frame more than came in is the one case.
            for m in [before, Some(m), self.held.take()].into_iter().flatten() {
                drop(out.push(m));
            }
        }
        burst.append(&mut out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, frames: u8) -> Vec<Vec<u8>> {
        let pool = Mempool::builder("inject", 256).build().unwrap();
        let mut injector = Injector::new(text.parse().unwrap(), &pool);
        let mut burst = Burst::new();
        for i in 0..frames {
            let mut m = pool.alloc().unwrap();
            m.append(64).unwrap().fill(i);
            burst.push(m).unwrap();
        }
        injector.harm(&mut burst);
        let out = burst.as_slice().iter().map(|m| m.data().to_vec()).collect();
        burst.free_all();
        assert_eq!(pool.counts().held, u32::from(injector.held.is_some()));
        out
    }

    fn firsts(frames: &[Vec<u8>]) -> Vec<u8> {
        frames.iter().map(|f| f[0]).collect()
    }

    #[test]
    fn each_harm_is_done_to_one_in_n() {
        assert_eq!(firsts(&run("drop=3", 7)), [0, 1, 3, 4, 6]);
        assert_eq!(firsts(&run("dup=3", 4)), [0, 1, 2, 2, 3]);
        assert_eq!(firsts(&run("reorder=3", 7)), [0, 1, 3, 2, 4, 6, 5]);
        let changed = run("corrupt=2", 4);
        assert_eq!(changed.iter().filter(|f| f.iter().any(|&b| b != f[63])).count(), 2);
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in ["", "drop", "drop=", "drop=0", "drop=-1", "lose=2", "drop=1=2"] {
            assert!(bad.parse::<Inject>().is_err(), "{bad}");
        }
    }
}
