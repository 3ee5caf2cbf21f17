//! The mode csum: every checksum is computed anew, in software.

use super::{
    Requests, StreamContext,
    gather::{Front, join},
};
use crate::testpmd::engine::{BadChecksums, Mode};
use linerate_mbuf::{Burst, Mbuf, OlFlags};
use linerate_net::{
    csum_engine::{CsumOptions, recompute, recompute_segments},
    swap::MacPair,
};

/// How the mode is wanted.
#[derive(Clone, Copy, Debug)]
pub(in crate::testpmd) struct CsumPlan {
    /// Look into VXLAN, VXLAN-GPE, GENEVE, GTP, GRE and IP in IP.
    pub parse_tunnel: bool,
    /// Set the MAC addresses as the mode mac does.
    pub mac_rewrite: bool,
}

/// Counts what the receive port flagged as bad, then mends all checksums.
#[derive(Debug)]
pub(in crate::testpmd) struct Csum {
    pair: Option<MacPair>,
    options: CsumOptions,
    bad: BadChecksums,
}

/// What a receive port says when a checksum is wrong.
const BAD: OlFlags = OlFlags::RX_IP_CKSUM_BAD
    .union(OlFlags::RX_L4_CKSUM_BAD)
    .union(OlFlags::RX_OUTER_IP_CKSUM_BAD)
    .union(OlFlags::RX_OUTER_L4_CKSUM_BAD);

impl Csum {
    pub fn new(stream: &StreamContext, plan: CsumPlan) -> Self {
        let pair = plan.mac_rewrite.then(|| MacPair::new(stream.peer, stream.own));
        let options = CsumOptions { parse_tunnel: plan.parse_tunnel, ..CsumOptions::default() };
        Csum { pair, options, bad: BadChecksums::default() }
    }

    #[cold]
    #[inline(never)]
    fn count_bad(&mut self, flags: OlFlags) {
        self.bad.ip += u64::from(flags.contains(OlFlags::RX_IP_CKSUM_BAD));
        self.bad.l4 += u64::from(flags.contains(OlFlags::RX_L4_CKSUM_BAD));
        self.bad.outer_ip += u64::from(flags.contains(OlFlags::RX_OUTER_IP_CKSUM_BAD));
        self.bad.outer_l4 += u64::from(flags.contains(OlFlags::RX_OUTER_L4_CKSUM_BAD));
    }
}

impl Mode for Csum {
    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, _max: usize) {
        for m in burst.as_mut_slice() {
            let flags = m.ol_flags();
            if flags.intersects(BAD) {
                self.count_bad(flags);
            }
            if m.segment_count() == 1 {
                if let Some(pair) = &self.pair {
                    pair.write(m.data_mut());
                }
                recompute(m.data_mut(), self.options);
            } else {
                several_segments(m, self.pair.as_ref(), self.options);
            }
            Requests::NONE.apply(m);
        }
    }

    fn bad_checksums(&self) -> Option<BadChecksums> {
        Some(self.bad)
    }
}

/// Headers that lie in the first segment are changed there while the others are read, apart meanwhile; others are
/// changed in a copy.
#[cold]
#[inline(never)]
fn several_segments(m: &mut Mbuf, pair: Option<&MacPair>, options: CsumOptions) {
    if let Some(mut front) = Front::of(m) {
        let rest = front.rest(m);
        if let Some(pair) = pair {
            pair.write(front.bytes());
        }
        recompute_segments(front.bytes(), rest, options);
        front.write_back(m);
        return;
    }
    let Ok(rest) = m.split_off(1) else { return };
    if let Some(pair) = pair {
        pair.write(m.data_mut());
    }
    recompute_segments(m.data_mut(), rest.segments(), options);
    join(m, rest);
}
