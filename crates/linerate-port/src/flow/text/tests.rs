use super::*;
use proptest::prelude::*;

fn read(text: &str) -> FlowRule {
    text.parse().unwrap_or_else(|e: SpecError| panic!("{e} ({})", e.hint()))
}

#[test]
fn a_rule_is_read_and_written() {
    let text = "pattern eth / ipv4 src is 10.0.0.1 / udp dst spec 80 dst mask 0xfff0 / end \
                actions queue index 1 / mark id 7 / count / end";
    let rule = read(text);
    let want = FlowRule {
        priority: 0,
        pattern: vec![
            FlowItem::Eth { dst: None, src: None, ethertype: None },
            FlowItem::Ipv4 {
                src: Some(Match { spec: Ipv4Addr::new(10, 0, 0, 1), mask: Ipv4Addr::BROADCAST }),
                dst: None,
                proto: None,
                tos: None,
            },
            FlowItem::Udp { src: None, dst: Some(Match { spec: 80, mask: 0xfff0 }) },
        ],
        actions: vec![FlowAction::Queue(1), FlowAction::Mark(7), FlowAction::Count],
    };
    assert_eq!(rule, want);
    assert_eq!(rule.to_string(), text.replace("0xfff0", "65520"));
    assert_eq!(read("priority 9 ingress priority 3 group 0 pattern end actions drop / end").priority, 3);
}

#[test]
fn what_stands_for_the_same_reads_the_same() {
    for (a, b) in [
        ("ipv4 src spec 10.1.2.3 src prefix 8", "ipv4 src spec 10.0.0.0 src mask 255.0.0.0"),
        ("ipv4 src prefix 8 src spec 10.0.0.0", "ipv4 src spec 10.0.0.0 src prefix 8"),
        ("ipv4 src spec 10.0.0.1", "ipv4 src is 10.0.0.1"),
        ("ipv4 src is 1.2.3.4 src is 10.0.0.1", "ipv4 src is 10.0.0.1"),
        ("ipv6 dst spec 2001:db8::9 dst prefix 32", "ipv6 dst spec 2001:db8:: dst mask ffff:ffff::"),
        ("vlan pcp is 5 vid is 3", "vlan tci spec 0xa003 tci mask 0xefff"),
        ("vlan tci is 0xffff vid is 3", "vlan tci is 0xf003"),
        ("vlan dei is 1", "vlan tci spec 0x1000 tci mask 0x1000"),
        ("eth type is 2048", "void / eth type is 0x800"),
        (
            "eth dst spec 01:80:c2:00:00:0e dst prefix 24",
            "eth dst spec 1:80:c2:0:0:0 dst mask ff:ff:ff:0:0:0",
        ),
        ("ipv4 / tcp flags spec 0x12 flags mask 2", "ipv4 / tcp flags spec 2 flags mask 0x2 / void"),
        ("ipv4 proto is 6 tos spec 0xb8 tos mask 0xfc", "ipv4 tos spec 184 tos prefix 6 proto is 6"),
        ("ipv6 / icmp6 type is 128 code is 0", "ipv6 / icmp6 code is 0 type is 128"),
    ] {
        let whole = |p: &str| read(&format!("pattern {p} / end actions drop / end"));
        assert_eq!(whole(a), whole(b), "{a}");
    }
    let actions = |a: &str| read(&format!("pattern end actions {a} / end")).actions;
    assert_eq!(
        actions("mark id 1 / queue index 2 / mark id 3 / void / queue index 4"),
        [FlowAction::Mark(3), FlowAction::Queue(4)]
    );
}

#[test]
fn errors_point_at_the_word() {
    // The marked part in brackets.
    for marked in [
        "[patern] end actions drop / end",
        "[egress] pattern end actions drop / end",
        "group [1] pattern end actions drop / end",
        "priority [4294967296] pattern end actions drop / end",
        "priority [-1] pattern end actions drop / end",
        "priority [010] pattern end actions drop / end",
        "pattern [eht] / end actions drop / end",
        "pattern eth [end] actions drop / end",
        "pattern eth [dts] is 1:2:3:4:5:6 / end actions drop / end",
        "pattern eth dst [equals] 1:2:3:4:5:6 / end actions drop / end",
        "pattern eth dst is [1:2:3:4:5] / end actions drop / end",
        "pattern ipv4 src is [10.0.0.0/8] / end actions drop / end",
        "pattern ipv4 src [last] 10.0.0.9 / end actions drop / end",
        "pattern ipv4 src spec 10.0.0.0 src prefix [33] / end actions drop / end",
        "pattern ipv4 src [mask] 255.0.0.0 / end actions drop / end",
        "pattern vlan vid is [4096] / end actions drop / end",
        "pattern ipv4 / [eth] / end actions drop / end",
        "pattern eth / [udp] / end actions drop / end",
        "pattern ipv6 / [icmp] / end actions drop / end",
        "pattern vlan / vlan / vlan / vlan / vlan / vlan / vlan / vlan / [vlan] / end actions drop / end",
        "pattern end [action] drop / end",
        "pattern end actions [dorp] / end",
        "pattern end actions [end]",
        "pattern end actions count / [end]",
        "pattern end actions drop / [queue] index 1 / end",
        "pattern end actions queue [1] / end",
        "pattern end actions queue index [65535] / end",
        "pattern end actions mark id [x] / end",
        "pattern end actions drop / end [drop]",
    ] {
        let text = marked.replace(['[', ']'], "");
        let e = text.parse::<FlowRule>().expect_err(marked);
        let (from, to) = (marked.find('[').unwrap(), marked.find(']').unwrap() - 1);
        assert_eq!((e.at, e.len), (from, to - from), "{e}");
        assert!(!e.hint().is_empty());
    }
    // Cut off anywhere, it points at the end or at a word that is no longer whole.
    let whole = "priority 1 pattern eth / ipv4 src is 10.0.0.1 / end actions queue index 1 / count / end";
    for (cut, _) in whole.char_indices() {
        let e = whole[..cut].parse::<FlowRule>().expect_err("it is not whole");
        assert!(!e.to_string().is_empty() && e.at <= cut);
    }
    let e = "pattern ipv44 / end actions drop / end".parse::<FlowRule>().unwrap_err();
    assert!(e.hint().starts_with("did you mean `ipv4`?"), "{}", e.hint());
}

