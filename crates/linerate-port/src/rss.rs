//! Receive-side scaling: which hash over which fields, and which queue gets which part of it.

use bitflags::bitflags;

bitflags! {
    /// Which packets are hashed over which fields.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RssTypes: u32 {
        /// IPv4 addresses.
        const IPV4 = 1 << 0;
        /// IPv4 addresses and TCP ports.
        const IPV4_TCP = 1 << 1;
        /// IPv4 addresses and UDP ports.
        const IPV4_UDP = 1 << 2;
        /// IPv4 addresses and SCTP ports.
        const IPV4_SCTP = 1 << 3;
        /// IPv6 addresses.
        const IPV6 = 1 << 4;
        /// IPv6 addresses and TCP ports.
        const IPV6_TCP = 1 << 5;
        /// IPv6 addresses and UDP ports.
        const IPV6_UDP = 1 << 6;
        /// IPv6 addresses and SCTP ports.
        const IPV6_SCTP = 1 << 7;
    }
}

/// How packets are spread over the receive queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssConfig {
    /// Hash key; its length is the port's [`rss_key_len`](crate::Limits::rss_key_len).
    pub key: Vec<u8>,
    /// What is hashed.
    pub types: RssTypes,
    /// Redirection table: entry `hash % len` names the queue. Its length is a power of two, at most the port's
    /// [`reta_size`](crate::Limits::reta_size).
    pub reta: Vec<u16>,
}

impl RssConfig {
    /// The key that Microsoft's specification verifies with, and most drivers default to (40 bytes).
    pub const DEFAULT_KEY: [u8; 40] = linerate_net::rss::DEFAULT_KEY;

    /// All queues in turn, with the default key.
    ///
    /// # Panics
    ///
    /// If there is no queue.
    pub fn spread(queues: u16, reta_size: u16, types: RssTypes) -> Self {
        assert!(queues > 0);
        RssConfig { key: Self::DEFAULT_KEY.into(), types, reta: (0..reta_size).map(|i| i % queues).collect() }
    }

    /// What is wrong with it for a port of so many queues and these limits, if anything: what, and why.
    pub fn problem(&self, queues: u16, limits: &crate::Limits, known: RssTypes) -> Option<(String, String)> {
        let n = self.reta.len();
        if self.key.len() != usize::from(limits.rss_key_len) {
            let why = format!("{} bytes; this port wants {}", self.key.len(), limits.rss_key_len);
            return Some(("hash key".into(), why));
        }
        if !n.is_power_of_two() || n > usize::from(limits.reta_size) {
            let why = format!("{n} entries; a power of two up to {} is wanted", limits.reta_size);
            return Some(("redirection table".into(), why));
        }
        if let Some((i, q)) = self.reta.iter().enumerate().find(|(_, q)| **q >= queues) {
            let why = format!("names queue {q}; there are 0 to {}", queues.saturating_sub(1));
            return Some((format!("redirection table entry {i}"), why));
        }
        let unknown = self.types - known;
        if !unknown.is_empty() {
            return Some(("hash types".into(), format!("this port does not know {unknown:?}")));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn a_table_must_fit_and_name_real_queues() {
        let limits = Limits { reta_size: 128, rss_key_len: 40, ..Limits::SOFTWARE };
        let good = RssConfig::spread(3, 64, RssTypes::IPV4);
        assert_eq!(good.problem(3, &limits, RssTypes::all()), None);
        let bad = |f: &dyn Fn(&mut RssConfig)| {
            let mut c = good.clone();
            f(&mut c);
            c.problem(3, &limits, RssTypes::IPV4).unwrap()
        };
        assert_eq!(bad(&|c| c.reta[5] = 3).0, "redirection table entry 5");
        assert_eq!(bad(&|c| c.reta.truncate(63)).0, "redirection table");
        assert_eq!(bad(&|c| c.reta.clear()).0, "redirection table");
        assert_eq!(bad(&|c| c.reta = vec![0; 256]).0, "redirection table");
        assert_eq!(bad(&|c| c.key.truncate(39)).0, "hash key");
        assert_eq!(bad(&|c| c.types = RssTypes::IPV6).0, "hash types");
    }
}
