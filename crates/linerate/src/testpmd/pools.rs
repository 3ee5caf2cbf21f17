//! How many buffers a run needs: enough for the queues, and no more, since a small pool stays in the cache.

use super::{error::TestpmdError, modes::ModeName, plan::Plan};
use linerate_mbuf::Mempool;
use linerate_mem::NumaNode;
use linerate_port::Limits;

/// What the buffers are needed for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// Descriptors of all queues.
    pub rings: u64,
    /// What the caches of all threads may keep.
    pub caches: u64,
    /// Bursts under way, and what the FIFOs of the mode noisy hold.
    pub bursts: u64,
}

impl Need {
    /// Buffers for ports with these limits.
    pub fn of(plan: &Plan, ports: &[Limits], streams: usize, burst: usize) -> Self {
        let rounded = |wanted: u16, default: u16, (min, max, align): (u16, u16, u16)| {
            let wanted = if wanted == 0 { default } else { wanted };
            u64::from(wanted).next_multiple_of(align.max(1).into()).clamp(min.into(), max.into())
        };
        let rings = ports
            .iter()
            .map(|l| {
                let rx = rounded(plan.descriptors.0, l.default_descriptors.0, l.rx_descriptors);
                let tx = rounded(plan.descriptors.1, l.default_descriptors.1, l.tx_descriptors);
                rx * u64::from(plan.queues.0) + tx * u64::from(plan.queues.1)
            })
            .sum();
        // A cache each for the forwarding threads and for the one that starts and ends them.
        let caches = (plan.cores.min(streams) as u64 + 1) * u64::from(plan.cache);
        let segments = if plan.makes_packets() { plan.txonly.segments.len() as u64 } else { 1 };
        let fifo = if plan.mode == ModeName::Noisy { u64::from(plan.noisy.fifo) } else { 0 };
        let bursts = streams as u64 * (burst as u64 * segments + fifo);
        Need { rings, caches, bursts }
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.rings + self.caches + self.bursts
    }

    /// Buffers to make: what is asked for if it suffices, or what is needed.
    ///
    /// # Errors
    ///
    /// Fewer are asked for than are needed: the run would stop for want of them sooner or later.
    pub fn buffers(&self, asked: Option<u32>) -> Result<u64, TestpmdError> {
        let need = self.total();
        match asked {
            Some(have) if u64::from(have) < need => Err(TestpmdError::PoolTooSmall {
                have,
                need: u32::try_from(need).unwrap_or(u32::MAX),
                why: format!(
                    "descriptors of the queues {}, caches {}, bursts {}",
                    self.rings, self.caches, self.bursts
                ),
            }),
            Some(have) => Ok(have.into()),
            None => Ok(need),
        }
    }
}

/// Makes a pool as the plan says.
///
/// # Errors
///
/// Sizes that do not go together, or no memory.
pub(super) fn make(
    plan: &Plan,
    name: &str,
    buffers: u64,
    node: Option<NumaNode>,
) -> Result<Mempool, TestpmdError> {
    let mut builder = Mempool::builder(name, buffers)
        // Checked here and not refused: a pool of a few buffers needs no large cache.
        .cache(plan.cache.min(buffers as u32))
        .data_room(plan.data_room)
        .pages(plan.pages);
    if let Some(node) = node {
        builder = builder.node(node);
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testpmd::plan::tests::plan;

    #[test]
    fn the_need_is_the_queues_the_caches_and_the_bursts() {
        let p = plan(&["--port=null", "--port=null", "--rxd=100", "--rxq=2", "--txq=3"]).unwrap();
        let limits = Limits { rx_descriptors: (64, 4096, 32), ..Limits::SOFTWARE };
        let need = Need::of(&p, &[limits, limits], 4, 32);
        assert_eq!(need, Need { rings: 2 * (2 * 128 + 3 * 512), caches: 2 * 256, bursts: 128 });
        // Bug case 37: 65535 descriptors are the most that there are, and not a wrapped 0.
        let p = plan(&["--port=null", "--rxd=65535"]).unwrap();
        assert_eq!(Need::of(&p, &[limits], 1, 32).rings, 4096 + 512);
    }

    #[test]
    fn the_default_run_takes_megabytes_and_not_hundreds() {
        let p = plan(&["--port=null", "--port=null"]).unwrap();
        let need = Need::of(&p, &[Limits::SOFTWARE; 2], 2, 32);
        assert!(need.total() < 4096, "{need:?}");
    }

    // User pain 35.
    #[test]
    fn a_pool_smaller_than_the_rings_is_refused_with_both_numbers() {
        let need = Need { rings: 1000, caches: 500, bursts: 64 };
        assert_eq!(need.buffers(None).unwrap(), 1564);
        assert_eq!(need.buffers(Some(1564)).unwrap(), 1564);
        let e = need.buffers(Some(1563)).unwrap_err();
        assert!(e.to_string().contains("1563") && e.to_string().contains("1564"), "{e}");
        assert!(e.hint().contains("--total-num-mbufs 1564"));
    }
}
