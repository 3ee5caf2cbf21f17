//! A single producer cannot be cloned.
use linerate_ring::{RingSize, spsc};

fn main() {
    let (p, _c) = spsc::<u64>(RingSize::exact(4).unwrap()).unwrap();
    let _q = p.clone();
}
