use linerate_mbuf::Mempool;

fn main() {
    let pool = Mempool::builder("p", 8).build().unwrap();
    let mut shared = pool.alloc().unwrap().share();
    shared.data_mut()[0] = 1;
    shared.append(4);
}
