use linerate_mbuf::Mempool;

fn main() {
    let pool = Mempool::builder("p", 8).build().unwrap();
    let shared = pool.alloc().unwrap().share();
    std::thread::scope(|s| {
        s.spawn(|| drop(shared.clone()));
    });
}
