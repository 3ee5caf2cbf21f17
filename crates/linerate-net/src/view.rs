//! Bounded typed views of header bytes.
//!
//! Every header of this crate is a `#[repr(C)]` structure of bytes and big-endian integers whose layout `zerocopy`
//! proves at compile time, so a view is a bounds check and nothing else: no copy, no alignment demand, and no enum
//! is ever read from the wire.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Views the header `T` that starts `offset` bytes into `bytes`; `None` when it does not fit.
#[inline]
pub fn view<T>(bytes: &[u8], offset: usize) -> Option<&T>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_prefix(bytes.get(offset..)?).ok().map(|(header, _rest)| header)
}

/// Like [`view`], writable.
#[inline]
pub fn view_mut<T>(bytes: &mut [u8], offset: usize) -> Option<&mut T>
where
    T: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned,
{
    T::mut_from_prefix(bytes.get_mut(offset..)?).ok().map(|(header, _rest)| header)
}

/// Gives a header structure the derives that all views share.
macro_rules! header {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* } size $size:literal) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Default,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Unaligned, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }

        impl $name {
            /// Size in bytes on the wire.
            pub const LEN: usize = $size;
        }

        const _: () = assert!(core::mem::size_of::<$name>() == $size);
    };
}
pub(crate) use header;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vlan::VlanTag;

    #[test]
    fn views_stop_at_the_end() {
        let mut bytes = [0u8, 1, 2, 3, 4];
        assert!(view::<VlanTag>(&bytes, 1).is_some());
        assert!(view::<VlanTag>(&bytes, 2).is_none());
        assert!(view::<VlanTag>(&bytes, 6).is_none());
        assert!(view_mut::<VlanTag>(&mut bytes, usize::MAX).is_none());
        view_mut::<VlanTag>(&mut bytes, 1).unwrap().tci.set(0xabcd);
        assert_eq!(bytes, [0, 0xab, 0xcd, 3, 4]);
    }
}
