//! What a packet port counts besides what every port counts.

use linerate_port::{Xstat, stats::Counter};

macro_rules! counts {
    ($(#[$doc:meta])* $name:ident, $prefix:literal { $($(#[$field_doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name {
            $($(#[$field_doc])* pub(super) $field: Counter,)*
        }

        impl $name {
            /// By name, for a queue.
            pub(super) fn xstats(&self, queue: usize, out: &mut Vec<Xstat>) {
                $(out.push(Xstat {
                    name: format!(concat!($prefix, "_q{}_", stringify!($field)), queue),
                    value: self.$field.get(),
                });)*
            }
        }
    };
}

counts! {
    /// Of a receive queue.
    RxCounts, "rx" {
        /// Frames longer than a buffer, dropped.
        too_long,
        /// Frames longer than a slot that came through the socket's queue.
        through_socket,
        /// Frames whose checksum was completed here.
        checksums_completed,
        /// Long frames that were cut into ordinary ones.
        long_frames_cut,
        /// Frames that could not be finished, or whose description lies; dropped.
        unfit,
        /// Frames with a VLAN tag that the kernel had taken out.
        vlan_tags,
    }
}

counts! {
    /// Of a transmit queue.
    TxCounts, "tx" {
        /// System calls to send.
        kicks,
        /// Of these, put off by the kernel for want of socket memory (EAGAIN).
        again,
        /// Of these, put off because the interface's queue was full (ENOBUFS).
        no_buffers,
        /// Of these, put off because the interface is down.
        link_down,
        /// Of these, failed for another reason.
        kick_errors,
        /// Sends that found no free slot.
        ring_full,
        /// Frames too long or too short for the interface, dropped.
        bad_length,
        /// Frames thrown away by stop because the kernel had not taken them.
        discarded_at_stop,
    }
}