fn matching<T: Copy + core::fmt::Debug + 'static>(
    value: impl Strategy<Value = (u128, u128)> + Clone + 'static,
    to: fn(u128) -> T,
) -> BoxedStrategy<Option<Match<T>>> {
    proptest::option::of(value.prop_map(move |(s, m)| Match { spec: to(s & m), mask: to(m) })).boxed()
}

fn any_item() -> impl Strategy<Value = FlowItem> {
    // Whole, prefixes, anything.
    let mask = prop_oneof![Just(u128::MAX), (0..=128u32).prop_map(|n| !ones(n)), any::<u128>()];
    let value = (any::<u128>(), mask);
    let mac = |n: u128| MacAddress(((n >> 80) as u64).to_be_bytes()[2..].try_into().unwrap());
    let v4 = |n: u128| Ipv4Addr::from_bits((n >> 96) as u32);
    let (word, byte) = (|n: u128| (n >> 112) as u16, |n: u128| (n >> 120) as u8);
    let m = move || matching(value.clone(), mac);
    let value =
        (any::<u128>(), prop_oneof![Just(u128::MAX), (0..=128u32).prop_map(|n| !ones(n)), any::<u128>()]);
    let (a, b, c, d) = (value.clone(), value.clone(), value.clone(), value);
    let w = move || matching(a.clone(), word);
    let y = move || matching(b.clone(), byte);
    let f = move || matching(c.clone(), v4);
    let s = move || matching(d.clone(), Ipv6Addr::from_bits);
    prop_oneof![
        (m(), m(), w()).prop_map(|(dst, src, ethertype)| FlowItem::Eth { dst, src, ethertype }),
        (w(), w()).prop_map(|(tci, inner_type)| FlowItem::Vlan { tci, inner_type }),
        (f(), f(), y(), y()).prop_map(|(src, dst, proto, tos)| FlowItem::Ipv4 { src, dst, proto, tos }),
        (s(), s(), y()).prop_map(|(src, dst, proto)| FlowItem::Ipv6 { src, dst, proto }),
        (w(), w(), y()).prop_map(|(src, dst, flags)| FlowItem::Tcp { src, dst, flags }),
        (w(), w()).prop_map(|(src, dst)| FlowItem::Udp { src, dst }),
        (w(), w()).prop_map(|(src, dst)| FlowItem::Sctp { src, dst }),
        (y(), y()).prop_map(|(kind, code)| FlowItem::Icmp { kind, code }),
        (y(), y()).prop_map(|(kind, code)| FlowItem::Icmp6 { kind, code }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_reads_back(
        mut pattern in proptest::collection::vec(any_item(), 0..6),
        priority in prop_oneof![Just(0), any::<u32>()],
        fate in prop_oneof![Just(FlowAction::Drop), (0..u16::MAX).prop_map(FlowAction::Queue)],
        mark in proptest::option::of(any::<u32>()),
        count in any::<bool>(),
    ) {
        // In an order that is allowed.
        pattern.sort_by_key(FlowItem::layer);
        pattern.dedup_by(|a, b| a.layer() == b.layer() && a.layer() != 1);
        let mut actions = vec![fate];
        actions.extend(mark.map(FlowAction::Mark));
        actions.extend(count.then_some(FlowAction::Count));
        let rule = FlowRule { priority, pattern, actions };
        match (rule.check(u16::MAX), rule.to_string().parse::<FlowRule>()) {
            (Ok(()), read) => prop_assert_eq!(read, Ok(rule)),
            (Err(_), read) => prop_assert!(read.is_err(), "{} was taken", rule),
        }
    }

    #[test]
    fn no_text_makes_it_panic(words in proptest::collection::vec(prop_oneof![
        proptest::sample::select(vec![
            "pattern", "actions", "end", "/", "eth", "vlan", "ipv4", "ipv6", "tcp", "udp", "icmp6", "void", "src",
            "dst", "type", "vid", "tci", "is", "spec", "mask", "prefix", "last", "queue", "index", "mark", "id",
            "count", "drop", "priority", "group", "ingress", "egress", "1", "0x", "0xffff", "128", "10.0.0.1", "::1",
            "1:2:3:4:5:6", "340282366920938463463374607431768211456", "\u{fc}", "\u{2003}", "\0",
        ]).prop_map(String::from),
        ".{0,6}",
    ], 0..24)) {
        let text = words.join(" ");
        match text.parse::<FlowRule>() {
            Ok(rule) => prop_assert_eq!(rule.to_string().parse(), Ok(rule)),
            Err(e) => prop_assert!(!e.to_string().is_empty()),
        }
    }
}
