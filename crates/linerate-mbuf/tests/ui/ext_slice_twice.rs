use linerate_mbuf::{ExtBuf, Mempool};

fn main() {
    let pool = Mempool::builder("p", 8).build().unwrap();
    let (mut a, mut b) = (pool.alloc().unwrap(), pool.alloc().unwrap());
    let slice = ExtBuf::from_vec(vec![0; 64]).take(64).unwrap();
    a.attach_external(slice);
    b.attach_external(slice);
}
