//! Pages: owned memory for packets, in the largest pages that there are.
//!
//! Memory comes from files that exist only in memory (`memfd_create`), so no mount is needed, nothing is left behind
//! after a crash, and another process can be given it by descriptor. It is bound to its node before, and populated
//! when, it is made: running out is a [`MemError`] with what was needed, what there is and the command that mends
//! it, and never a SIGBUS at some later touch.
//!
//! What was taken, and what it costs, is one line: [`Pages::report`].

mod error;
mod huge;
mod limits;
mod mapping;

pub use error::MemError;
pub use huge::{HugeCounts, HugeSize};
pub use limits::MemLimit;

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use rustix::io::Errno;

use crate::ids::IdList;
use crate::topology::NumaNode;
use mapping::Mapping;

/// Which pages a request wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum PagePreference {
    /// 1 GiB pages if they suit the size, else 2 MiB pages, else ordinary ones; each only if there are any.
    #[default]
    Auto,
    /// Reserved 1 GiB pages or an error.
    Huge1G,
    /// Reserved 2 MiB pages or an error.
    Huge2M,
    /// No reserved pages; the kernel is asked to join ordinary ones (transparent huge pages) where it can.
    Ordinary,
    /// Small pages and nothing else, for measuring what the others are worth.
    Small,
}

/// Which pages a [`Pages`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// Reserved 1 GiB pages.
    Huge1G,
    /// Reserved 2 MiB pages.
    Huge2M,
    /// Ordinary memory, at least half of which the kernel holds in transparent huge pages.
    Transparent,
    /// Ordinary small pages.
    Ordinary,
}

/// A wish for memory.
///
/// ```
/// use linerate_mem::{PagePreference, PageRequest};
/// let pages = PageRequest::new(100_000).prefer(PagePreference::Ordinary).allocate()?;
/// assert!(pages.len() >= 100_000);
/// println!("{}", pages.report());
/// # Ok::<(), linerate_mem::MemError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// How many bytes; rounded up to whole pages.
    pub bytes: usize,
    /// In which pages.
    pub preference: PagePreference,
    /// On which node; none leaves it to the kernel, which takes the node of the calling thread.
    pub node: Option<NumaNode>,
    /// The base address is a multiple of this power of two (and of the page size).
    pub align: usize,
    /// Whether [`Pages::fd`] must be there. Without it the memory may be anonymous where that gets larger pages.
    pub shareable: bool,
}

