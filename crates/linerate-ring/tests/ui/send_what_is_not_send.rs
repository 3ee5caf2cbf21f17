//! Elements that must stay on their thread do not leave it through a ring.
use std::rc::Rc;

use linerate_ring::{RingSize, mpmc};

fn main() {
    let (p, _c) = mpmc::<Rc<u8>>(RingSize::exact(4).unwrap()).unwrap();
    std::thread::spawn(move || {
        let _ = p.enqueue(Rc::new(1));
    });
}
