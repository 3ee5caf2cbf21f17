use linerate_mbuf::{Mempool, RawMbuf};

fn main() {
    let pool = Mempool::builder("p", 8).build().unwrap();
    let raw = RawMbuf::from_mbuf(pool.alloc().unwrap());
    let _m = raw.into_mbuf();
}