impl PageRequest {
    /// `bytes` bytes, in the best pages there are, on the node of the caller.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { bytes, preference: PagePreference::Auto, node: None, align: 1, shareable: false }
    }

    /// Sets [`preference`](Self::preference).
    #[must_use]
    pub fn prefer(mut self, preference: PagePreference) -> Self {
        self.preference = preference;
        self
    }

    /// Sets [`node`](Self::node).
    #[must_use]
    pub fn on_node(mut self, node: NumaNode) -> Self {
        self.node = Some(node);
        self
    }

    /// Sets [`align`](Self::align).
    #[must_use]
    pub fn align_to(mut self, align: usize) -> Self {
        self.align = align;
        self
    }

    /// Sets [`shareable`](Self::shareable).
    #[must_use]
    pub fn shareable(mut self, shareable: bool) -> Self {
        self.shareable = shareable;
        self
    }

    /// Takes the memory: mapped, on its node, populated and zero.
    ///
    /// # Errors
    /// [`MemError`]: a request that makes no sense, not enough pages of the kind insisted on, not enough memory in
    /// the machine or the control group, a node that is refused. With [`PagePreference::Auto`] missing huge pages
    /// are no error; [`Pages::report`] tells of them.
    pub fn allocate(&self) -> Result<Pages, MemError> {
        self.check()?;
        match self.preference {
            PagePreference::Huge1G => self.huge(HugeSize::Size1G),
            PagePreference::Huge2M => self.huge(HugeSize::Size2M),
            PagePreference::Ordinary => self.ordinary(true, None),
            PagePreference::Small => self.ordinary(false, None),
            PagePreference::Auto => {
                let mut lacking = None;
                for size in [HugeSize::Size1G, HugeSize::Size2M] {
                    if !self.suits(size) {
                        continue;
                    }
                    match self.huge(size) {
                        Err(
                            why @ (MemError::NoHugePages { .. }
                            | MemError::HugeUnsupported { .. }
                            | MemError::FileSizeLimit { .. }),
                        ) => {
                            lacking = Some(why);
                        }
                        done => return done,
                    }
                }
                self.ordinary(true, lacking)
            }
        }
    }

    fn check(&self) -> Result<(), MemError> {
        if self.bytes == 0 || self.bytes > isize::MAX as usize / 2 {
            return Err(MemError::BadSize { bytes: self.bytes });
        }
        if !self.align.is_power_of_two() || self.align > HugeSize::Size1G.bytes() {
            return Err(MemError::BadAlign { align: self.align });
        }
        if let Some(node) = self.node {
            let online = online_nodes();
            // An empty list is a machine that does not tell; the binding itself will.
            if !online.is_empty() && !online.contains(node.0) {
                let source = std::io::Error::from_raw_os_error(libc::EINVAL);
                return Err(MemError::NodeRefused { node, online, source });
            }
        }
        Ok(())
    }

    /// A 1 GiB page suits when rounding up wastes at most an eighth, a 2 MiB page when a quarter of it is used.
    fn suits(&self, size: HugeSize) -> bool {
        match size {
            HugeSize::Size1G => self.bytes.next_multiple_of(size.bytes()) - self.bytes <= self.bytes / 8,
            HugeSize::Size2M => self.bytes >= size.bytes() / 4,
        }
    }

    fn huge(&self, size: HugeSize) -> Result<Pages, MemError> {
        let len = self.bytes.next_multiple_of(size.bytes());
        let short = |node| {
            let counts = HugeCounts::read(size, node);
            MemError::NoHugePages { size, need: (len / size.bytes()) as u64, counts, node }
        };
        let unsupported = |errno: Errno| MemError::HugeUnsupported { size, source: errno.into() };
        check_file_size(len)?;
        let fd = mapping::memory_file(len, Some(size)).map_err(unsupported)?;
        mapping::promise_huge_pages(&fd, len).map_err(|errno| match errno {
            Errno::NOMEM => short(None),
            other => MemError::Os { call: "mmap", bytes: len, source: other.into() },
        })?;
        let map = Mapping::new(len, self.align.max(size.bytes()), Some(fd))
            .map_err(|errno| MemError::Os { call: "mmap", bytes: len, source: errno.into() })?;
        self.bind(&map)?;
        match map.populate(size.bytes()) {
            Ok(()) => {}
            // The promise holds for the machine as a whole; a node or a control group may still be out of pages.
            Err(Errno::NOMEM | Errno::FAULT) => {
                drop(map); // its own pages must not count as taken in the message
                return Err(short(self.node));
            }
            Err(errno) => return Err(MemError::Os { call: "madvise", bytes: len, source: errno.into() }),
        }
        let kind = match size {
            HugeSize::Size1G => PageKind::Huge1G,
            HugeSize::Size2M => PageKind::Huge2M,
        };
        Ok(Pages { node: map.node(), map, kind, page: size.bytes(), lacking: None })
    }

    fn ordinary(&self, join: bool, lacking: Option<MemError>) -> Result<Pages, MemError> {
        let page = rustix::param::page_size();
        let large = transparent_size();
        let join = join && self.bytes >= large / 4;
        let len = self.bytes.next_multiple_of(if join { large } else { page });
        let align = self.align.max(if join { large } else { page });
        if let Some(room) = limits::room()
            && len as u64 > room.bytes
        {
            return Err(MemError::OutOfMemory { need: len as u64, have: room.bytes, limit: room.set_by });
        }
        let may_be_file = match check_file_size(len) {
            Err(why) if self.shareable => return Err(why),
            checked => checked.is_ok(),
        };
        let os = |call, errno: Errno| MemError::Os { call, bytes: len, source: errno.into() };

        let take = |shared: bool| -> Result<(Mapping, usize), MemError> {
            let fd = if shared {
                Some(mapping::memory_file(len, None).map_err(|errno| os("memfd_create", errno))?)
            } else {
                None
            };
            let map = Mapping::new(len, align, fd).map_err(|errno| os("mmap", errno))?;
            self.bind(&map)?;
            if !shared {
                map.keep_from_children();
            }
            if join {
                map.ask_transparent();
            } else {
                map.refuse_transparent();
            }
            map.populate(page).map_err(|errno| os("madvise", errno))?;
            let mut joined = if join { map.transparent_bytes() } else { 0 };
            if join && joined < len {
                map.collapse();
                joined = map.transparent_bytes();
            }
            Ok((map, joined))
        };
        // A file first, because it can be shared; anonymous memory second, because most systems join only that.
        let (mut map, mut joined) = take(may_be_file)?;
        if may_be_file && join && joined < len / 2 && !self.shareable {
            drop(map);
            (map, joined) = take(false)?;
        }
        let transparent = join && joined >= len / 2;
        Ok(Pages {
            node: map.node(),
            map,
            kind: if transparent { PageKind::Transparent } else { PageKind::Ordinary },
            page: if transparent { large } else { page },
            lacking,
        })
    }

    fn bind(&self, map: &Mapping) -> Result<(), MemError> {
        let Some(node) = self.node else { return Ok(()) };
        match map.bind(node) {
            Ok(()) => Ok(()),
            Err(source) => {
                let online = online_nodes();
                // Containers often forbid mbind; on a machine of one node the wish is granted without it.
                if online.len() == 1 && online.contains(node.0) {
                    return Ok(());
                }
                Err(MemError::NodeRefused { node, online, source })
            }
        }
    }
}

