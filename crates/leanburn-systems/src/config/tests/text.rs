//! Text that is hostile, large or in other encodings, and its places.

use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::yaml::{ConfigErrorKind, Place};

#[test]
fn hostile_text_is_an_error_and_soon() {
    let bomb = (1..10).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, i| {
        let line: Vec<String> = vec![format!("*a{}", i - 1); 9];
        format!("{text}a{i}: &a{i} [{}]\n", line.join(", "))
    });
    let texts = [
        "a: 1\n".repeat(1 << 21),
        "[".repeat(500_000),
        "[".repeat(9_000),
        "[\n".repeat(100_000),
        "[".repeat(40) + &"]".repeat(40),
        "- ".repeat(500_000),
        "- ".repeat(4_000),
        format!(
            "{{{}}}",
            (0..2_000).map(|i| format!("k{i}: 1,{}", if i % 500 == 0 { '\n' } else { ' ' })).collect::<String>()
        ),
        (0..400).map(|depth| " ".repeat(depth) + "a:\n").collect(),
        bomb,
        "a: &a [*a]\n".into(),
        "<<: {seed: 1}\n".into(),
        "? [seed]\n: 1\n".into(),
        "a: 1\n---\nb: 2\n".into(),
        "\0\u{1}\u{7f}".into(),
        "seed: 1\rdata\u{85}: \u{2028}[".into(),
        "'".into(),
        "k".repeat(1_000_000) + ": 1",
        "k".repeat(9_000) + ": 1",
        format!("seed: {}", "9".repeat(9_000)),
        format!("seed: \"{}\"", "\\e[2J".repeat(1_000)),
        (0..19_000).map(|i| format!("key_{i}: 1\n")).collect(),
        "\u{feff}".into(),
        "   \n# nothing\n".into(),
    ];
    for text in texts {
        let start = Instant::now();
        let errors = parse(&text).unwrap_err();
        let shown = format!("{errors:#}");
        let head: String = text.chars().take(30).collect();
        assert!(start.elapsed() < Duration::from_secs(60), "{head:?}: {:?}", start.elapsed());
        assert!(!errors.errors().is_empty(), "{head:?}");
        assert!(shown.len() < 3_000_000, "{head:?}: {}", shown.len());
    }
}

#[test]
fn files_are_read_within_limits() {
    let folder = std::env::temp_dir().join(format!("leanburn-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let load = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        Config::load(&path, &[])
    };
    assert!(load("good.yaml", MINIMAL.as_bytes()).is_ok());
    assert!(load("bom.yaml", format!("\u{feff}{MINIMAL}").as_bytes()).is_ok());
    assert!(load("windows.yaml", MINIMAL.replace('\n', "\r\n").as_bytes()).is_ok());
    let kind = |result: Result<Config, ConfigErrors>| result.unwrap_err().errors()[0].kind;
    assert_eq!(kind(load("binary.yaml", b"seed: 1\n\xff\xfe\x00")), ConfigErrorKind::File);
    assert_eq!(kind(load("large.yaml", &vec![b'#'; 10 << 20])), ConfigErrorKind::File);
    assert_eq!(kind(Config::load(&folder.join("none.yaml"), &[])), ConfigErrorKind::File);
    assert_eq!(kind(Config::load(&folder, &[])), ConfigErrorKind::File);
    assert_eq!(kind(Config::load(Path::new(""), &[])), ConfigErrorKind::File);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn limits_are_named_before_the_text_is_parsed() {
    let kind = |text: String| parse(&text).unwrap_err().errors()[0].kind;
    assert_eq!(kind("#\n".repeat(1 << 20)), ConfigErrorKind::File);
    assert_eq!(kind(format!("seed: {}", "9".repeat(20_000))), ConfigErrorKind::File);
}

#[test]
fn a_byte_order_mark_shifts_nothing() {
    let errors = Config::parse(&format!("\u{feff}sead: 1\n{MINIMAL}"), "test.yaml", &[]).unwrap_err();
    assert!(matches!(errors.errors()[0].place, Place::Text { line: 1, column: 1, offset: 0, length: 4 }));
}

#[test]
fn places_count_characters_and_bytes() {
    let errors = parse("data: {paths: [\"größe\"], seed: 1}\nautoencoder: {num_channels: [32]}\n").unwrap_err();
    let error = &errors.errors()[0];
    assert_eq!(error.position(), Some((1, 26)));
    assert!(matches!(error.place, Place::Text { offset: 27, length: 4, .. }), "{:?}", error.place);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-z:\\[\\]{}#&*!|>'\"%@`\\-?, \n\t0-9.\u{e4}]{0,200}") {
        if let Err(errors) = Config::parse(&text, "test.yaml", std::slice::from_ref(&text)) {
            assert!(!format!("{errors:#}").is_empty());
        }
    }
}
