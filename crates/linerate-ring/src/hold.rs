//! Positions held between the start and the end of an operation, given back when nobody finishes it.
//!
//! What `peek.rs` and `zc.rs` are made of. Only serial sides can do it: with one operation at a time in
//! flight, the end may publish fewer positions than the start reserved.

use crate::Ring;
use crate::side::{Serial, Side, Want};

/// Slots held by a producer.
pub(crate) struct SlotHold<'a, T, P: Serial, C: Side> {
    ring: &'a Ring<T, P, C>,
    local: &'a mut P::Local,
    pub(crate) pos: u32,
    pub(crate) n: u32,
    publish: u32,
}

/// Values held by a consumer.
pub(crate) struct ValueHold<'a, T, P: Side, C: Serial> {
    ring: &'a Ring<T, P, C>,
    local: &'a mut C::Local,
    pub(crate) pos: u32,
    pub(crate) n: u32,
    publish: u32,
}

macro_rules! hold {
    ($name:ident, $reserve:ident, $side:ident, $state:ident, $p:ident, $c:ident) => {
        impl<'a, T, P: $p, C: $c> $name<'a, T, P, C> {
            #[inline(always)]
            pub(crate) fn start(
                ring: &'a Ring<T, P, C>,
                local: &'a mut $side::Local,
                n: usize,
                want: Want,
            ) -> Option<Self> {
                if n == 0 {
                    return None;
                }
                let g = ring.$reserve::<false>(local, n, want);
                if g.n == 0 { None } else { Some(Self { ring, local, pos: g.pos, n: g.n, publish: 0 }) }
            }

            #[inline(always)]
            pub(crate) fn view(&self) -> crate::storage::View<T> {
                self.ring.view()
            }

            /// The first `n` held positions, at most all, will be published at the end.
            #[inline(always)]
            pub(crate) fn publish(&mut self, n: u32) {
                assert!(n <= self.n, "more than what was reserved");
                self.publish = n;
            }
        }

        impl<T, P: $p, C: $c> Drop for $name<'_, T, P, C> {
            #[inline(always)]
            fn drop(&mut self) {
                let e = &self.ring.table().$state;
                $side::publish(&self.ring.$state, self.local, self.pos, self.publish, e);
            }
        }

        impl<T, P: $p, C: $c> core::fmt::Debug for $name<'_, T, P, C> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($name)).field("pos", &self.pos).field("n", &self.n).finish()
            }
        }
    };
}
hold!(SlotHold, reserve_slots, P, prod, Serial, Side);
hold!(ValueHold, reserve_values, C, cons, Side, Serial);

/// The private half of a shared side: nothing, for as long as wanted.
#[inline(always)]
pub(crate) fn nothing() -> &'static mut () {
    // No allocation: the type has no size.
    Box::leak(Box::new(()))
}
