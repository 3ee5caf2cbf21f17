//! What a packet port counts besides what every port counts.

use crate::netif::counts::counts;

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
