//! Which mode is taken, and the program's place on the interface: one for all ports of the process that share it,
//! gone when the last of them closes or the process dies.

use super::{
    XskError,
    bpf::{self, Hook, Program, XskMap},
    device::Device,
    holder,
    netdev::Features,
    options::Mode,
    sys,
};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// The program on an interface. Dropping the last one takes it off.
#[derive(Debug)]
pub(super) struct Attachment {
    /// Holds the program to the interface.
    _link: OwnedFd,
    /// Where the program finds each queue's socket.
    pub(super) map: Arc<XskMap>,
    pub(super) hook: Hook,
    /// The program takes frames in several pieces.
    pub(super) pieces: bool,
    /// Its number in the kernel.
    pub(super) program: u32,
    /// Why not a better mode; empty if there is none.
    pub(super) why: String,
    claimed: Mutex<Vec<u32>>,
}

/// An interface of a namespace: indexes alone are not unique.
type Key = (u64, u32);

static ATTACHED: Mutex<Vec<(Key, Weak<Attachment>)>> = Mutex::new(Vec::new());

impl Attachment {
    /// Attaches the program, or joins the port of this process that has.
    ///
    /// # Errors
    ///
    /// Rights are missing, somebody else's program is there, or the mode asked for cannot be had.
    pub(super) fn get(
        device: &Device,
        mode: Mode,
        features: Option<Features>,
    ) -> Result<Arc<Self>, XskError> {
        let key = (device.namespace(), device.index());
        // Held while attaching: two ports on one interface must not both try.
        let mut all = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, a)| a.strong_count() > 0);
        if let Some(there) = all.iter().find(|(k, _)| *k == key).and_then(|(_, a)| a.upgrade()) {
            let wanted = match mode {
                Mode::Auto => there.hook,
                Mode::Generic => Hook::Generic,
                Mode::Native | Mode::ZeroCopy => Hook::Native,
            };
            if wanted != there.hook {
                let source = io::Error::other("another port of this process attached it in the other mode");
                return Err(refused(device, wanted, source));
            }
            return Ok(there);
        }
        let new = Arc::new(Self::attach(device, mode, features)?);
        all.push((key, Arc::downgrade(&new)));
        Ok(new)
    }

    fn attach(device: &Device, mode: Mode, features: Option<Features>) -> Result<Self, XskError> {
        let (rx, _) = device.queues();
        let map = Arc::new(XskMap::new(rx).map_err(|e| right(device, "a BPF map", e))?);
        let hooks: &[Hook] = match mode {
            Mode::Auto => &[Hook::Native, Hook::Generic],
            Mode::Native | Mode::ZeroCopy => &[Hook::Native],
            Mode::Generic => &[Hook::Generic],
        };
        let mut last = None;
        let mut why = String::new();
        for &hook in hooks {
            if hook == Hook::Native && mode == Mode::Auto && features.is_some_and(|f| !f.native()) {
                why = format!("driver {} has no native XDP", device.driver());
                continue;
            }
            for pieces in [true, false] {
                // A fresh program for every attempt.
                let program = match Program::load(&map, pieces) {
                    Ok(p) => p,
                    // A kernel that does not know frames in pieces (before 5.18) says so here.
                    Err(e) if pieces && e.raw_os_error() == Some(libc::EINVAL) => continue,
                    Err(e) => return Err(right(device, "a BPF program", e)),
                };
                match program.attach(device.index(), hook) {
                    Ok(link) => {
                        let program =
                            program.id().map_err(XskError::system("reading the program's number"))?;
                        let claimed = Mutex::new(Vec::new());
                        return Ok(Attachment { _link: link, map, hook, pieces, program, why, claimed });
                    }
                    Err(e) => match e.raw_os_error() {
                        Some(libc::EPERM | libc::EACCES) => {
                            return Err(right(device, "attaching a program", e));
                        }
                        Some(libc::EBUSY | libc::EEXIST) => return Err(occupied(device, hook, e)),
                        _ => last = Some((hook, e)),
                    },
                }
            }
            if let Some((_, e)) = &last {
                why = format!("the driver refuses native XDP: {e}");
            }
        }
        let (hook, source) = last.unwrap_or((Hook::Generic, io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
        Err(refused(device, hook, source))
    }

    /// Takes queues for a port.
    ///
    /// # Errors
    ///
    /// Another port of this process has one of them.
    pub(super) fn claim(
        self: &Arc<Self>,
        device: &Device,
        start: u32,
        count: u32,
    ) -> Result<Claim, XskError> {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = start..start + count;
        if let Some(&queue) = claimed.iter().find(|q| queues.contains(q)) {
            return Err(XskError::QueueTaken { name: device.name(), queue });
        }
        claimed.extend(queues.clone());
        Ok(Claim { attachment: self.clone(), queues })
    }
}

/// Queues of an interface that belong to a port, and its share of the program. Dropping it gives both back.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) attachment: Arc<Attachment>,
    pub(super) queues: std::ops::Range<u32>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = self.attachment.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.retain(|q| !self.queues.contains(q));
    }
}

fn refused(device: &Device, hook: Hook, source: io::Error) -> XskError {
    XskError::Attach {
        name: device.name(),
        driver: device.driver().into(),
        kernel: sys::kernel_release(),
        mode: match hook {
            Hook::Native => "native",
            Hook::Generic => "generic",
        },
        source,
    }
}

fn occupied(device: &Device, hook: Hook, source: io::Error) -> XskError {
    match device.state().ok().and_then(|s| s.program) {
        Some(id) => XskError::ProgramThere {
            name: device.name(),
            id,
            program: bpf::program_name(id),
            holder: holder::of_program(id),
        },
        None => refused(device, hook, source),
    }
}

/// A missing right, told from other refusals.
pub(super) fn right(device: &Device, what: &'static str, source: io::Error) -> XskError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => XskError::NoRights { name: device.name(), what, source },
        _ => XskError::system(format!("{what} for {}", device.name()))(source),
    }
}
