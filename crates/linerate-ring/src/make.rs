//! One constructor a mode, for those who want the two ends at once.

use crate::{Consumer, Hts, Multi, Producer, Ring, RingError, RingSize, Rts, Single};

/// The two ends of a ring with sides `P` and `C`, or why it could not be made.
pub type Ends<T, P, C> = Result<(Producer<T, P, C>, Consumer<T, P, C>), RingError>;

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident: $p:ident, $c:ident;)+) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// [`RingError::TooManyBytes`] or [`RingError::NoMemory`].
        pub fn $name<T>(size: RingSize) -> Ends<T, $p, $c> {
            Ring::new(size).map(Ring::split)
        }
    )+ };
}

constructors! {
    /// One producer, one consumer: the fastest.
    spsc: Single, Single;
    /// Any number of producers and consumers.
    mpmc: Multi, Multi;
    /// Any number of producers, one consumer.
    mpsc: Multi, Single;
    /// One producer, any number of consumers.
    spmc: Single, Multi;
    /// Any number of producers and consumers that may be preempted, relaxed tail sync.
    rts: Rts, Rts;
    /// Any number of producers and consumers that may be preempted, head-tail sync; can peek.
    hts: Hts, Hts;
}
