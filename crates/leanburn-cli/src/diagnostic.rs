//! Errors as the terminal shows them: with help, and with the lines of the configuration that they are about.

use std::error::Error;
use std::fmt::Display;

use annotate_snippets::{AnnotationKind, Group, Level, Message, Renderer, Snippet, normalize_untrusted_str};
use leanburn_systems::SystemError;
use leanburn_systems::yaml::{ConfigError, ConfigErrors, Place};

use crate::error::CommandError;

/// What the terminal shows of an error: message, causes and help, then every error of a configuration in its line.
pub fn render(error: &CommandError, in_colour: bool) -> String {
    let renderer = if in_colour { Renderer::styled() } else { Renderer::plain() };
    let groups: Vec<String> = groups(error).into_iter().map(|group| renderer.render(&[group])).collect();
    // control characters that the renderer does not replace
    groups.join("\n\n").replace(|c| ('\u{80}'..='\u{9f}').contains(&c), "\u{fffd}")
}

/// Bytes of the text that are marked at most: the renderer shows all of a mark in wide characters.
const LONGEST_MARK: usize = 1000;

fn groups(error: &CommandError) -> Vec<Group<'_>> {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let causes = causes.map(|cause| message(Level::NOTE.with_name("cause"), cause));
    let help = error.help().map(|help| message(Level::HELP, help));
    let mut shown = vec![Level::ERROR.primary_title(error.to_string()).elements(causes).elements(help)];
    match error {
        CommandError::System(SystemError::Config(errors)) => {
            shown.extend(errors.errors().iter().map(|error| in_its_line(errors, error)));
        }
        CommandError::Several(errors) => shown.extend(errors.iter().flat_map(groups)),
        _ => {}
    }
    shown
}

/// An error of a configuration.
fn in_its_line<'a>(errors: &'a ConfigErrors, error: &'a ConfigError) -> Group<'a> {
    let snippet = match error.place {
        Place::Text { offset, length, .. } => {
            let text = errors.text();
            let start = text.floor_char_boundary(offset);
            let end = text.floor_char_boundary(offset.saturating_add(length.min(LONGEST_MARK)));
            let label = AnnotationKind::Primary.span(start..end).label(error.kind.to_string());
            Some(Snippet::source(text).path(normalize_untrusted_str(errors.name())).annotation(label))
        }
        _ => None,
    };
    let title = Level::ERROR.primary_title(error.to_string());
    title.elements(snippet).element(message(Level::HELP, &error.help))
}

fn message(level: Level<'_>, text: impl Display) -> Message<'_> {
    level.message(normalize_untrusted_str(&text.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leanburn_systems::Config;
    use std::path::Path;

    fn errors(text: &str) -> Option<ConfigErrors> {
        Config::parse(text, "test.yaml", &[]).err()
    }

    /// What the terminal shows of a text that is no configuration.
    fn shown(text: &str) -> Option<String> {
        Some(render(&CommandError::from(errors(text)?), false))
    }

    #[test]
    fn every_error_is_shown_in_its_line() {
        let shown = shown("data: {paths: [a]}\nautoencoder:\n  num_chanels: [8]\n  seed: x\n").unwrap();
        assert!(shown.starts_with("error: 3 errors in test.yaml\n\nerror: "), "{shown}");
        let unknown = " --> test.yaml:3:3\n  |\n3 |   num_chanels: [8]\n  |   ^^^^^^^^^^^ unknown key\n  |\n  = help: ";
        for part in [unknown, "missing key"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn causes_and_help_are_shown_and_of_several_errors_all() {
        let error = |path: &str| CommandError::writing(Path::new(path))(std::io::Error::other("the disk\nis gone"));
        let one = render(&error("a folder/run"), false);
        let expected =
            "error: cannot write a folder/run\n |\n = cause: the disk\n          is gone\n = help: check that";
        assert!(one.starts_with(expected), "{one}");
        let several = render(&CommandError::Several(vec![error("a"), error("b")]), false);
        assert!(several.starts_with("error: 2 things are wrong\n\nerror: cannot write a\n"), "{several}");
        assert!(several.contains("\n\nerror: cannot write b\n"), "{several}");
    }

    #[test]
    fn colours_are_a_choice() {
        let error = CommandError::OverBudget;
        assert_eq!(render(&error, false), "error: over the budget");
        assert!(render(&error, true).contains("\u{1b}["));
    }

    #[test]
    fn a_byte_order_mark_shifts_nothing() {
        let shown = shown("\u{feff}sead: 1\ndata: {paths: [a]}\nautoencoder: {num_channels: [32]}\n").unwrap();
        assert!(shown.contains("1 | sead: 1\n  | ^^^^ "), "{shown:?}");
    }

    #[test]
    fn hostile_text_is_shown() {
        for text in ["[".repeat(9_000), "k".repeat(9_000) + ": 1", format!("seed: \"{}\"", "\\e[2J".repeat(1_000))] {
            assert!(shown(&text).unwrap().len() < 5_000);
        }
    }

    #[test]
    fn no_text_controls_the_terminal() {
        for text in ["\u{1b}[2J: 1", "s\u{9b}2Jead: 1", "\0", "a: \u{7f}\t\r\n\u{8}: [\u{feff}"] {
            let shown = shown(text).unwrap();
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
        }
    }

    #[test]
    fn a_mark_may_lie_anywhere() {
        let long = "\u{6f22}".repeat(9_000);
        for text in ["", "\u{e4}: \u{6f22}\u{1f600}\r\n\tb\n", &long] {
            let errors = errors(text).unwrap();
            let mut error = errors.errors()[0].clone();
            let ends = [text.len(), text.len() + 1, usize::MAX];
            for (offset, length) in (0..20).chain(ends).flat_map(|o| (0..20).chain(ends).map(move |l| (o, l))) {
                error.place = Place::Text { line: 1, column: 1, offset, length };
                let shown = Renderer::plain().render(&[in_its_line(&errors, &error)]);
                assert!(shown.contains("test.yaml:") && shown.len() < 5_000, "{offset}, {length}: {shown}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z:\\[\\]{}#&*!|>'\"%@`\\-?, \n\t0-9.\u{e4}]{0,200}") {
            let _ = shown(&text);
        }
    }
}
