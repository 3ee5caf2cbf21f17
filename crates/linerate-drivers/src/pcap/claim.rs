//! Which files the captures of this process are: none is written that another queue of any port reads or writes.

use linerate_port::PortId;
use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// All captures that are open. Touched when ports are opened and closed, never per packet.
static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Entry {
    /// Device and inode: two names may be one file.
    file: (u64, u64),
    writes: bool,
    path: PathBuf,
    port: PortId,
}

/// A file in use, until it is dropped. Of what is no regular file there is nothing to destroy: it is free to all.
#[derive(Debug)]
pub(super) struct Claim(Option<((u64, u64), bool, PortId)>);

/// Who has the file.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) writes: bool,
    pub(super) path: PathBuf,
    pub(super) port: PortId,
}

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    // Every change is one step: a panic elsewhere leaves it whole.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Claim {
    /// Takes a file to read, which many may, or to write, which one may alone.
    ///
    /// # Errors
    ///
    /// Who has it.
    pub(super) fn new(m: &Metadata, writes: bool, path: &Path, port: PortId) -> Result<Self, Taken> {
        if !m.is_file() {
            return Ok(Claim(None));
        }
        let (file, mut open) = ((m.dev(), m.ino()), entries());
        if let Some(e) = open.iter().find(|e| e.file == file && (e.writes || writes)) {
            return Err(Taken { writes: e.writes, path: e.path.clone(), port: e.port });
        }
        open.push(Entry { file, writes, path: path.to_owned(), port });
        Ok(Claim(Some((file, writes, port))))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(mine) = self.0 else { return };
        let mut open = entries();
        if let Some(at) = open.iter().position(|e| (e.file, e.writes, e.port) == mine) {
            open.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_writers_do_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let m = file.path().metadata().unwrap();
        let claim = |writes, port| Claim::new(&m, writes, file.path(), PortId(port));
        let (a, b) = (claim(false, 0).unwrap(), claim(false, 1).unwrap());
        assert!(!claim(true, 2).unwrap_err().writes);
        drop(a);
        assert_eq!(claim(true, 2).unwrap_err().port, PortId(1));
        drop(b);
        let c = claim(true, 2).unwrap();
        for writes in [false, true] {
            let e = claim(writes, 3).unwrap_err();
            assert_eq!((e.writes, e.port, &*e.path), (true, PortId(2), file.path()));
        }
        drop(c);
        assert!(claim(true, 4).is_ok());
    }
}
