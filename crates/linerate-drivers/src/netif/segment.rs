//! Finishing frames that the kernel left to the device: layer-4 checksums, and long frames that are to be cut.
//!
//! A sender in the same machine hands out TCP frames of up to 64 KiB without checksum, in the belief that the
//! device cuts and sums them. A port that passed them on would send what no network carries. Nothing here
//! trusts a length: what does not fit together is refused.

use super::vnet::{Cut, VnetHeader};
use linerate_net::checksum::{Sum, pseudo_v4, pseudo_v6};

const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Completes a checksum that covers the pseudo header only; false, and no change, if the header lies.
pub(crate) fn complete_checksum(frame: &mut [u8], h: &VnetHeader) -> bool {
    let start = usize::from(h.csum_start);
    let field = start + usize::from(h.csum_offset);
    if start >= frame.len() || field + 2 > frame.len() {
        return false;
    }
    let sum = Sum::of(&frame[start..]).to_wire_udp();
    frame[field..field + 2].copy_from_slice(&sum);
    true
}

/// A long frame that is cut into ordinary ones, one by one.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    frame: Vec<u8>,
    /// Where the IP header starts.
    l3: usize,
    /// Where the TCP or UDP header starts.
    l4: usize,
    /// Where the payload starts.
    payload: usize,
    /// Payload bytes of a piece.
    piece: usize,
    /// Payload bytes given out.
    done: usize,
    pieces: u16,
    tcp: bool,
    v6: bool,
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*b.get(at..)?.first_chunk()?))
}

impl Cutter {
    /// Takes a frame over; false if it is not one that can be cut. An empty vector, or the former one, comes
    /// back in its place.
    pub(crate) fn load(&mut self, frame: &mut Vec<u8>, h: &VnetHeader) -> bool {
        std::mem::swap(&mut self.frame, frame);
        let fits = self.measure(h).is_some();
        if !fits {
            self.clear();
        }
        fits
    }

    /// Forgets what is left.
    pub(crate) fn clear(&mut self) {
        self.frame.clear();
        (self.payload, self.done) = (0, 0);
    }

    fn measure(&mut self, h: &VnetHeader) -> Option<()> {
        let f = self.frame.as_slice();
        let mut at = 12;
        let mut ethertype = be16(f, at)?;
        while matches!(ethertype, 0x8100 | 0x88a8) && at < 12 + 8 {
            at += 4;
            ethertype = be16(f, at)?;
        }
        self.l3 = at + 2;
        self.l4 = usize::from(h.csum_start);
        self.tcp = h.cut() == Cut::Tcp;
        let protocol = if self.tcp { TCP } else { UDP };
        // A tunnel's inner header would be a second thing to mend: where the checksum starts tells.
        match ethertype {
            0x0800 => {
                let first = *f.get(self.l3)?;
                let whole = first >> 4 == 4 && usize::from(first & 15) * 4 + self.l3 == self.l4;
                (whole && first & 15 >= 5 && *f.get(self.l3 + 9)? == protocol).then_some(())?;
                self.v6 = false;
            }
            0x86dd => {
                (f.get(self.l3)? >> 4 == 6).then_some(())?;
                (self.upper_v6(protocol)? == self.l4).then_some(())?;
                self.v6 = true;
            }
            _ => return None,
        }
        let header = if self.tcp { usize::from(f.get(self.l4 + 12)? >> 4) * 4 } else { 8 };
        (header >= if self.tcp { 20 } else { 8 }).then_some(())?;
        self.payload = self.l4 + header;
        self.piece = h.gso_size.into();
        let len = f.len().checked_sub(self.payload).filter(|&n| n > 0)?;
        (self.piece > 0 && len.div_ceil(self.piece) <= usize::from(u16::MAX)).then_some(())?;
        (self.payload - self.l3 + self.piece.min(len) <= usize::from(u16::MAX)).then_some(())?;
        (self.done, self.pieces) = (0, 0);
        Some(())
    }

    /// Where the header of `protocol` starts behind IPv6's extension headers.
    fn upper_v6(&self, protocol: u8) -> Option<usize> {
        let f = self.frame.as_slice();
        let (mut next, mut at) = (*f.get(self.l3 + 6)?, self.l3 + 40);
        for _ in 0..8 {
            if next == protocol {
                return Some(at);
            }
            if !matches!(next, 0 | 43 | 60) {
                return None;
            }
            next = *f.get(at)?;
            at += (usize::from(*f.get(at + 1)?) + 1) * 8;
        }
        None
    }

    /// Length of the next piece as a frame; 0 = all of it was given out.
    pub(crate) fn next_len(&self) -> usize {
        let left = self.frame.len().saturating_sub(self.payload + self.done);
        if self.frame.is_empty() || left == 0 { 0 } else { self.payload + left.min(self.piece) }
    }

