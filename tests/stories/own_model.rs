//! What the example of a model of one's own promises: 120 lines, and no import but prelude and Burn.

const EXAMPLE: &str = include_str!("../../examples/train_your_own_model/main.rs");

#[test]
fn the_example_needs_prelude_and_burn_alone() {
    assert!(EXAMPLE.lines().count() <= 120, "{} lines", EXAMPLE.lines().count());
    let code = || EXAMPLE.lines().filter(|line| !line.trim_start().starts_with("//"));
    let imports: Vec<_> = code().filter(|line| line.trim_start().starts_with("use ")).collect();
    let allowed = |line: &&str| line.starts_with("use burn::") || *line == "use leanburn::prelude::*;";
    assert!(imports.iter().all(allowed), "{imports:?}");
    let paths: Vec<_> = code().filter(|line| line.contains("leanburn") && !line.starts_with("use ")).collect();
    assert!(paths.iter().all(|line| !line.contains("leanburn::") && !line.contains("leanburn_")), "{paths:?}");
}
