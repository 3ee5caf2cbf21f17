//! What must not compile.
#![cfg(not(loom))]

#[test]
fn a_single_end_is_not_shared() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
