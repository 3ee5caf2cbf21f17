//! The forwarding modes, a file each, and what they are made from.

pub(super) mod csum;
pub(super) mod five_tuple;
pub(super) mod flowgen;
mod gather;
pub(super) mod icmpecho;
pub(super) mod io;
pub(super) mod mac;
pub(super) mod macswap;
pub(super) mod noisy;
pub(super) mod rxonly;
pub(super) mod txonly;

use super::topology::Topology;
use linerate_mbuf::{Mbuf, Mempool, OlFlags, TxOffload};
use linerate_net::MacAddr;

/// The modes by name, as `--forward-mode` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ModeName {
    /// Packets go on as they came, not a byte touched
    Io,
    /// Destination MAC := the peer's of the transmit port, source MAC := the port's own
    Mac,
    /// Source and destination MAC are exchanged
    Macswap,
    /// MACs, IP addresses and TCP/UDP ports are exchanged
    #[value(name = "5tswap")]
    FiveTupleSwap,
    /// Packets are received and freed
    Rxonly,
    /// UDP packets are made and sent, none received
    Txonly,
    /// MACs are set as in mac, every checksum is computed anew in software
    Csum,
    /// ARP and ICMP echo requests are answered on the port of arrival, all else is freed
    Icmpecho,
    /// UDP packets of many flows are made and sent, those received are freed
    Flowgen,
    /// Packets wait in a FIFO and memory is read and written by chance, as by a neighbour that wears out the caches
    Noisy,
}

impl ModeName {
    /// The name as reports print it.
    pub fn as_str(self) -> &'static str {
        match self {
            ModeName::Io => "io",
            ModeName::Mac => "mac",
            ModeName::Macswap => "macswap",
            ModeName::FiveTupleSwap => "5tswap",
            ModeName::Rxonly => "rxonly",
            ModeName::Txonly => "txonly",
            ModeName::Csum => "csum",
            ModeName::Icmpecho => "icmpecho",
            ModeName::Flowgen => "flowgen",
            ModeName::Noisy => "noisy",
        }
    }

    /// How ports are joined when `wanted` was asked for: what answers does so on the port of arrival.
    pub fn topology(self, wanted: Topology) -> Topology {
        if self == ModeName::Icmpecho { Topology::Loop } else { wanted }
    }

    /// Whether packets come back that can be told from the ones that were sent.
    pub fn sends_back(self) -> bool {
        !matches!(self, ModeName::Rxonly | ModeName::Icmpecho)
    }

    /// Whether packets are counted as they are sent: for the modes that make them.
    pub fn counts_sent(self) -> bool {
        matches!(self, ModeName::Txonly | ModeName::Flowgen)
    }
}

/// What a mode needs to know of the stream that it works for.
#[derive(Clone, Debug)]
pub(super) struct StreamContext {
    /// MAC address of the peer of the transmit port.
    pub peer: MacAddr,
    /// MAC address of the transmit port.
    pub own: MacAddr,
    /// Where a mode that makes packets takes buffers.
    pub pool: Mempool,
    /// Number of the forwarding core.
    pub core: u8,
}

/// What a mode that rewrites a packet says about it to the transmit port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests {
    flags: OlFlags,
    lengths: TxOffload,
}

impl Requests {
    /// No transmit offload; Ethernet, and IPv4 without options.
    pub const NONE: Requests =
        Requests { flags: OlFlags::empty(), lengths: TxOffload::NONE.with_l2_len(14).with_l3_len(20) };

    /// Replaces what the receive port said. The tags stay: without a flag that asks for one, nobody reads them.
    #[inline(always)]
    pub fn apply(&self, m: &mut Mbuf) {
        m.set_ol_flags(self.flags);
        m.set_tx_offload(self.lengths);
    }
}

#[cfg(test)]
mod tests;
