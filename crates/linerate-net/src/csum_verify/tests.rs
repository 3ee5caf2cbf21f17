use super::*;
use crate::test_frames::{tagged, tunnelled, v4_tcp, v4_udp, v6_udp};

#[test]
fn no_udp_checksum_is_allowed_where_the_standards_allow_it() {
    let zeroed = |mut frame: Vec<u8>, at: usize| {
        frame[at..at + 2].fill(0);
        verify(&frame, ParseOptions::TUNNELS)
    };
    assert_eq!(zeroed(v4_udp((1, 2), b"payload"), 40).l4, Verdict::Absent);
    assert_eq!(zeroed(tagged(&v4_udp((1, 2), b"payload"), &[0x8100]), 44).l4, Verdict::Absent);
    assert_eq!(zeroed(v6_udp((1, 2), b"payload"), 60).l4, Verdict::Bad);
    let tunnel = zeroed(tunnelled(Tunnel::Vxlan, true, &v4_tcp(b"inside")), 60);
    assert_eq!((tunnel.outer_l4, tunnel.l4), (Verdict::Absent, Verdict::Good));
}

#[test]
fn every_flipped_bit_of_what_is_covered_is_found() {
    for right in
        [v4_udp((1, 2), b"payload"), v4_tcp(b"payload!"), tagged(&v4_udp((1, 2), b"payload"), &[0x8100])]
    {
        let l3 = right.len() - if right[right.len() - 1] == b'!' { 48 } else { 35 };
        let good = verify(&right, ParseOptions::PLAIN);
        assert_eq!((good.ip, good.l4), (Verdict::Good, Verdict::Good));
        for at in l3..right.len() {
            for bit in 0..8 {
                let mut frame = right.clone();
                frame[at] ^= 1 << bit;
                let verdicts = verify(&frame, ParseOptions::PLAIN);
                if at < l3 + 20 {
                    assert!(verdicts.ip.is_bad(), "{at}.{bit}");
                } else {
                    assert_eq!(verdicts.ip, Verdict::Good);
                    assert!(verdicts.l4.is_bad(), "{at}.{bit}: {verdicts:?}");
                }
            }
        }
    }
}

#[test]
fn a_header_alone() {
    let frame = v4_udp((1, 2), b"payload");
    assert_eq!(verify_ipv4_header(&frame[14..]), Verdict::Good);
    let mut bad = frame[14..].to_vec();
    bad[8] ^= 1;
    assert_eq!(verify_ipv4_header(&bad), Verdict::Bad);
    for cut in 0..bad.len() {
        assert_eq!(verify_ipv4_header(&bad[..cut]), Verdict::Invalid);
    }
    bad[0] = 0x44;
    assert_eq!(verify_ipv4_header(&bad), Verdict::Invalid);
    bad[0] = 0x65;
    assert_eq!(verify_ipv4_header(&bad), Verdict::Invalid);
}
