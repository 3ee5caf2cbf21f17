//! The stage behind a device without any wits, as the port's owner sees it.

mod bench;
mod filters;
mod hostile;
mod rules;
mod spread;
mod traffic;
