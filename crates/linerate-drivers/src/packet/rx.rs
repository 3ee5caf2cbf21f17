//! The packet port's receive queue: frames are copied out of the ring, and slots given back at once.

use super::{
    counts::RxCounts,
    options::{Options, Shape},
    ring::{COPIED, LOSING, Ring, RxHeader, VLAN},
};
use crate::netif::{
    NetIf, NetIfError,
    landing::{Landing, insert_tag},
    segment::{Cutter, complete_checksum},
    sys,
    vnet::{Cut, VNET_HEADER, VnetHeader},
};
use linerate_mbuf::{Burst, Mbuf, OlFlags};
use linerate_port::{PortError, RxContext, RxDriver, RxOffloads, RxProgram, SoftStage, stats::SharedRx};
use std::{
    io, mem,
    os::fd::OwnedFd,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// `PACKET_OUTGOING`: a frame that this machine sends.
const OUTGOING: u8 = 4;
/// `ETH_P_ALL`.
const EVERYTHING: u16 = 3;
/// `SOL_PACKET` options that libc has no name for.
const PACKET_COPY_THRESH: i32 = 7;
const PACKET_VERSION: i32 = 10;
const PACKET_VNET_HDR: i32 = 15;
const PACKET_IGNORE_OUTGOING: i32 = 23;
const PACKET_STATISTICS: i32 = 6;
const PACKET_FANOUT: i32 = 18;
/// Version 2 of the ring.
pub(super) const TPACKET_V2: i32 = 1;
/// `PACKET_FANOUT_FLAG_UNIQUEID`: let the kernel choose a group that nobody has.
const FANOUT_UNIQUE: u32 = 0x2000;
/// Bytes for frames that are longer than a slot.
const SOCKET_QUEUE: i32 = 4 << 20;
/// The longest frame that the kernel hands out, with its offload header.
const LONGEST: usize = (1 << 16) + 256;
/// Headroom and such, so that a frame in the slot is copied whole: see `Options::shape`.
const STATUS_SPECIAL: u32 = COPIED | LOSING | VLAN;

/// The sockets of a port's receive queues share frames through a fanout group.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The number that the kernel chose, once there is a member.
    id: Option<u32>,
}

/// What a frame is told besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct About {
    time_ns: u64,
    /// A tag that stays out of the frame.
    stripped: Option<u16>,
}

/// A receive queue's socket and whether it lets frames in. Opened and shut by the port, so that a queue that is
/// stopped alone, or started later, keeps its traffic as far as the ring goes.
#[derive(Debug)]
pub(super) struct Gate {
    socket: OwnedFd,
    /// When it was opened last, in nanoseconds since 1970. Relaxed: the port is started before its queues, and a
    /// queue changes hands through a lock.
    opened_ns: AtomicU64,
}

impl Gate {
    /// Lets frames in.
    pub(super) fn open(&self) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.opened_ns.store(u64::try_from(now.as_nanos()).unwrap_or(0), Relaxed);
        sys::open_filter(&self.socket)
    }

    /// Lets no frame in any more.
    pub(super) fn shut(&self) {
        // A socket that cannot be shut goes on filling a ring that nobody reads: harmless.
        let _ = sys::shut_filter(&self.socket);
    }
}

pub(super) struct PacketRx {
    // Unmapped before the socket is closed.
    ring: Ring,
    gate: Arc<Gate>,
    /// For which opening of the gate the ring was cleared.
    cleared_ns: u64,
    /// The slot to be looked at next.
    at: usize,
    /// Frames taken since the ring was last found empty.
    since_empty: usize,
    landing: Landing,
    counters: SharedRx,
    counts: Arc<RxCounts>,
    stage: SoftStage,
    strip: bool,
    stamp: bool,
    /// The kernel cannot leave out what we send ourselves.
    drop_outgoing: bool,
    cutter: Cutter,
    /// What the pieces of the cutter are told.
    about: About,
    tag: Option<[u8; 4]>,
    /// A finished frame.
    frame: Vec<u8>,
    /// It waits for a buffer.
    frame_waits: bool,
    /// As the kernel gave it.
    raw: Vec<u8>,
}

