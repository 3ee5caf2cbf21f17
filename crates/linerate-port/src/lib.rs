//! The port model that every driver implements
