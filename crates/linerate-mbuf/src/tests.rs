//! Tests that need more than one module; see also the tests beside each file.
