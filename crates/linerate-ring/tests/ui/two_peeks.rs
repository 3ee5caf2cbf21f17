//! While elements are shown by a single consumer, it cannot take others.
use linerate_ring::{RingSize, Want, spsc};

fn main() {
    let (_p, mut c) = spsc::<u64>(RingSize::exact(4).unwrap()).unwrap();
    let look = c.dequeue_start(1, Want::Burst);
    c.dequeue();
    drop(look);
}
