//! Where a capture's bytes come from: a file, or a pipe that is never waited for without end.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::Path,
    time::{Duration, Instant},
};

/// How long the header of a capture that comes through a pipe is waited for.
pub(super) const HEADER_PATIENCE: Duration = Duration::from_secs(2);
/// The longest single wait: what wants to end the program is looked at in between.
const SLICE: Duration = Duration::from_millis(100);

/// An opened capture. Of what is no regular file (pipe, terminal, socket) it reads what is there; when nothing
/// is, it waits as long as it was told to, which is not at all unless a wait was asked for, and then fails with
/// [`ErrorKind::WouldBlock`]. A pipe ends when its writers are gone, not while there was none yet.
#[derive(Debug)]
pub struct CaptureInput {
    file: File,
    stream: bool,
    until: Option<Instant>,
}

impl CaptureInput {
    /// Opens a file without waiting for a writer, or takes standard input for `-`.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = if path == Path::new("-") {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?
        };
        let kind = file.metadata()?.file_type();
        Ok(CaptureInput { file, stream: !kind.is_file() && !kind.is_dir(), until: None })
    }

    /// Whether this is no regular file: it can be read once, and may have nothing to read for a while.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// From now on waits for bytes until so much time has passed; `None` for not at all.
    pub(in crate::pcap) fn wait(&mut self, patience: Option<Duration>) {
        self.until = patience.map(|p| Instant::now() + p);
    }

    #[cold]
    fn ready(&self) -> io::Result<()> {
        loop {
            let left = self.until.map_or(Duration::ZERO, |u| u.saturating_duration_since(Instant::now()));
            if is_ready(&self.file, PollFlags::IN, left.min(SLICE))? {
                return Ok(());
            }
            if left.is_zero() {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
    }
}

/// Waits up to `patience` until something can be done with a file; an interruption ends the wait.
pub(in crate::pcap) fn is_ready(file: &File, what: PollFlags, patience: Duration) -> io::Result<bool> {
    let patience = Timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos() as _ };
    match poll(&mut [PollFd::new(file, what)], Some(&patience)) {
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

impl Read for CaptureInput {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.stream {
            self.ready()?;
        }
        self.file.read(to)
    }
}
