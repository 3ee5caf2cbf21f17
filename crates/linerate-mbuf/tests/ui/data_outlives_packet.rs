use linerate_mbuf::Mempool;

fn main() {
    let pool = Mempool::builder("p", 8).build().unwrap();
    let m = pool.alloc().unwrap();
    let bytes = m.data();
    drop(m);
    println!("{bytes:?}");
}
