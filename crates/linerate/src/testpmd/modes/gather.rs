//! Headers that do not lie in a packet's first segment: gathered for the mode's work, and written back.

use linerate_mbuf::Mbuf;

/// Bytes of a packet's front in which the headers lie that a mode changes.
const FRONT: usize = 256;

/// A copy of a packet's front, for the time that the work on it takes.
pub(super) struct Front {
    bytes: [u8; FRONT],
    len: usize,
}

impl Front {
    /// The front of a packet, if its first segment is not known to hold all headers.
    pub fn of(m: &Mbuf) -> Option<Front> {
        if m.data().len() >= FRONT {
            return None;
        }
        let mut front = Front { bytes: [0; FRONT], len: 0 };
        for s in m.segments() {
            let n = s.len().min(FRONT - front.len);
            front.bytes[front.len..front.len + n].copy_from_slice(&s[..n]);
            front.len += n;
        }
        Some(front)
    }

    /// The bytes, to be changed.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// What of the packet `m` lies behind its front, in order.
    pub fn rest<'a>(&self, m: &'a Mbuf) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        m.segments().scan(self.len, |skip, s| {
            let n = s.len().min(*skip);
            *skip -= n;
            Some(&s[n..])
        })
    }

    /// Writes the front over that of the packet it is of; the segments stay as long as they are.
    pub fn write_back(&self, m: &mut Mbuf) {
        write_over(m, &self.bytes[..self.len]);
    }
}

/// No deeper than there are bytes, or segments.
fn write_over(m: &mut Mbuf, bytes: &[u8]) {
    let data = m.data_mut();
    let (here, beyond) = bytes.split_at(data.len().min(bytes.len()));
    data[..here.len()].copy_from_slice(here);
    if beyond.is_empty() {
        return;
    }
    let Ok(mut rest) = m.split_off(1) else { return };
    write_over(&mut rest, beyond);
    join(m, rest);
}

/// Puts together again what was one packet.
pub(super) fn join(m: &mut Mbuf, rest: Mbuf) {
    // What was one packet fits one packet.
    if let Err((_, rest)) = m.chain(rest) {
        drop(rest);
    }
}

/// Does `work` on the front of a packet of several segments as if it were one.
#[cold]
#[inline(never)]
pub(super) fn gathered(m: &mut Mbuf, work: impl FnOnce(&mut [u8])) {
    match Front::of(m) {
        Some(mut front) => {
            work(front.bytes());
            front.write_back(m);
        }
        None => work(m.data_mut()),
    }
}
