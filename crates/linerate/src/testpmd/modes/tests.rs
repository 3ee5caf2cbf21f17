//! What each mode does to packets, through the mode itself.
