//! A capture's error together with the name of the file.

use std::path::{Path, PathBuf};

use linerate_port::{PortError, PortId};

use super::format::PcapError;

/// What is wrong with a capture of a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file's own error.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file as it was named.
        path: PathBuf,
        /// What is wrong with it.
        source: PcapError,
    },
    /// The file cannot be opened; the error names it.
    #[error(transparent)]
    Open(PcapError),
    /// A file that is to be replayed has nothing that could be.
    #[error(
        "{}: nothing to replay: {empty} packets without bytes, {too_long} longer than the {room} bytes of a buffer",
        path.display()
    )]
    NothingToReplay {
        /// The file as it was named.
        path: PathBuf,
        /// Packets of no byte.
        empty: u64,
        /// Packets that do not fit a buffer while scatter is off.
        too_long: u64,
        /// Bytes that a buffer holds.
        room: u32,
    },
    /// A file that is to be replayed would take more memory than is left to it.
    #[error("{}: replaying it takes {bytes} bytes of memory, half of what is available is {limit}", path.display())]
    TooLarge {
        /// The file as it was named.
        path: PathBuf,
        /// Bytes it takes at least.
        bytes: u64,
        /// Bytes it may take.
        limit: u64,
    },
    /// A pipe that is to be replayed does not end.
    #[error("{}: the pipe was not closed by its writers within {seconds} s, and is replayed only as a whole", path.display())]
    Endless {
        /// The pipe as it was named.
        path: PathBuf,
        /// How long it was read.
        seconds: u64,
    },
    /// A file that is to be replayed does not fit into memory.
    #[error("{}: its packets need {needed} bytes of memory, which are not to be had", path.display())]
    Memory {
        /// The file as it was named.
        path: PathBuf,
        /// Bytes needed at least.
        needed: u64,
    },
}

impl FileError {
    /// Names the file, unless the error does so itself.
    pub(super) fn new(path: &Path, source: PcapError) -> Self {
        match source {
            PcapError::Open { .. } | PcapError::Create { .. } => FileError::Open(source),
            source => FileError::Format { path: path.to_owned(), source },
        }
    }

    /// The command or option that mends it.
    pub fn hint(&self) -> &'static str {
        match self {
            FileError::Format { source, .. } | FileError::Open(source) => source.hint(),
            FileError::NothingToReplay { too_long: 0, .. } => "see what is in it with `capinfos FILE`",
            FileError::NothingToReplay { .. } => "turn scatter on, or take buffers with a larger data room",
            FileError::Endless { .. } => "write it to a file first: `cat PIPE > FILE`, and replay that",
            FileError::TooLarge { .. } | FileError::Memory { .. } => {
                "take a part of it with `editcap -r FILE PART 1-1000000`, or leave infinite_rx out"
            }
        }
    }

    pub(super) fn at(self, port: PortId) -> PortError {
        PortError::Driver { port, hint: self.hint().into(), source: Box::new(self) }
    }
}
