//! Linerate: a userspace packet data plane
