//! Mistakes of ownership that must not compile.

#[test]
fn ownership_mistakes_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
