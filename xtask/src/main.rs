//! hapax
fn main() {}
