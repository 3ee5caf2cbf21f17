//! rtnetlink messages: written attribute by attribute, read without trusting a length.

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;

fn padded(n: usize) -> usize {
    n.next_multiple_of(4)
}

/// A message under construction.
#[derive(Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message with the fixed part of its kind.
    pub(super) fn new(kind: u16, flags: u16, seq: u32, body: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&seq.to_ne_bytes());
        bytes.extend_from_slice(body);
        Message { bytes }
    }

    /// Appends an attribute.
    pub(super) fn attr(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let len = (4 + value.len()) as u16;
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(padded(self.bytes.len()), 0);
        self
    }

    /// Appends a name, ended by a zero.
    pub(super) fn name(&mut self, kind: u16, name: &str) -> &mut Self {
        let mut value = name.as_bytes().to_vec();
        value.push(0);
        self.attr(kind, &value)
    }

    /// Appends an attribute that holds a fixed part and then what `fill` appends.
    pub(super) fn nest(&mut self, kind: u16, fixed: &[u8], fill: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.bytes.len();
        self.attr(kind | NESTED, fixed);
        fill(self);
        let len = (self.bytes.len() - at) as u16;
        self.bytes[at..at + 2].copy_from_slice(&len.to_ne_bytes());
        self
    }

    /// The finished message.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes
    }
}

/// A message as it came.
#[derive(Debug)]
pub(super) struct Received<'a> {
    pub(super) kind: u16,
    pub(super) seq: u32,
    pub(super) body: &'a [u8],
}

pub(super) fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*b.get(at..)?.first_chunk()?))
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*b.get(at..)?.first_chunk()?))
}

/// The messages of one datagram; a length that lies ends them.
pub(super) fn messages(mut rest: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        let len = u32_at(rest, 0)? as usize;
        let body = rest.get(HEADER..len)?;
        let m = Received { kind: u16_at(rest, 4)?, seq: u32_at(rest, 8)?, body };
        rest = rest.get(padded(len)..).unwrap_or_default();
        Some(m)
    })
}

/// The attributes of a message or of a nest: kind and value; a length that lies ends them.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & 0x3fff;
        let value = rest.get(4..len)?;
        rest = rest.get(padded(len)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut m = Message::new(16, 5, 77, &[1, 2, 3, 4]);
        m.name(3, "eth0").attr(4, &9000u32.to_ne_bytes()).nest(18, &[], |m| {
            m.name(1, "veth").nest(2, &[7; 4], |m| {
                m.attr(1, &[9]);
            });
        });
        let bytes = m.finish();
        let twice = [bytes.as_slice(), &bytes].concat();
        let all: Vec<_> = messages(&twice).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[1].kind, all[1].seq, &all[1].body[..4]), (16, 77, &[1, 2, 3, 4][..]));
        let attrs: Vec<_> = attributes(&all[0].body[4..]).collect();
        assert_eq!(attrs[0], (3, &b"eth0\0"[..]));
        assert_eq!(attrs[1], (4, &9000u32.to_ne_bytes()[..]));
        let inner: Vec<_> = attributes(attrs[2].1).collect();
        assert_eq!((inner[0], inner[1].0), ((1, &b"veth\0"[..]), 2));
        assert_eq!(inner[1].1[..4], [7; 4]);
        assert_eq!(attributes(&inner[1].1[4..]).collect::<Vec<_>>(), [(1, &[9][..])]);
    }

    #[test]
    fn lengths_that_lie_end_the_reading() {
        let mut m = Message::new(16, 0, 1, &[]);
        m.attr(1, &[1, 2, 3]).attr(2, &[4; 8]);
        let good = m.finish();
        for cut in 0..good.len() {
            assert_eq!(messages(&good[..cut]).count(), 0);
            assert!(attributes(&good[HEADER..cut.max(HEADER)]).count() <= 1);
        }
        for at in 0..good.len() {
            for value in [0, 1, 3, 4, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                for m in messages(&bad) {
                    assert!(attributes(m.body).map(|(_, v)| v.len()).sum::<usize>() <= m.body.len());
                }
            }
        }
    }
}
