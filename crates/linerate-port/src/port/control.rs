//! What can be changed while a port is configured: MTU, filters, RSS, flow rules, the link; and its events.

use super::Port;
use crate::{
    Capabilities, FilterState, FlowId, FlowRule, LinkState, MacAddress, PortError, PortEvent, RssConfig,
    flow::{FlowError, FlowHits},
    state::{PortState, PortStep},
};

impl Port {
    /// Sets the MTU; the limit is inclusive.
    ///
    /// # Errors
    ///
    /// Out of range, frames would not fit the buffers, or the port is started.
    pub fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        self.step(PortStep::SetMtu)?;
        let l = self.info.limits;
        self.range("MTU", mtu.into(), l.min_mtu.into(), l.max_mtu.into())?;
        for pool in self.pools.iter().flatten() {
            self.check_room(mtu, pool)?;
        }
        self.driver.set_mtu(mtu)?;
        self.config.mtu = mtu;
        Ok(())
    }

    /// Sets promiscuous and all-multicast mode.
    ///
    /// # Errors
    ///
    /// The port cannot.
    pub fn set_promiscuous(&mut self, promiscuous: bool, all_multicast: bool) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.need(Capabilities::PROMISCUOUS, "promiscuous mode")?;
        self.refilter(FilterState { promiscuous, all_multicast, ..self.filters.clone() })
    }

    /// Puts filters up that software has to do with: the device is told what it must let through for them.
    fn refilter(&mut self, filters: FilterState) -> Result<(), PortError> {
        if !self.classifier.does(Capabilities::PROMISCUOUS) {
            let asked = |f: &FilterState, all| (all, f.all_multicast);
            let before = asked(&self.filters, self.classifier.wants_all(&self.filters));
            let after = asked(&filters, self.classifier.wants_all(&filters));
            if after != before || !self.classifier.does(Capabilities::MAC_FILTER) {
                self.driver.set_promiscuous(after.0, after.1)?;
            }
        }
        self.filters = filters;
        self.reclassify();
        Ok(())
    }

    /// Adds (or removes) a MAC address besides the port's own. Adding one twice changes nothing.
    ///
    /// # Errors
    ///
    /// Not assignable (a group is, as a filter), too many, or the port cannot.
    pub fn set_mac(&mut self, address: MacAddress, add: bool) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.need(Capabilities::MAC_FILTER, "filter for MAC addresses")?;
        if address == MacAddress::default() {
            let (what, why) = (address.to_string(), "the zero address addresses nobody".into());
            return Err(PortError::Invalid { port: self.id, what, why });
        }
        if add == self.filters.mac.contains(&address) {
            return Ok(());
        }
        if add {
            let (have, max) = (self.filters.mac.len() as u64 + 2, self.info.limits.max_mac_addresses.into());
            self.range("MAC addresses", have, 1, max)?;
        }
        let mut filters = self.filters.clone();
        if add {
            filters.mac.insert(address)
        } else {
            filters.mac.remove(&address)
        };
        if self.classifier.does(Capabilities::MAC_FILTER) {
            return self.refilter(filters);
        }
        self.driver.set_mac(address, add)?;
        self.filters = filters;
        Ok(())
    }

    /// Adds (or removes) a VLAN to those taken; with none, all are.
    ///
    /// # Errors
    ///
    /// Over 4094, or the port cannot.
    pub fn set_vlan(&mut self, vlan: u16, add: bool) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.need(Capabilities::VLAN_FILTER, "filter for VLANs")?;
        self.range("VLAN", vlan.into(), 0, 4094)?;
        if add == self.filters.vlans.contains(&vlan) {
            return Ok(());
        }
        let software = self.classifier.does(Capabilities::VLAN_FILTER);
        if !software {
            self.driver.set_vlan(vlan, add)?;
        }
        if add {
            self.filters.vlans.insert(vlan)
        } else {
            self.filters.vlans.remove(&vlan)
        };
        if software {
            self.reclassify();
        }
        Ok(())
    }

    /// The filters that stand.
    pub fn filters(&self) -> &FilterState {
        &self.filters
    }

    /// Sets hash key, types and redirection table. Without types nothing is spread, where software does it.
    ///
    /// # Errors
    ///
    /// They do not fit the port, or it cannot.
    pub fn set_rss(&mut self, rss: RssConfig) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.check_rss(&rss, self.config.rx_queues)?;
        if self.classifier.does(Capabilities::RSS) {
            self.classifier.set_rss(Some(&rss));
            self.reclassify();
        } else {
            self.driver.set_rss(&rss)?;
        }
        self.config.rss = Some(rss);
        Ok(())
    }

    /// Creates a flow rule.
    ///
    /// # Errors
    ///
    /// The rule is wrong, or the port cannot.
    pub fn create_flow(&mut self, rule: FlowRule) -> Result<FlowId, PortError> {
        self.step(PortStep::Adjust)?;
        rule.check(self.config.rx_queues).map_err(|source| PortError::Flow { port: self.id, source })?;
        self.need(Capabilities::FLOW, "flow rules")?;
        let id = FlowId(self.next_flow);
        let software = self.classifier.does(Capabilities::FLOW);
        if !software {
            self.driver.create_flow(id, &rule)?;
        }
        self.next_flow += 1;
        self.flows.insert(id, rule);
        if software {
            self.classifier.add_rule(id);
            self.reclassify();
        }
        Ok(id)
    }

    /// Destroys a flow rule.
    ///
    /// # Errors
    ///
    /// No such rule, or the driver refuses.
    pub fn destroy_flow(&mut self, id: FlowId) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.flow(id)?;
        let software = self.classifier.does(Capabilities::FLOW);
        if !software {
            self.driver.destroy_flow(id)?;
        }
        self.flows.remove(&id);
        if software {
            self.classifier.remove_rule(id);
            self.reclassify();
        }
        Ok(())
    }

    fn flow(&self, id: FlowId) -> Result<&FlowRule, PortError> {
        let source = FlowError::NoSuchRule { id: id.0 };
        self.flows.get(&id).ok_or(PortError::Flow { port: self.id, source })
    }

    /// What a rule has seen.
    ///
    /// # Errors
    ///
    /// No such rule.
    pub fn flow_hits(&self, id: FlowId) -> Result<FlowHits, PortError> {
        self.flow(id)?;
        if self.classifier.does(Capabilities::FLOW) {
            return Ok(self.classifier.hits(id));
        }
        Ok(self.driver.flow_hits(id))
    }

    /// The rules that stand, by number.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, &FlowRule)> {
        self.flows.iter().map(|(id, r)| (*id, r))
    }

    /// Sets the link up or down.
    ///
    /// # Errors
    ///
    /// The port cannot.
    pub fn set_link(&mut self, up: bool) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.need(Capabilities::LINK_CONTROL, "link control")?;
        self.driver.set_link(up)
    }

    /// The link as it is now.
    pub fn link(&mut self) -> LinkState {
        self.look();
        self.events.link_now()
    }

    /// Everything that happened since the last call, in order.
    pub fn events(&mut self) -> Vec<PortEvent> {
        self.look();
        self.events.take()
    }

    /// Lets the driver look at its device, if it still has one.
    fn look(&mut self) {
        if self.state != PortState::Closed {
            self.driver.poll_events();
        }
    }
}
