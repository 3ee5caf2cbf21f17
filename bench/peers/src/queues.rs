//! The peers behind one face: a producer half and a consumer half that move a slice.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

/// Elements that every queue holds.
const CAPACITY: usize = 4096;

/// A producer half.
pub trait Sink: Send {
    /// Pushes elements from the front of `items`; returns how many went in.
    fn push(&mut self, items: &[u64]) -> usize;
}

/// A consumer half.
pub trait Source: Send {
    /// Fills `items` from its front; returns how many came out.
    fn pop(&mut self, items: &mut [u64]) -> usize;
}

/// One way of using one queue.
pub trait Queue {
    /// The peer's name in the rows.
    const NAME: &'static str;
    /// The ring mode that it is a peer of.
    const MODE: &'static str;
    /// A new queue of 4096 elements.
    fn make() -> (impl Sink, impl Source);
}

/// `rtrb` by its chunk calls: all of a bulk or nothing.
pub struct RtrbChunk;
struct ChunkSink(rtrb::Producer<u64>);
struct ChunkSource(rtrb::Consumer<u64>);

impl Sink for ChunkSink {
    #[inline(always)]
    fn push(&mut self, items: &[u64]) -> usize {
        match self.0.write_chunk_uninit(items.len()) {
            Ok(chunk) => chunk.fill_from_iter(items.iter().copied()),
            Err(_) => 0,
        }
    }
}

impl Source for ChunkSource {
    #[inline(always)]
    fn pop(&mut self, items: &mut [u64]) -> usize {
        let Ok(chunk) = self.0.read_chunk(items.len()) else { return 0 };
        let (first, second) = chunk.as_slices();
        let (head, tail) = items.split_at_mut(first.len());
        head.copy_from_slice(first);
        tail.copy_from_slice(second);
        chunk.commit_all();
        items.len()
    }
}

impl Queue for RtrbChunk {
    const NAME: &'static str = "rtrb-chunk";
    const MODE: &'static str = "spsc";
    fn make() -> (impl Sink, impl Source) {
        let (tx, rx) = rtrb::RingBuffer::new(CAPACITY);
        (ChunkSink(tx), ChunkSource(rx))
    }
}

/// `rtrb`, an element a call.
pub struct RtrbOne;
struct OneSink(rtrb::Producer<u64>);
struct OneSource(rtrb::Consumer<u64>);

impl Sink for OneSink {
    #[inline(always)]
    fn push(&mut self, items: &[u64]) -> usize {
        items.iter().take_while(|item| self.0.push(**item).is_ok()).count()
    }
}

impl Source for OneSource {
    #[inline(always)]
    fn pop(&mut self, items: &mut [u64]) -> usize {
        fill(items, || self.0.pop().ok())
    }
}

impl Queue for RtrbOne {
    const NAME: &'static str = "rtrb-one";
    const MODE: &'static str = "spsc";
    fn make() -> (impl Sink, impl Source) {
        let (tx, rx) = rtrb::RingBuffer::new(CAPACITY);
        (OneSink(tx), OneSource(rx))
    }
}

/// crossbeam's `ArrayQueue`; it has no bulk calls.
pub struct ArrayQueuePeer;
struct Shared(Arc<ArrayQueue<u64>>);

impl Sink for Shared {
    #[inline(always)]
    fn push(&mut self, items: &[u64]) -> usize {
        items.iter().take_while(|item| self.0.push(**item).is_ok()).count()
    }
}

impl Source for Shared {
    #[inline(always)]
    fn pop(&mut self, items: &mut [u64]) -> usize {
        fill(items, || self.0.pop())
    }
}

impl Queue for ArrayQueuePeer {
    const NAME: &'static str = "ArrayQueue";
    const MODE: &'static str = "mpmc";
    fn make() -> (impl Sink, impl Source) {
        let queue = Arc::new(ArrayQueue::new(CAPACITY));
        (Shared(queue.clone()), Shared(queue))
    }
}

/// Fills `items` with what `next` gives until it gives nothing.
#[inline(always)]
fn fill(items: &mut [u64], mut next: impl FnMut() -> Option<u64>) -> usize {
    let mut done = 0;
    for slot in items {
        match next() {
            Some(item) => *slot = item,
            None => break,
        }
        done += 1;
    }
    done
}
