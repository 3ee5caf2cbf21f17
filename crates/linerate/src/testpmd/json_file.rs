//! The file of the report for programs: known to be good before the run, written only after it.

use super::error::TestpmdError;
use linerate_port::PortSpec;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Keys of port descriptions that name files.
const FILE_KEYS: [&str; 2] = ["rx_pcap", "tx_pcap"];

/// An open file, as it was found.
#[derive(Debug)]
pub(super) struct JsonFile {
    path: PathBuf,
    file: File,
}

impl JsonFile {
    /// Opens the file for writing, and makes it where there is none. What it holds stays until [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// It cannot be written, or a port reads or writes it.
    pub fn open(path: &Path, ports: &[PortSpec]) -> Result<Self, TestpmdError> {
        for (spec, key) in ports.iter().flat_map(|p| FILE_KEYS.map(|k| (p, k))) {
            if spec.values(key).any(|other| is_same(path, Path::new(other))) {
                return Err(TestpmdError::Option {
                    option: "--json",
                    why: format!("{} is the file {key} of --port {}", path.display(), spec.text()),
                    hint: "name another file for the report".into(),
                });
            }
        }
        match OpenOptions::new().write(true).create(true).truncate(false).open(path) {
            Ok(file) => Ok(JsonFile { path: path.into(), file }),
            Err(source) => Err(file_error(path, source)),
        }
    }

    /// Replaces what it holds.
    ///
    /// # Errors
    ///
    /// What the system says, such as of a full disk.
    pub fn write(mut self, text: &str) -> Result<(), TestpmdError> {
        let done = self.file.metadata().and_then(|m| if m.is_file() { self.file.set_len(0) } else { Ok(()) });
        done.and_then(|()| self.file.write_all(text.as_bytes())).map_err(|e| file_error(&self.path, e))
    }
}

/// Names the file in an error.
pub(super) fn file_error(path: &Path, source: io::Error) -> TestpmdError {
    TestpmdError::File { option: "--json", path: path.into(), source }
}

/// Whether two paths are one regular file, also one that is yet to be made. Devices may be named twice.
fn is_same(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (Err(_), Err(_)) => place(a).is_some_and(|p| place(b) == Some(p)),
        _ => false,
    }
}

/// Where a file would be made.
fn place(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_port_is_refused_and_any_other_is_kept_until_it_is_written() {
        let dir = std::env::temp_dir().join(format!("linerate-json-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = |name: &str| dir.join(name);
        fs::write(path("a"), "a capture").unwrap();
        fs::hard_link(path("a"), path("link")).unwrap();
        let spec = |text: String| [text.parse::<PortSpec>().unwrap()];
        let rx = spec(format!("pcap:rx_pcap={}", path("a").display()));
        let tx = spec(format!("pcap:tx_pcap={}", path("new").display()));
        let round = dir.join("..").join(dir.file_name().unwrap());
        for (json, ports) in
            [(path("a"), &rx), (path("link"), &rx), (round.join("a"), &rx), (round.join("new"), &tx)]
        {
            let e = JsonFile::open(&json, ports).unwrap_err();
            assert!(e.to_string().starts_with("--json: ") && e.hint().contains("another"), "{e}");
        }
        assert!(!path("new").exists());
        assert_eq!(fs::read(path("a")).unwrap(), b"a capture");
        fs::write(path("old"), "an older and longer report").unwrap();
        let file = JsonFile::open(&path("old"), &rx).unwrap();
        assert_eq!(fs::read(path("old")).unwrap(), b"an older and longer report");
        file.write("{}\n").unwrap();
        assert_eq!(fs::read(path("old")).unwrap(), b"{}\n");
        assert!(JsonFile::open(&path("none/x"), &[]).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