    /// Writes the next piece, [`next_len`](Self::next_len) bytes, in place of what `out` held.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) {
        let len = self.next_len();
        out.resize(len, 0);
        self.write_next(out);
    }

    /// Writes the next piece to `out`, which is [`next_len`](Self::next_len) bytes long.
    pub(crate) fn write_next(&mut self, out: &mut [u8]) {
        let len = self.next_len();
        if len == 0 || out.len() != len {
            return;
        }
        let (from, n) = (self.payload + self.done, len - self.payload);
        let (headers, data) = out.split_at_mut(self.payload);
        headers.copy_from_slice(&self.frame[..self.payload]);
        data.copy_from_slice(&self.frame[from..from + n]);
        let last = from + n == self.frame.len();
        self.mend(out, last);
        self.done += n;
        self.pieces = self.pieces.wrapping_add(1);
        if last {
            self.clear();
        }
    }

    /// Lengths, identification, sequence number, flags and checksums of a piece. All offsets lie before
    /// `payload`, which `measure` saw to be within the frame.
    fn mend(&self, f: &mut [u8], last: bool) {
        let (l3, l4, end) = (self.l3, self.l4, f.len());
        let l4_len = end - l4;
        if self.tcp {
            let seq = u32::from_be_bytes([f[l4 + 4], f[l4 + 5], f[l4 + 6], f[l4 + 7]]);
            let seq = seq.wrapping_add(self.done as u32);
            f[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
            if !last {
                f[l4 + 13] &= !FIN_PSH;
            }
            if self.done > 0 {
                f[l4 + 13] &= !CWR;
            }
        } else {
            f[l4 + 4..l4 + 6].copy_from_slice(&(l4_len as u16).to_be_bytes());
        }
        let protocol = if self.tcp { TCP } else { UDP };
        let pseudo = if self.v6 {
            let payload = (end - l3 - 40) as u16;
            f[l3 + 4..l3 + 6].copy_from_slice(&payload.to_be_bytes());
            let mut addresses = [[0; 16]; 2];
            addresses[0].copy_from_slice(&f[l3 + 8..l3 + 24]);
            addresses[1].copy_from_slice(&f[l3 + 24..l3 + 40]);
            pseudo_v6(&addresses[0], &addresses[1], protocol, l4_len as u32)
        } else {
            let id = u16::from_be_bytes([f[l3 + 4], f[l3 + 5]]).wrapping_add(self.pieces);
            f[l3 + 2..l3 + 4].copy_from_slice(&((end - l3) as u16).to_be_bytes());
            f[l3 + 4..l3 + 6].copy_from_slice(&id.to_be_bytes());
            f[l3 + 10..l3 + 12].fill(0);
            let sum = Sum::of(&f[l3..l4]).to_wire();
            f[l3 + 10..l3 + 12].copy_from_slice(&sum);
            let (mut src, mut dst) = ([0; 4], [0; 4]);
            src.copy_from_slice(&f[l3 + 12..l3 + 16]);
            dst.copy_from_slice(&f[l3 + 16..l3 + 20]);
            pseudo_v4(src, dst, protocol, l4_len as u16)
        };
        let field = l4 + if self.tcp { 16 } else { 6 };
        f[field..field + 2].fill(0);
        let sum = pseudo.plus(Sum::of(&f[l4..])).to_wire_udp();
        f[field..field + 2].copy_from_slice(&sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_net::checksum::checksum;

    fn header(gso_type: u8, l4: usize, gso: u16, offset: u16) -> VnetHeader {
        VnetHeader {
            flags: 1,
            gso_type,
            hdr_len: 0,
            gso_size: gso,
            csum_start: l4 as u16,
            csum_offset: offset,
        }
    }

    /// Ethernet, `tags` VLAN tags, IP, TCP or UDP and a payload that counts up.
    fn long(tags: usize, v6: bool, tcp: bool, payload: usize) -> (Vec<u8>, usize) {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for t in 0..tags {
            f.extend([0x81, 0, 0, t as u8 + 5]);
        }
        let l4_header = if tcp { 32 } else { 8 };
        let protocol = if tcp { 6 } else { 17 };
        if v6 {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
            f.extend([0xfd; 15].iter().chain(&[1]).chain(&[0xfd; 15]).chain(&[2]));
        } else {
            let n = ((20 + l4_header + payload) as u16).to_be_bytes();
            f.extend([8, 0, 0x45, 0, n[0], n[1], 0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0]);
            f.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        }
        let l4 = f.len();
        if tcp {
            f.extend([0x12, 0x34, 0, 80, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x80, 0x99, 1, 0, 0, 0, 0, 0]);
            f.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        } else {
            f.extend([0x12, 0x34, 0, 80, 0, 0, 0, 0]);
        }
        f.extend((0..payload).map(|i| i as u8));
        (f, l4)
    }

    fn l4_sum_is_right(f: &[u8], l3: usize, l4: usize, v6: bool) -> bool {
        let mut pseudo = if v6 { f[l3 + 8..l3 + 40].to_vec() } else { f[l3 + 12..l3 + 20].to_vec() };
        let protocol = if v6 { f[l3 + 6] } else { f[l3 + 9] };
        pseudo.extend([0, protocol]);
        pseudo.extend(((f.len() - l4) as u16).to_be_bytes());
        pseudo.extend(&f[l4..]);
        checksum(&pseudo) == 0
    }

    #[test]
    fn pieces_are_whole_frames_with_right_numbers() {
        for (tags, v6, tcp) in (0..12).map(|i| (i % 3, i / 3 % 2 == 1, i / 6 == 1)) {
            let (mut f, l4) = long(tags, v6, tcp, 3001);
            let (l3, all) = (14 + 4 * tags, f.clone());
            let payload = l4 + if tcp { 32 } else { 8 };
            let kind = if !tcp {
                5
            } else if v6 {
                4
            } else {
                1 | 0x80
            };
            let mut c = Cutter::default();
            assert!(c.load(&mut f, &header(kind, l4, 1000, if tcp { 16 } else { 6 })));
            let (mut out, mut joined, mut n) = (Vec::new(), Vec::new(), 0u16);
            while c.next_len() > 0 {
                let len = c.next_len();
                c.next(&mut out);
                assert_eq!(out.len(), len);
                assert!(l4_sum_is_right(&out, l3, l4, v6), "{tags} {v6} {tcp} {n}");
                if v6 {
                    assert_eq!(be16(&out, l3 + 4).unwrap() as usize, len - l3 - 40);
                } else {
                    assert_eq!(checksum(&out[l3..l4]), 0);
                    assert_eq!(be16(&out, l3 + 2).unwrap() as usize, len - l3);
                    assert_eq!(be16(&out, l3 + 4).unwrap(), 0xfffe_u16.wrapping_add(n));
                }
                if tcp {
                    let seq = u32::from_be_bytes(out[l4 + 4..l4 + 8].try_into().unwrap());
                    assert_eq!(seq, 0xffff_ff00_u32.wrapping_add(1000 * u32::from(n)));
                    assert_eq!(out[l4 + 13], [0x90, 0x10, 0x10, 0x19][usize::from(n)]);
                } else {
                    assert_eq!(be16(&out, l4 + 4).unwrap() as usize, len - l4);
                }
                joined.extend_from_slice(&out[payload..]);
                n += 1;
            }
            assert_eq!((n, joined.as_slice()), (4, &all[payload..]));
            c.next(&mut out);
            assert!(out.is_empty());
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let (f, l4) = long(0, false, true, 3000);
        let load = |f: &[u8], h: VnetHeader| Cutter::default().load(&mut f.to_vec(), &h);
        assert!(load(&f, header(1, l4, 1448, 16)));
        for cut in 0..l4 + 33 {
            assert_eq!(load(&f[..cut], header(1, l4, 1448, 16)), cut == l4 + 33, "{cut}");
        }
        assert!(!load(&f, header(1, l4, 0, 16)), "pieces of no byte");
        assert!(!load(&f, header(5, l4, 1448, 6)), "not UDP");
        assert!(!load(&f, header(1, l4 + 20, 1448, 16)), "an inner header");
        assert!(!load(&f, header(3, l4, 1448, 16)), "fragments");
        let mut odd = f.clone();
        odd[l4 + 12] = 0x40;
        assert!(!load(&odd, header(1, l4, 1448, 16)), "a TCP header of 16 bytes");
        let (f6, l4) = long(0, true, false, 100);
        assert!(load(&f6, header(5, l4, 10, 6)));
        for at in 0..l4 + 8 {
            for value in [0, 1, 0x0f, 0x40, 0x60, 0x7f, 0x80, 0xff] {
                let mut bad = f6.clone();
                bad[at] = value;
                let (mut c, mut out, mut n) = (Cutter::default(), Vec::new(), 0);
                c.load(&mut bad, &header(5, l4, 10, 6));
                while c.next_len() > 0 {
                    c.next(&mut out);
                    n += 1;
                }
                assert!(n <= 10);
            }
        }
    }

    #[test]
    fn a_checksum_of_the_pseudo_header_is_completed() {
        let (mut f, l4) = long(0, false, false, 99);
        let n = ((f.len() - l4) as u16).to_be_bytes();
        f[l4 + 4..l4 + 6].copy_from_slice(&n);
        let pseudo = pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], 17, u16::from_be_bytes(n)).folded();
        f[l4 + 6..l4 + 8].copy_from_slice(&pseudo);
        assert!(complete_checksum(&mut f, &header(0, l4, 0, 6)));
        assert!(l4_sum_is_right(&f, 14, l4, false));
        for h in [header(0, 0xffff, 0, 6), header(0, f.len() - 7, 0, 6), header(0, l4, 0, 0xffff)] {
            let before = f.clone();
            assert!(!complete_checksum(&mut f, &h));
            assert_eq!(f, before);
        }
    }
}
