//! Packet buffers and the pools they live in
