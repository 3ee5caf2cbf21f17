//! The port's side of the stages: what is done by software, and the tables made of what was asked for.

use super::{
    MAX_MAC_ADDRESSES, RETA_SIZE,
    books::RuleHits,
    rule::Compiled,
    stage::{Board, RxStage, inboxes},
    table::{MacFilter, Spread, Table, VlanFilter},
};
use crate::{
    Capabilities, FilterState, FlowId, FlowRule, MacAddress, PortInfo, RssConfig, RssTypes, RxOffloads,
    classify::StageBooks, flow::FlowHits, ids::QueueId, stats::SharedRx,
};
use linerate_net::rss::{HashTypes, ToeplitzKey};
use linerate_ring::RingError;
use std::{collections::BTreeMap, sync::Arc};

/// Key length in software: enough for two IPv6 addresses and ports.
const KEY_LEN: u8 = 40;

// Both name the same bits.
const _: () = assert!(RssTypes::all().bits() == HashTypes::all().bits());

/// What software does for a port.
#[derive(Debug)]
pub(crate) struct Classifier {
    software: Capabilities,
    board: Arc<Board>,
    generation: u64,
    active: bool,
    spread: Option<Arc<Spread>>,
    hits: BTreeMap<FlowId, Arc<RuleHits>>,
    queues: u16,
}

/// What software can do for a device.
///
/// It can only decide about frames that the device lets through: where the device filters addresses and cannot be
/// told to let all pass, its filter stays the only one. Where the device has rules and no spreading, software spreads
/// nothing, since it does not know which frames a rule has sent where they are.
fn software_for(device: Capabilities) -> Capabilities {
    use Capabilities as C;
    let mut software = C::empty();
    if !device.contains(C::FLOW) {
        software |= C::FLOW;
        if !device.contains(C::RSS) {
            software |= C::RSS;
        }
    }
    if !device.contains(C::MAC_FILTER) {
        software |= C::MAC_FILTER;
        if !device.contains(C::PROMISCUOUS) {
            software |= C::PROMISCUOUS;
        }
    }
    if !device.contains(C::VLAN_FILTER) {
        software |= C::VLAN_FILTER;
    }
    software
}

impl Classifier {
    pub(crate) fn new(device: &PortInfo) -> Self {
        Classifier {
            software: software_for(device.capabilities),
            board: Arc::default(),
            generation: 0,
            active: false,
            spread: None,
            hits: BTreeMap::new(),
            queues: 0,
        }
    }

    pub(crate) fn software(&self) -> Capabilities {
        self.software
    }

    pub(crate) fn does(&self, what: Capabilities) -> bool {
        self.software.contains(what)
    }

    /// Whether a stage has anything to do.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// The port as it is with what software adds to the device.
    pub(crate) fn extended(&self, device: &PortInfo) -> PortInfo {
        let mut info = device.clone();
        info.capabilities |= self.software;
        if self.does(Capabilities::RSS) {
            info.rss_types = RssTypes::all();
            info.limits.reta_size = RETA_SIZE;
            info.limits.rss_key_len = KEY_LEN;
            info.rx_offloads |= RxOffloads::RSS_HASH;
        }
        if self.does(Capabilities::MAC_FILTER) {
            info.limits.max_mac_addresses = MAX_MAC_ADDRESSES;
        }
        info
    }

    /// The filters of a port as opened: a device without a filter takes everything.
    pub(crate) fn initial_filters(&self) -> FilterState {
        FilterState { promiscuous: self.does(Capabilities::PROMISCUOUS), ..Default::default() }
    }

    /// Whether the device must take every frame: it was asked to, or software looks for addresses it does not know.
    pub(crate) fn wants_all(&self, filters: &FilterState) -> bool {
        filters.promiscuous || self.does(Capabilities::MAC_FILTER) && !filters.mac.is_empty()
    }