impl PacketRx {
    /// Makes socket and ring; frames are refused until start.
    pub(super) fn new(
        of: &NetIf,
        options: &Options,
        shape: Shape,
        c: RxContext,
        group: Option<&mut Group>,
        counts: Arc<RxCounts>,
    ) -> Result<Self, NetIfError> {
        let what = |what: &'static str| NetIfError::system(format!("receive queue {}: {what}", c.queue));
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)
            .map_err(what("packet socket (AF_PACKET)"))?;
        of.same_namespace(&socket)?;
        let set = |option, value| sys::set_int(&socket, libc::SOL_PACKET, option, value);
        let drop_outgoing = set(PACKET_IGNORE_OUTGOING, 1).is_err();
        set(PACKET_VERSION, TPACKET_V2).map_err(what("ring version 2"))?;
        set(PACKET_VNET_HDR, 1).map_err(what("offload header"))?;
        set(PACKET_COPY_THRESH, 1).map_err(what("long frames through the socket"))?;
        let ring = Ring::map(&socket, shape, true);
        let ring = ring.map_err(what("receive ring"))?;
        let forced = sys::set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, SOCKET_QUEUE);
        if forced.is_err() {
            // Without the right to more the system's limit stands.
            let _ = sys::set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, SOCKET_QUEUE);
        }
        sys::shut_filter(&socket).map_err(what("filter"))?;
        let bound = sys::bind(&socket, &sys::packet_address(of.index(), EVERYTHING));
        bound.map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => NetIfError::Gone { index: of.index() },
            _ => what("bind")(e),
        })?;
        if let Some(group) = group {
            join(&socket, group, options.fanout).map_err(what("fanout group"))?;
        }
        Ok(PacketRx {
            ring,
            gate: Arc::new(Gate { socket, opened_ns: AtomicU64::new(0) }),
            cleared_ns: 0,
            at: 0,
            since_empty: 0,
            landing: Landing::new(&c),
            strip: c.config.rx_offloads.contains(RxOffloads::VLAN_STRIP),
            stamp: c.config.rx_offloads.contains(RxOffloads::TIMESTAMP),
            counters: c.counters,
            counts,
            stage: SoftStage::new(c.program),
            drop_outgoing,
            cutter: Cutter::default(),
            about: About::default(),
            tag: None,
            frame: Vec::new(),
            frame_waits: false,
            raw: Vec::new(),
        })
    }

    /// Appends frames that need nothing done, up to the first that does; how many.
    #[inline]
    fn take_plain(&mut self, burst: &mut Burst, max: usize) -> usize {
        let (mut ready, mut i) = (0, self.at);
        while ready < max && self.ring.is_filled(i) {
            ready += 1;
            i = self.ring.after(i);
            if ready == self.ring.slots() {
                break;
            }
        }
        if ready == 0 {
            return 0;
        }
        let start = burst.len();
        let given = self.landing.take(burst, ready);
        if given < ready {
            self.counters.nombuf.add((ready - given) as u64);
        }
        let (mut n, mut bytes) = (0, 0);
        for m in burst.as_mut_slice().iter_mut().skip(start) {
            let h = self.ring.header(self.at);
            if !self.is_plain(&h) {
                break;
            }
            let len = h.snaplen as usize;
            let Some(frame) = self.ring.frame(self.at, &h, VNET_HEADER) else { break };
            // SAFETY: the slot is ours, and `frame` says that header and frame lie in it.
            let landed = unsafe {
                read_header(frame).is_plain() && self.landing.land_raw(m, frame.add(VNET_HEADER), len)
            };
            if !landed {
                break;
            }
            if self.stamp {
                m.set_timestamp(h.time_ns());
            }
            self.release();
            n += 1;
            bytes += len as u64;
        }
        for _ in n..given {
            drop(burst.pop());
        }
        self.counters.packets.add(n as u64);
        self.counters.bytes.add(bytes);
        n
    }

    #[inline(always)]
    fn is_plain(&self, h: &RxHeader) -> bool {
        h.status & STATUS_SPECIAL == 0
            && h.snaplen == h.len
            && h.snaplen as usize <= self.landing.room
            && !(self.drop_outgoing && h.kind == OUTGOING)
    }

    /// Gives the present slot back and goes on to the next.
    #[inline(always)]
    fn release(&mut self) {
        self.ring.give_back(self.at);
        self.at = self.ring.after(self.at);
        self.since_empty += 1;
    }

    /// The next finished frame into `self.frame`, whatever it takes; false if there is none. Frames that cannot
    /// be had are counted.
    fn pull(&mut self) -> bool {
        if mem::take(&mut self.frame_waits) {
            return true;
        }
        loop {
            if self.cutter.next_len() > 0 {
                self.cutter.next(&mut self.frame);
            } else if !self.ring.is_filled(self.at) {
                return false;
            } else if !self.open_slot() {
                continue;
            }
            if let Some(tag) = self.tag {
                insert_tag(&mut self.frame, 0, tag);
            }
            if self.frame.len() > self.landing.longest() {
                self.counts.too_long.add(1);
                self.counters.errors.add(1);
                continue;
            }
            return true;
        }
    }

    /// Takes the frame out of the present slot and gives the slot back; true if a frame is ready without its
    /// tag, false if there is none or it lies in the cutter.
    fn open_slot(&mut self) -> bool {
        let h = self.ring.header(self.at);
        let bad = |s: &Self, counter: &linerate_port::stats::Counter| {
            counter.add(1);
            s.counters.errors.add(1);
            false
        };
        if h.status & LOSING != 0 {
            self.count_missed();
        }
        let long = h.status & COPIED != 0;
        let vnet = if long { self.through_socket() } else { self.copy_slot(&h) };
        self.release();
        if self.drop_outgoing && h.kind == OUTGOING {
            return false;
        }
        let Some(vnet) = vnet else {
            // What did not fit the slot and not the socket's queue either is simply too long.
            let cut_off = h.snaplen < h.len && !long;
            let counts = self.counts.clone();
            return bad(self, if cut_off { &counts.too_long } else { &counts.unfit });
        };
        self.about = About { time_ns: h.time_ns(), stripped: None };
        self.tag = h.tag();
        if self.tag.is_some() {
            self.counts.vlan_tags.add(1);
            if self.strip {
                self.tag = None;
                self.about.stripped = Some(h.vlan_tci());
            }
        }
        let counts = self.counts.clone();
        match vnet.cut() {
            Cut::None => {
                mem::swap(&mut self.raw, &mut self.frame);
                if vnet.needs_checksum() {
                    if !complete_checksum(&mut self.frame, &vnet) {
                        return bad(self, &counts.unfit);
                    }
                    counts.checksums_completed.add(1);
                }
                true
            }
            Cut::Tcp | Cut::Udp if self.cutter.load(&mut self.raw, &vnet) => {
                counts.long_frames_cut.add(1);
                false
            }
            Cut::Tcp | Cut::Udp | Cut::Unknown => bad(self, &counts.unfit),
        }
    }

    /// Copies the frame in the present slot to `self.raw`.
    fn copy_slot(&mut self, h: &RxHeader) -> Option<VnetHeader> {
        if h.snaplen < h.len {
            return None;
        }
        let at = self.ring.frame(self.at, h, VNET_HEADER)?;
        let len = h.snaplen as usize;
        self.raw.clear();
        self.raw.reserve(len);
        // SAFETY: the slot is ours, header and frame lie in it; the vector has room for `len` bytes.
        unsafe {
            ptr::copy_nonoverlapping(at.add(VNET_HEADER), self.raw.as_mut_ptr(), len);
            self.raw.set_len(len);
            Some(read_header(at))
        }
    }

    /// Receives the frame that the present slot announces from the socket's queue into `self.raw`.
    fn through_socket(&mut self) -> Option<VnetHeader> {
        let mut read = || sys::read_after_header(&self.gate.socket, &mut self.raw, LONGEST);
        // That the interface was down once is told by the first call afterwards; the frame is still there.
        let header = read().or_else(|_| read()).ok()??;
        self.counts.through_socket.add(1);
        Some(VnetHeader::read(&header))
    }

    /// Adds what the kernel dropped since the last time for want of slots.
    #[cold]
    #[inline(never)]
    fn count_missed(&mut self) {
        // struct tpacket_stats: packets, drops. Reading sets them back.
        if let Ok([_, drops]) = sys::get_words(&self.gate.socket, libc::SOL_PACKET, PACKET_STATISTICS) {
            self.counters.missed.add(drops.into());
        }
    }

    /// One frame that needs something done: `None` if there is none, or no buffer for it.
    #[cold]
    #[inline(never)]
    fn take_special(&mut self, burst: &mut Burst) -> Option<()> {
        if !self.pull() {
            return None;
        }
        if !self.landing.land(burst, &self.frame) {
            self.counters.nombuf.add(1);
            self.frame_waits = true;
            return None;
        }
        if let Some(m) = burst.as_mut_slice().last_mut() {
            tell(m, self.about, self.stamp);
        }
        self.counters.packets.add(1);
        self.counters.bytes.add(self.frame.len() as u64);
        Some(())
    }

    /// Shows the frames to the program first.
    #[cold]
    #[inline(never)]
    fn take_screened(&mut self, burst: &mut Burst, max: usize) -> usize {
        let (mut frames, mut abouts) = (Vec::new(), Vec::new());
        while frames.len() < max && self.pull() {
            frames.push(self.frame.clone());
            abouts.push(self.about);
        }
        let (landing, counters, stamp) = (&self.landing, &self.counters, self.stamp);
        let before = burst.len();
        self.stage.run(frames.iter().map(Vec::as_slice), |i, frame| {
            if frame.len() > landing.longest() {
                counters.errors.add(1);
            } else if landing.land(burst, frame) {
                if let (Some(m), Some(about)) = (burst.as_mut_slice().last_mut(), abouts.get(i)) {
                    tell(m, *about, stamp);
                }
                counters.packets.add(1);
                counters.bytes.add(frame.len() as u64);
            } else {
                counters.nombuf.add(1);
            }
        });
        burst.len() - before
    }
}

