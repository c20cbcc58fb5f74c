//! The `leanburn` command.
fn main() {}