    /// Sets the number of queues that count.
    pub(crate) fn set_queues(&mut self, queues: u16) {
        self.queues = queues;
        for hits in self.hits.values_mut() {
            *hits = Arc::new(RuleHits::new(queues, hits.sum()));
        }
    }

    /// Sets how packets are spread, if software spreads them. Without types nothing is.
    pub(crate) fn set_rss(&mut self, rss: Option<&RssConfig>) {
        let rss = rss.filter(|r| self.does(Capabilities::RSS) && !r.types.is_empty());
        self.spread = rss.map(|r| {
            let types = HashTypes::from_bits_truncate(r.types.bits());
            Arc::new(Spread { key: ToeplitzKey::new(&r.key), types, reta: r.reta.clone().into() })
        });
    }

    pub(crate) fn add_rule(&mut self, id: FlowId) {
        self.hits.insert(id, Arc::new(RuleHits::new(self.queues, FlowHits::default())));
    }

    pub(crate) fn remove_rule(&mut self, id: FlowId) {
        self.hits.remove(&id);
    }

    pub(crate) fn hits(&self, id: FlowId) -> FlowHits {
        self.hits.get(&id).map(|h| h.sum()).unwrap_or_default()
    }

    /// Makes a table of what is asked for, for all stages to go by from their next poll on.
    pub(crate) fn publish(
        &mut self,
        own: MacAddress,
        filters: &FilterState,
        flows: &BTreeMap<FlowId, FlowRule>,
    ) {
        self.generation += 1;
        let mut rules: Vec<_> = flows.iter().filter_map(|(id, r)| Some((r, self.hits.get(id)?))).collect();
        // Stable: equal priorities stay in the order of their numbers.
        rules.sort_by_key(|(r, _)| r.priority);
        let table = Table {
            generation: self.generation,
            macs: self.mac_filter(own, filters),
            vlans: self.vlan_filter(filters),
            rules: rules.into_iter().map(|(r, hits)| Compiled::new(r, hits.clone())).collect(),
            spread: self.spread.clone(),
        };
        self.active = table.is_active();
        self.board.publish(table);
    }

    fn mac_filter(&self, own: MacAddress, filters: &FilterState) -> Option<MacFilter> {
        let wanted = self.does(Capabilities::PROMISCUOUS)
            || self.does(Capabilities::MAC_FILTER) && !filters.mac.is_empty();
        if filters.promiscuous || !wanted {
            return None;
        }
        let mut taken: Vec<_> = filters.mac.iter().map(|m| m.0).chain([own.0]).collect();
        taken.sort_unstable();
        Some(MacFilter { all_multicast: filters.all_multicast, taken: taken.into() })
    }

    fn vlan_filter(&self, filters: &FilterState) -> Option<VlanFilter> {
        if filters.vlans.is_empty() || !self.does(Capabilities::VLAN_FILTER) {
            return None;
        }
        let mut bits = Box::new([0u64; 64]);
        for v in &filters.vlans {
            bits[usize::from(v / 64) % 64] |= 1 << (v % 64);
        }
        Some(VlanFilter(bits))
    }

    /// A stage for each queue, given its descriptors and books, connected with each other; the device
    /// has the first so many of them.
    ///
    /// # Errors
    ///
    /// No memory for the inboxes.
    pub(crate) fn stages(
        &self,
        queues: Vec<(u16, Arc<StageBooks>, SharedRx)>,
        device_queues: u16,
    ) -> Result<Vec<Box<RxStage>>, RingError> {
        let descriptors: Vec<_> = queues.iter().map(|q| q.0).collect();
        let (outs, ins) = inboxes(&descriptors)?;
        let mut ins = ins.into_iter();
        let stage = |(q, (_, books, counters)): (usize, _)| {
            let (queue, has_device) = (QueueId(q as u16), q < device_queues.into());
            RxStage::new(queue, self.board.clone(), (books, counters), has_device, ins.next(), &outs)
        };
        self.board.begin();
        Ok(queues.into_iter().enumerate().map(stage).collect())
    }
}