/// The offload header in front of a frame.
///
/// # Safety
///
/// Its bytes may be read.
#[inline(always)]
unsafe fn read_header(at: *const u8) -> VnetHeader {
    // SAFETY: the caller's word; bytes need no alignment.
    let bytes = unsafe { at.cast::<[u8; VNET_HEADER]>().read() };
    VnetHeader::read(&bytes)
}

fn tell(m: &mut Mbuf, about: About, stamp: bool) {
    if let Some(tci) = about.stripped {
        m.set_vlan_tci(tci);
        m.set_ol_flags(m.ol_flags() | OlFlags::RX_VLAN | OlFlags::RX_VLAN_STRIPPED);
    }
    if stamp {
        m.set_timestamp(about.time_ns);
    }
}

/// Lets a socket share frames with the others of its group.
fn join(socket: &OwnedFd, group: &mut Group, mode: u16) -> io::Result<()> {
    let mode = u32::from(mode);
    let (id, kind) = match group.id {
        None => (0, mode | FANOUT_UNIQUE),
        Some(id) => (id, mode),
    };
    sys::set_words(socket, libc::SOL_PACKET, PACKET_FANOUT, &[id | kind << 16])?;
    if group.id.is_none() {
        let [chosen] = sys::get_words(socket, libc::SOL_PACKET, PACKET_FANOUT)?;
        group.id = Some(chosen & 0xffff);
    }
    Ok(())
}

