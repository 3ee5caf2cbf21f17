//! The layout: which streams there are, and which core takes which.

use super::topology::Topology;

/// A receive queue, and the transmit queue that what it receives goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamPlan {
    /// Where packets come from: a port's number, and the queue.
    pub rx: (usize, u16),
    /// Where they go to.
    pub tx: (usize, u16),
}

/// The streams of these forwarding ports (their numbers, in order) with so many queues: for each queue one a
/// port; a packet leaves by the queue of the number by which it came.
pub(super) fn layout(ports: &[usize], topology: Topology, rx_queues: u16, tx_queues: u16) -> Vec<StreamPlan> {
    let mut streams = Vec::new();
    for queue in 0..rx_queues.min(tx_queues) {
        for (at, &port) in ports.iter().enumerate() {
            let out = ports[topology.out_of(at, ports.len())];
            streams.push(StreamPlan { rx: (port, queue), tx: (out, queue) });
        }
    }
    streams
}

/// Shares `streams` streams among at most `cores` cores, in order and as evenly as they go; the later cores get
/// what is over. Never more cores than streams.
pub(super) fn share(streams: usize, cores: usize) -> Vec<std::ops::Range<usize>> {
    let cores = cores.min(streams);
    let mut from = 0;
    (0..cores)
        .map(|core| {
            let count = streams / cores + usize::from(core >= cores - streams % cores);
            from += count;
            from - count..from
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_gives_one_stream_a_port() {
        let s = layout(&[0, 1, 2, 3], Topology::Paired, 1, 1);
        assert_eq!(s.iter().map(|s| (s.rx.0, s.tx.0)).collect::<Vec<_>>(), [(0, 1), (1, 0), (2, 3), (3, 2)]);
    }

    #[test]
    fn several_queues_give_the_smaller_number_a_port_and_keep_theirs() {
        let s = layout(&[2, 0], Topology::Paired, 3, 2);
        let tuples: Vec<_> = s.iter().map(|s| (s.rx, s.tx)).collect();
        assert_eq!(tuples, [((2, 0), (0, 0)), ((0, 0), (2, 0)), ((2, 1), (0, 1)), ((0, 1), (2, 1))]);
    }

    #[test]
    fn no_two_streams_share_a_queue() {
        for topology in [Topology::Paired, Topology::Chained, Topology::Loop] {
            for ports in 1..6 {
                let list: Vec<_> = (0..ports).collect();
                let streams = layout(&list, topology, 3, 3);
                assert_eq!(streams.len(), ports * 3);
                for (i, a) in streams.iter().enumerate() {
                    assert!(
                        streams[..i].iter().all(|b| a.rx != b.rx && a.tx != b.tx),
                        "{topology:?} {ports}"
                    );
                }
            }
        }
    }

    #[test]
    fn cores_get_their_share_and_none_is_idle() {
        assert_eq!(share(2, 1), vec![0..2]);
        assert_eq!(share(2, 5), [0..1, 1..2]);
        assert_eq!(share(7, 3), [0..2, 2..4, 4..7]);
        assert_eq!(share(8, 3), [0..2, 2..5, 5..8]);
        assert_eq!(share(0, 3), []);
        for streams in 1..40 {
            for cores in 1..10 {
                let parts = share(streams, cores);
                assert!(parts.iter().all(|p| !p.is_empty()));
                assert_eq!(parts.concat_len(), streams);
            }
        }
    }

    trait ConcatLen {
        fn concat_len(&self) -> usize;
    }
    impl ConcatLen for Vec<std::ops::Range<usize>> {
        fn concat_len(&self) -> usize {
            let mut next = 0;
            for part in self {
                assert_eq!(part.start, next);
                next = part.end;
            }
            next
        }
    }
}
