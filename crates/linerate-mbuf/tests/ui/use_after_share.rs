use linerate_mbuf::Mempool;

fn main() {
    let pool = Mempool::builder("p", 8).build().unwrap();
    let mut m = pool.alloc().unwrap();
    let shared = m.share();
    m.append(4);
    drop(shared);
}
