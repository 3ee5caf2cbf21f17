//! Where a capture's bytes go: a file, or a pipe whose reader is not waited for without end.

use rustix::event::PollFlags;
use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::Path,
    time::{Duration, Instant},
};

use super::format::is_ready;

/// How long a reader that has let a pipe become full is waited for, until it takes something again.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest single wait.
const SLICE: Duration = Duration::from_millis(50);
/// What a pipe that can be written to takes without blocking, on Linux and by POSIX.
const PIPE_BUF: usize = 4096;

/// An opened output.
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    stream: bool,
    /// Standard output is shared with others and stays as it is: it may block.
    blocking: bool,
    /// The last wait was in vain, and there is no other one until something could be written.
    stalled: bool,
}

impl Output {
    /// Opens a file, or takes standard output for `-`; what is in the file stays.
    ///
    /// # Errors
    ///
    /// The system's; `ENXIO` for a pipe that nobody reads.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let blocking = path == Path::new("-");
        let file = if blocking {
            File::from(io::stdout().as_fd().try_clone_to_owned()?)
        } else {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).custom_flags(libc::O_NONBLOCK);
            options.open(path)?
        };
        let stream = !file.metadata()?.is_file();
        Ok(Output { file, stream, blocking, stalled: false })
    }

    /// The same file for a further queue.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Output { file: self.file.try_clone()?, ..*self })
    }

    /// The file itself.
    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
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
        if self.stream { self.write_stream(from) } else { self.file.write(from) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
