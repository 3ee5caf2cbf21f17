//! Addresses and VLANs, and what is done by whom.

use super::bench::*;
use crate::{Capabilities as C, MacAddress, PortError};

fn to(mac: [u8; 6]) -> Vec<u8> {
    let mut f = v4_udp([1, 2, 3, 4], [5, 6, 7, 8], (1, 2));
    f[..6].copy_from_slice(&mac);
    f
}

const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 0x77];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 1];
const GROUP2: [u8; 6] = [1, 0, 0x5e, 0, 0, 2];
const ALL: [u8; 6] = [0xff; 6];

#[test]
fn addresses_are_filtered_when_asked() {
    let mut b = Bench::plain(1);
    let kinds = [DST, OTHER, GROUP, GROUP2, ALL];
    let takes = |b: &mut Bench| kinds.map(|k| b.one(&to(k)).is_some());
    assert!(b.port.filters().promiscuous, "a device without filter takes everything");
    assert_eq!(takes(&mut b), [true; 5]);
    assert!(!b.rx[0].is_staged());
    b.port.set_promiscuous(false, false).unwrap();
    assert_eq!(takes(&mut b), [true, false, false, false, true]);
    b.port.set_promiscuous(false, true).unwrap();
    assert_eq!(takes(&mut b), [true, false, true, true, true]);
    b.port.set_promiscuous(false, false).unwrap();
    b.port.set_mac(MacAddress(OTHER), true).unwrap();
    b.port.set_mac(MacAddress(GROUP2), true).unwrap();
    assert_eq!(takes(&mut b), [true, true, false, true, true]);
    b.port.set_mac(MacAddress(OTHER), false).unwrap();
    assert_eq!(takes(&mut b), [true, false, false, true, true]);
    // Too short to have an address.
    assert!(b.one(&[2, 0, 0, 0, 0]).is_none());
    assert_eq!(b.xstat("rx_filtered_packets"), 3 + 1 + 1 + 2 + 1);
    b.port.set_promiscuous(true, false).unwrap();
    assert_eq!(takes(&mut b), [true; 5]);
    for i in 0..126 {
        b.port.set_mac(MacAddress([2, 1, 0, 0, 0, i]), true).unwrap();
    }
    let e = b.port.set_mac(MacAddress([2, 2, 0, 0, 0, 0]), true);
    assert!(matches!(e, Err(PortError::Range { max: 128, .. })), "{e:?}");
    b.end();
}

#[test]
fn vlans_are_filtered_by_the_outermost_tag() {
    for strips in [false, true] {
        let mut b = Bench::new(Device { strips, ..Default::default() }, 1, None);
        let plain = v4_udp([1, 2, 3, 4], [5, 6, 7, 8], (1, 2));
        let frames = [
            plain.clone(),
            tagged(&plain, &[(0x8100, 0xe000)]),
            tagged(&plain, &[(0x8100, 0x2005)]),
            tagged(&plain, &[(0x8100, 6)]),
            tagged(&plain, &[(0x8100, 4094), (0x8100, 5)]),
        ];
        let takes = |b: &mut Bench| frames.each_ref().map(|f| b.one(f).is_some());
        assert_eq!(takes(&mut b), [true; 5]);
        b.port.set_vlan(5, true).unwrap();
        assert_eq!(takes(&mut b), [true, true, true, false, false]);
        b.port.set_vlan(4094, true).unwrap();
        b.port.set_vlan(5, false).unwrap();
        assert_eq!(takes(&mut b), [true, true, false, false, true]);
        b.port.set_vlan(4094, false).unwrap();
        assert_eq!(takes(&mut b), [true; 5]);
        b.end();
    }
}

#[test]
fn software_does_what_the_device_cannot_and_nothing_else() {
    let all = C::FLOW | C::RSS | C::MAC_FILTER | C::PROMISCUOUS | C::VLAN_FILTER;
    for (device, software) in [
        (C::empty(), all),
        (all, C::empty()),
        (C::PROMISCUOUS, all - C::PROMISCUOUS),
        // What the device keeps back nobody can have.
        (C::MAC_FILTER, C::FLOW | C::RSS | C::VLAN_FILTER),
        (C::FLOW, all - C::FLOW - C::RSS),
        (C::RSS, all - C::RSS),
    ] {
        let b = Bench::new(Device { capabilities: device, ..Default::default() }, 1, None);
        assert_eq!(b.port.software(), software, "{device:?}");
        assert_eq!(b.port.info().capabilities, device | software);
        assert_eq!(b.port.device_info().capabilities, device);
        b.end();
    }
    let b = Bench::plain(1);
    let info = b.port.info();
    assert_eq!((info.limits.reta_size, info.limits.rss_key_len), (512, 40));
    b.end();
}

#[test]
fn a_device_that_filters_its_own_address_is_opened_for_others() {
    let device = Device { capabilities: C::PROMISCUOUS, ..Default::default() };
    let asked = device.wire.promiscuous.clone();
    let mut b = Bench::new(device, 1, None);
    let said = || std::mem::take(&mut *asked.lock().unwrap());
    assert!(!b.port.filters().promiscuous);
    b.port.set_mac(MacAddress(OTHER), true).unwrap();
    assert_eq!(said(), [(true, false)]);
    // The device lets all pass now.
    assert!(b.one(&to(OTHER)).is_some() && b.one(&to(DST)).is_some() && b.one(&to(GROUP)).is_none());
    b.port.set_promiscuous(true, true).unwrap();
    assert!(b.one(&to(GROUP)).is_some());
    b.port.set_promiscuous(false, false).unwrap();
    b.port.set_mac(MacAddress(OTHER), false).unwrap();
    assert_eq!(said(), [(true, true), (true, false), (false, false)]);
    // Its filter is the only one again.
    assert!(b.one(&to(GROUP)).is_some());
    b.end();
}
