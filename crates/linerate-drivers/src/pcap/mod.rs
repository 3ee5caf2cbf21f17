//! Capture files: the formats, and the port that reads and writes them.
//!
//! [`mod@format`] knows bytes and times and nothing of packet buffers or ports. On it stand the queues: one that
//! reads a file once (`file`), one that replays it from memory for ever (`replay`), one that writes a file or
//! drops (`tx`); [`ENTRY`] makes ports of them.

// One call of the system has no safe form; it is allowed by name.
#![deny(unsafe_code)]

mod claim;
mod driver;
mod error;
mod file;
mod fill;
pub mod format;
#[doc(hidden)]
pub mod fuzzing;
mod output;
#[cfg(test)]
mod output_tests;
mod packets;
#[cfg(test)]
mod pipe_tests;
mod replay;
mod screen;
#[cfg(test)]
mod tests;
mod tx;

pub use driver::ENTRY;
pub use error::FileError;
