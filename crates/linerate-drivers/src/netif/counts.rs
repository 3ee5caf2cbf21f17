//! Counters by name, for what a port counts besides what every port counts.

/// A set of named counters of one queue, each with one writer.
macro_rules! counts {
    ($(#[$doc:meta])* $name:ident, $prefix:literal { $($(#[$field_doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: linerate_port::stats::Counter,)*
        }

        impl $name {
            /// By name, for a queue.
            pub(crate) fn xstats(&self, queue: usize, out: &mut Vec<linerate_port::Xstat>) {
                $(out.push(linerate_port::Xstat {
                    name: format!(concat!($prefix, "_q{}_", stringify!($field)), queue),
                    value: self.$field.get(),
                });)*
            }
        }
    };
}
pub(crate) use counts;
