//! Where a capture's bytes go: a file, or a pipe whose reader is not waited for without end.

use linerate_port::PortId;
use rustix::event::PollFlags;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Seek, Write},
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Once,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::claim::{Claim, Taken};
use super::format::is_ready;

/// Lets a write beyond `ulimit -f` fail with `EFBIG`, as on a full disk, instead of ending the process: `SIGXFSZ`
/// is ignored from the first capture that is written on (also in programs started later), unless somebody
/// handles it.
#[allow(unsafe_code)]
fn ignore_size_signal() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: no code runs on the signal, neither the default's nor one of ours; a handler that somebody
        // installed is put back as it was.
        unsafe {
            let former = libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            if former != libc::SIG_DFL && former != libc::SIG_ERR {
                libc::signal(libc::SIGXFSZ, former);
            }
        }
    });
}

/// How long a reader that has let a pipe become full is waited for, until it takes something again.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest single wait.
const SLICE: Duration = Duration::from_millis(50);
/// What a pipe that can be written to takes without blocking, on Linux and by POSIX.
const PIPE_BUF: usize = 4096;

/// Where an output lies. Shared by the port and its queue; the last of them gives it up.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    file: (u64, u64),
    /// It was not there before.
    created: bool,
    used: AtomicBool,
    _claim: Claim,
}

impl Drop for Place {
    /// A run that was refused leaves no empty file behind.
    fn drop(&mut self) {
        if self.created
            // Relaxed: the last owner drops, and `Arc` orders what the others did before.
            && !self.used.load(Ordering::Relaxed)
            && self.path.symlink_metadata().is_ok_and(|m| (m.dev(), m.ino()) == self.file && m.len() == 0)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Why an output cannot be opened.
#[derive(Debug)]
pub(super) enum Refused {
    System(io::Error),
    Taken(Taken),
}

impl From<io::Error> for Refused {
    fn from(e: io::Error) -> Self {
        Refused::System(e)
    }
}

/// An opened output. What is in a file stays until the first write.
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    stream: bool,
    /// Standard output is shared with others and stays as it is: it may block.
    blocking: bool,
    /// Something was written: what was in the file before is gone.
    begun: bool,
    place: Arc<Place>,
    /// The last wait was in vain, and there is no other one until something could be written.
    stalled: bool,
}

impl Output {
    /// Opens a file, or takes standard output for `-`; what is in the file stays.
    ///
    /// # Errors
    ///
    /// The system's, `ENXIO` for a pipe that nobody reads; another capture of this process has the file.
    pub(super) fn open(path: &Path, port: PortId) -> Result<Self, Refused> {
        let blocking = path == Path::new("-");
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        let (file, created) = if blocking {
            (File::from(io::stdout().as_fd().try_clone_to_owned()?), false)
        } else {
            match options.open(path) {
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    (options.create(true).truncate(false).open(path)?, true)
                }
                other => (other?, false),
            }
        };
        let m = file.metadata()?;
        let claim = Claim::new(&m, true, path, port).map_err(Refused::Taken)?;
        let (path, used) = (path.to_owned(), AtomicBool::new(false));
        let place = Place { path, file: (m.dev(), m.ino()), created, used, _claim: claim };
        ignore_size_signal();
        Ok(Output {
            file,
            stream: !m.is_file(),
            blocking,
            begun: false,
            place: Arc::new(place),
            stalled: false,
        })
    }

    /// The same file for a further queue.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Output { file: self.file.try_clone()?, place: self.place.clone(), ..*self })
    }

    /// Whether it still holds what it held before it was opened.
    pub(super) fn is_old(&self) -> bool {
        let named_file = !self.stream && !self.blocking;
        named_file && !self.begun && self.file.metadata().is_ok_and(|m| m.len() > 0)
    }

    /// Empties a file, before the first write. Pipes, devices and standard output stay as they are.
    #[cold]
    fn begin(&mut self) -> io::Result<()> {
        if !self.stream && !self.blocking {
            self.file.set_len(0)?;
            self.file.rewind()?;
        }
        self.begun = true;
        self.place.used.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Writes as much as the other side takes, and waits for it a limited time.
    #[cold]
    fn write_stream(&mut self, from: &[u8]) -> io::Result<usize> {
        let until = Instant::now() + if self.stalled { Duration::ZERO } else { PATIENCE };
        let most = if self.blocking { PIPE_BUF } else { usize::MAX };
        let mut done = 0;
        while let Some(rest) = from.get(done..).filter(|r| !r.is_empty()) {
            let left = until.saturating_duration_since(Instant::now());
            let written = if is_ready(&self.file, PollFlags::OUT, left.min(SLICE))? {
                match self.file.write(rest.get(..most).unwrap_or(rest)) {
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
                    Err(_) if done > 0 => return Ok(done),
                    other => Some(other?),
                }
            } else {
                None
            };
            match written {
                Some(n) => done += n,
                None if left.is_zero() => {
                    self.stalled = true;
                    return if done > 0 { Ok(done) } else { Err(ErrorKind::TimedOut.into()) };
                }
                None => {}
            }
        }
        self.stalled = false;
        Ok(done)
    }
}

impl Write for Output {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        if !self.begun {
            self.begin()?;
        }
        if self.stream { self.write_stream(from) } else { self.file.write(from) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
