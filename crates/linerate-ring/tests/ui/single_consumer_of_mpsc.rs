//! The single end of a mixed ring is as single as in SPSC, and needs to be borrowed uniquely.
use linerate_ring::{Consumer, Multi, RingSize, Single, mpsc};

fn take(c: &Consumer<u64, Multi, Single>) -> Option<u64> {
    c.dequeue()
}

fn main() {
    let (p, c) = mpsc::<u64>(RingSize::exact(4).unwrap()).unwrap();
    let _q = p.clone();
    let _d = c.clone();
    take(&c);
}
