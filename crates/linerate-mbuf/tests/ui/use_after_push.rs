use linerate_mbuf::{Burst, Mempool};

fn main() {
    let pool = Mempool::builder("p", 8).build().unwrap();
    let mut burst = Burst::new();
    let mut m = pool.alloc().unwrap();
    burst.push(m).unwrap();
    m.data_mut()[0] = 1;
}
