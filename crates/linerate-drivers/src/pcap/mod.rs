//! Capture files: the formats, and the port that reads and writes them.
//!
//! [`mod@format`] knows bytes and times and nothing of packet buffers or ports.

#![forbid(unsafe_code)]

pub mod format;
#[doc(hidden)]
pub mod fuzzing;
