//! Which port sends what another receives.

/// How ports are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Topology {
    /// 0 with 1, 2 with 3; an odd last port with itself
    Paired,
    /// 0 to 1 to 2 ... and the last to 0
    Chained,
    /// Each port to itself
    Loop,
}

impl Topology {
    /// The port, counted among the `count` that forward, that sends what port `at` receives.
    pub fn out_of(self, at: usize, count: usize) -> usize {
        match self {
            Topology::Paired if at % 2 == 1 => at - 1,
            Topology::Paired if at + 1 < count => at + 1,
            Topology::Paired | Topology::Loop => at,
            Topology::Chained => (at + 1) % count,
        }
    }

    /// Whether the last port has to be paired with itself.
    pub fn leaves_one_over(self, count: usize) -> bool {
        self == Topology::Paired && count % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_joined_as_testpmd_joins_them() {
        let all = |t: Topology, n| (0..n).map(|i| t.out_of(i, n)).collect::<Vec<_>>();
        assert_eq!(all(Topology::Paired, 4), [1, 0, 3, 2]);
        assert_eq!(all(Topology::Paired, 3), [1, 0, 2]);
        assert_eq!(all(Topology::Paired, 1), [0]);
        assert_eq!(all(Topology::Chained, 3), [1, 2, 0]);
        assert_eq!(all(Topology::Chained, 1), [0]);
        assert_eq!(all(Topology::Loop, 3), [0, 1, 2]);
        assert!(Topology::Paired.leaves_one_over(3));
        assert!(!Topology::Paired.leaves_one_over(2) && !Topology::Chained.leaves_one_over(3));
    }

    #[test]
    fn every_port_sends_for_one_port() {
        for t in [Topology::Paired, Topology::Chained, Topology::Loop] {
            for n in 1..20 {
                let mut out: Vec<_> = (0..n).map(|i| t.out_of(i, n)).collect();
                out.sort();
                assert_eq!(out, (0..n).collect::<Vec<_>>(), "{t:?} {n}");
            }
        }
    }
}