/// A limit on file sizes holds for files in memory too, and is told by a signal unless one asks first.
fn check_file_size(len: usize) -> Result<(), MemError> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(limit) if len as u64 > limit => Err(MemError::FileSizeLimit { need: len as u64, have: limit }),
        _ => Ok(()),
    }
}

fn online_nodes() -> IdList {
    std::fs::read_to_string("/sys/devices/system/node/online")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_default()
}

/// The size of a transparent huge page.
fn transparent_size() -> usize {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .ok()
        .and_then(|s| s.trim().parse().ok())
        .filter(|n: &usize| n.is_power_of_two() && *n <= HugeSize::Size1G.bytes())
        .unwrap_or(HugeSize::Size2M.bytes())
}

/// Owned memory: mapped, populated, zero at the start, unmapped when dropped.
///
/// Only the address range is owned here. Who may read or write which part is for the holder of the pages (a pool, a
/// ring) to settle, so there is no way to get a slice of it.
#[derive(Debug)]
pub struct Pages {
    map: Mapping,
    kind: PageKind,
    page: usize,
    node: Option<NumaNode>,
    lacking: Option<MemError>,
}

// SAFETY: an address range and a descriptor, both valid in every thread; no access to the memory goes through here.
unsafe impl Send for Pages {}
// SAFETY: as above; the methods by shared reference only read fields that never change.
unsafe impl Sync for Pages {}

impl Pages {
    /// The first byte; valid for reads and writes of [`len`](Self::len) bytes for as long as the pages live.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.map.base
    }

    /// How many bytes there are: the request, rounded up to whole pages; never zero.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there are no empty pages")]
    pub fn len(&self) -> usize {
        self.map.len
    }

    /// The size of the pages in bytes.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page
    }

    /// Which pages they are.
    #[must_use]
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// The node that holds the first page, where the kernel tells.
    #[must_use]
    pub fn node(&self) -> Option<NumaNode> {
        self.node
    }

    /// The file behind the memory, to be given to another process; its offset 0 is [`base`](Self::base). There for
    /// huge pages always, for ordinary ones if [`shareable`](PageRequest::shareable) was asked or it cost nothing.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.map.fd.as_ref().map(AsFd::as_fd)
    }

    /// Whether the `len` bytes at `at` all lie in these pages.
    #[must_use]
    pub fn contains(&self, at: NonNull<u8>, len: usize) -> bool {
        at.as_ptr()
            .addr()
            .checked_sub(self.map.base.as_ptr().addr())
            .is_some_and(|offset| offset <= self.map.len && len <= self.map.len - offset)
    }

    /// One line for people: what was taken, and what it costs.
    #[must_use]
    pub fn report(&self) -> String {
        let size = if self.len() < 1 << 20 {
            format!("{} KiB", self.len() >> 10)
        } else {
            format!("{:.1} MiB", self.len() as f64 / f64::from(1 << 20))
        };
        let count = self.len() / self.page;
        let node = self.node.map_or(String::new(), |n| format!(" on node {}", n.0));
        let instead = self.lacking.as_ref().map_or(String::new(), |why| format!("; {why}; {}", why.hint()));
        match self.kind {
            PageKind::Huge1G => format!("memory: {size} in {count} x 1 GiB huge pages{node}"),
            PageKind::Huge2M => format!("memory: {size} in {count} x 2 MiB huge pages{node}"),
            PageKind::Transparent => format!(
                "memory: {size} in ordinary pages that the kernel joined into huge ones{node} (it may split \
                 them again{instead})"
            ),
            PageKind::Ordinary => format!(
                "memory: {size} in {} KiB pages{node} (expect more TLB misses{instead})",
                self.page >> 10
            ),
        }
    }
}

#[cfg(test)]
mod tests;