impl RxDriver for PacketRx {
    fn start(&mut self) -> Result<(), PortError> {
        let opened = self.gate.opened_ns.load(Relaxed);
        if opened != self.cleared_ns {
            self.cleared_ns = opened;
            self.drain(opened);
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.count_missed();
    }

    #[inline]
    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        let max = max.min(burst.room());
        if self.stage.is_set() {
            return self.take_screened(burst, max);
        }
        let mut n = 0;
        while n < max {
            if !self.frame_waits && self.cutter.next_len() == 0 {
                n += self.take_plain(burst, max - n);
                if n == max {
                    break;
                }
                if !self.ring.is_filled(self.at) {
                    // A ring that was full may have cost frames that no later frame tells of.
                    if mem::take(&mut self.since_empty) >= self.ring.slots() {
                        self.count_missed();
                    }
                    break;
                }
            }
            if !self.frame_waits && self.tag.is_none() && self.about.stripped.is_none() && !self.stamp {
                let (pieces, bytes) = self.landing.land_pieces(burst, &mut self.cutter, max - n);
                self.counters.packets.add(pieces as u64);
                self.counters.bytes.add(bytes);
                n += pieces;
                if n == max {
                    break;
                }
            }
            if self.take_special(burst).is_none() {
                break;
            }
            n += 1;
        }
        n
    }

    fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        self.stage.set(program);
        Ok(())
    }

    fn pending(&self) -> Option<usize> {
        let (mut n, mut i) = (usize::from(self.frame_waits), self.at);
        for _ in 0..self.ring.slots() {
            if !self.ring.is_filled(i) {
                break;
            }
            n += 1;
            i = self.ring.after(i);
        }
        Some(n)
    }
}

impl PacketRx {
    /// What lets its frames in.
    pub(super) fn gate(&self) -> Arc<Gate> {
        self.gate.clone()
    }

    /// Throws away what came before this time.
    fn drain(&mut self, opened_ns: u64) {
        self.cutter.clear();
        self.frame_waits = false;
        for _ in 0..self.ring.slots() {
            if !self.ring.is_filled(self.at) {
                break;
            }
            let h = self.ring.header(self.at);
            if h.time_ns() >= opened_ns {
                break;
            }
            if h.status & COPIED != 0 {
                self.through_socket();
            }
            self.release();
        }
        self.since_empty = 0;
    }
}
