//! A single producer cannot be shared between threads.
use linerate_ring::{RingSize, spsc};

fn main() {
    let (p, _c) = spsc::<u64>(RingSize::exact(4).unwrap()).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| p.len());
        s.spawn(|| p.len());
    });
}
