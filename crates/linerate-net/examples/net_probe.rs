//! What the per-packet work of this crate costs here, in cycles of the time stamp counter (nanoseconds on machines
//! without one that can be read): `cargo run --release -p linerate-net --example net_probe`.
//!
//! Each figure is the median over repeats of walking 256 packets of its own, all in the first- or second-level cache.

use std::hint::black_box;

use linerate_net::builder::{UdpFlow, UdpTemplate};
use linerate_net::checksum::{checksum, checksum_scalar};
use linerate_net::crc32c::crc32c;
use linerate_net::csum_engine::{CsumLayers, CsumOptions, recompute};
use linerate_net::csum_verify::verify;
use linerate_net::rss::{DEFAULT_KEY, HashKind, HashTypes, ToeplitzKey, Tuple};
use linerate_net::swap::{MacPair, five_tuple_swap, five_tuple_swap_any, mac_swap, mac_swap_scalar};
use linerate_net::{MacAddr, ParseOptions, parse};

const PACKETS: usize = 256;
/// Buffers of 2 KiB and some, an odd number of cache lines apart: a power of two would put all first lines into the same
/// few cache sets.
const STRIDE: usize = 2048 + 5 * 64;
const ROUNDS: usize = 40;
const REPEATS: usize = 101;

#[cfg(target_arch = "x86_64")]
fn now() -> u64 {
    // SAFETY: reading the counter has no precondition on x86-64.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn now() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

/// Packets of one length, each in a buffer of its own as a pool would have them.
struct Frames {
    memory: Vec<u8>,
    len: usize,
}

impl Frames {
    fn new(len: usize, vlan: bool) -> Self {
        let mut memory = vec![0u8; PACKETS * STRIDE];
        let flow = UdpFlow::txonly(MacAddr::peer(1), MacAddr::peer(0));
        let template = UdpTemplate::new(&flow, len).expect("a length that can be built");
        for (index, buffer) in memory.chunks_mut(STRIDE).enumerate() {
            let payload: Vec<u8> = (0..len - 42).map(|at| (at * 31 + index) as u8).collect();
            template.build(buffer, &payload).expect("room for the frame");
            if vlan {
                buffer.copy_within(12..len, 16);
                buffer[12..16].copy_from_slice(&[0x81, 0, 0, 1]);
            }
        }
        Frames { memory, len: if vlan { len + 4 } else { len } }
    }

    /// Prints the median cycles of `work` for one packet.
    fn measure(&mut self, name: &str, mut work: impl FnMut(&mut [u8])) {
        let len = black_box(self.len);
        let mut samples: Vec<u64> = (0..REPEATS)
            .map(|_| {
                let start = now();
                for _ in 0..ROUNDS {
                    for buffer in self.memory.chunks_exact_mut(STRIDE) {
                        work(&mut buffer[..len]);
                    }
                }
                now() - start
            })
            .collect();
        samples.sort_unstable();
        let per_packet = |ticks: u64| ticks as f64 / (ROUNDS * PACKETS) as f64;
        println!("{name:<44} {:8.2} {:8.2}", per_packet(samples[0]), per_packet(samples[REPEATS / 2]));
    }
}

fn main() {
    println!("{:<44} {:>8} {:>8}", "cycles for one packet", "min", "median");
    let mut small = Frames::new(64, false);
    small.measure("nothing (the loop itself)", |frame| {
        black_box(frame);
    });
    let pair = MacPair::new(MacAddr::peer(1), MacAddr::peer(0));
    small.measure("mac: both addresses written", |frame| pair.write(frame));
    small.measure("mac_swap", mac_swap);
    small.measure("mac_swap, byte by byte", mac_swap_scalar);
    small.measure("five_tuple_swap, 64 B UDP", five_tuple_swap);
    small.measure("five_tuple_swap, header by header", five_tuple_swap_any);

    for (name, range) in [("20 B", 14..34), ("64 B", 0..64)] {
        small.measure(&format!("checksum {name}"), |frame| {
            black_box(frame.get(range.clone()).map(checksum));
        });
    }
    small.measure("checksum 20 B, the oracle", |frame| {
        black_box(frame.get(14..34).map(checksum_scalar));
    });
    small.measure("crc32c 64 B", |frame| {
        black_box(crc32c(frame));
    });

    small.measure("parse, 64 B UDP", |frame| {
        black_box(parse(frame, ParseOptions::PLAIN).ptype);
    });
    let key = ToeplitzKey::new(&DEFAULT_KEY);
    small.measure("parse + Toeplitz over addresses and ports", |frame| {
        let parsed = parse(frame, ParseOptions::PLAIN);
        let tuple = Tuple::of(frame, parsed.innermost(), HashTypes::UDP, HashKind::Toeplitz);
        black_box(tuple.map(|tuple| key.hash(tuple.bytes())));
    });

    let software = black_box(CsumOptions::default());
    small.measure("csum, 64 B UDP, IPv4 + UDP in software", |frame| {
        recompute(frame, software);
    });
    let hardware = black_box(CsumOptions { hw: CsumLayers::IP | CsumLayers::UDP, parse_tunnel: false });
    small.measure("csum, 64 B UDP, both left to the port", |frame| {
        black_box(recompute(frame, hardware).hw);
    });
    small.measure("verify, 64 B UDP", |frame| {
        black_box(verify(frame, ParseOptions::PLAIN));
    });
    let mut tagged = Frames::new(64, true);
    tagged.measure("csum, 68 B UDP with a VLAN tag", |frame| {
        recompute(frame, software);
    });
    for buffer in small.memory.chunks_mut(STRIDE) {
        buffer[40..42].fill(0);
    }
    small.measure("csum, 64 B UDP, no UDP checksum", |frame| {
        recompute(frame, software);
    });

    let mut large = Frames::new(1500, false);
    large.measure("checksum 1500 B", |frame| {
        black_box(checksum(frame));
    });
    large.measure("checksum 1500 B, the oracle", |frame| {
        black_box(checksum_scalar(frame));
    });
    large.measure("csum, 1500 B UDP", |frame| {
        recompute(frame, software);
    });
    let mut middle = Frames::new(160, false);
    middle.measure("csum, 160 B UDP", |frame| {
        recompute(frame, software);
    });
}
