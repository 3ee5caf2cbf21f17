//! Numbers of ports and queues, as types that cannot be confused.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u16);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $name {
            /// The number as an index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Reads a number that a person wrote: parsed wide and checked before it is narrowed, so that
            /// 65536 is refused and not taken for 0.
            ///
            /// # Errors
            ///
            /// A text that is no number below `count`.
            pub fn parse_below(text: &str, count: usize) -> Result<Self, String> {
                match text.trim().parse::<u64>() {
                    Ok(n) if n < count as u64 && n <= u16::MAX as u64 => Ok($name(n as u16)),
                    _ if count == 0 => Err(format!(concat!("{:?}: there is no ", $word), text)),
                    _ => Err(format!(concat!("{:?} is not a ", $word, "; allowed are 0 to {}"), text, count - 1)),
                }
            }
        }
    };
}

id! {
    /// Number of a port in this process, in the order in which ports were opened.
    PortId, "port"
}
id! {
    /// Number of a receive or transmit queue of a port.
    QueueId, "queue"
}

#[cfg(test)]
mod tests {
    use super::*;

    // Bug case 37: numbers were cut to eight or sixteen bits and acted on port 0.
    #[test]
    fn numbers_are_checked_before_they_are_narrowed() {
        for bad in ["2", "256", "65535", "65536", "-1", "18446744073709551616", "", "x", "1 2"] {
            assert!(PortId::parse_below(bad, 2).is_err(), "{bad}");
        }
        assert_eq!(PortId::parse_below("1", 2), Ok(PortId(1)));
        assert_eq!(PortId::parse_below("77", 1).unwrap_err(), "\"77\" is not a port; allowed are 0 to 0");
        assert!(QueueId::parse_below("0", 0).is_err());
    }
}
