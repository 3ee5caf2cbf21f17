//! The ends of a ring of blocks are not shared between threads.
use linerate_ring::{RingSize, spsc_blocks};

fn main() {
    let (_p, c) = spsc_blocks::<u64>(RingSize::exact(4).unwrap()).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| c.len());
        s.spawn(|| c.len());
    });
}
