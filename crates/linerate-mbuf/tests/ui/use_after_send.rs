use linerate_mbuf::{Burst, Mbuf, Mempool};

fn send(burst: Burst<Mbuf>) -> usize {
    burst.len()
}

fn main() {
    let pool = Mempool::builder("p", 8).build().unwrap();
    let mut burst = Burst::new();
    pool.alloc_bulk(&mut burst, 4);
    let first = &mut burst.as_mut_slice()[0];
    send(burst);
    first.append(4);
}
