//! Misuse that does not compile.
#![cfg(all(feature = "axum", feature = "sqlite"))]

/// Each file is a mistake, and beside it is what the compiler says of it.
#[test]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/misuse/*.rs");
}
