//! Bounded FIFO rings in every synchronisation mode
