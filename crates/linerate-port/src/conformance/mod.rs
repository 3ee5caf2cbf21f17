//! The suite that every driver passes.
