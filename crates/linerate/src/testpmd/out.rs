//! Where words go. Nobody's closed pipe ends a run by a panic: what cannot be written is not.

use std::{
    io::{self, Write},
    sync::OnceLock,
};

/// Why something was not written to standard output: the first time, and not for a closed pipe.
static FAILURE: OnceLock<String> = OnceLock::new();

/// What kept a text from being written, if anything did: the reader of a pipe who has gone did not.
pub(super) fn failure() -> Option<String> {
    FAILURE.get().map(|e| format!("standard output: {e}; the report is not complete"))
}

fn note(done: io::Result<()>) {
    if let Err(e) = done
        && e.kind() != io::ErrorKind::BrokenPipe
    {
        _ = FAILURE.set(e.to_string());
    }
}

/// What people read: on standard output, or on standard error when that is taken by the report for programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    pub to_stderr: bool,
}

impl Out {
    /// Writes a text without a line's end, at once.
    pub fn put(&self, text: &str) {
        if self.to_stderr {
            _ = write!(io::stderr().lock(), "{text}");
        } else {
            let mut out = io::stdout().lock();
            note(write!(out, "{text}").and_then(|()| out.flush()));
        }
    }

    /// Writes a text and a line's end, at once also into a pipe.
    pub fn say(&self, text: &str) {
        if self.to_stderr {
            complain(text);
        } else {
            // Line-buffered whatever it is connected to.
            let mut out = io::stdout().lock();
            note(writeln!(out, "{text}").and_then(|()| out.flush()));
        }
    }
}

/// Writes a text to standard error.
pub(super) fn complain(text: &str) {
    _ = writeln!(io::stderr().lock(), "{text}");
}
