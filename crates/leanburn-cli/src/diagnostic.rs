//! Errors as the terminal shows them: with help, and with the lines of the configuration that they are about.

use std::fmt;

use leanburn_systems::SystemError;
use leanburn_systems::yaml::{ConfigError, ConfigErrors, Place};
use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use crate::error::CommandError;

/// An error of a command, for miette.
#[derive(Debug)]
pub struct Shown {
    error: CommandError,
    help: Option<String>,
    source: Option<NamedSource<String>>,
    related: Vec<Box<dyn Diagnostic + Send + Sync>>,
}

impl From<CommandError> for Shown {
    fn from(mut error: CommandError) -> Self {
        let help = error.help().map(|help| help.to_string());
        let (mut source, mut related) = (None, Vec::<Box<dyn Diagnostic + Send + Sync>>::new());
        match &mut error {
            CommandError::System(SystemError::Config(errors)) => {
                source = Some(text_of(errors));
                related.extend(errors.errors().iter().map(|error| Box::new(ShownConfigError(error.clone())) as _));
            }
            CommandError::Several(errors) => {
                let shown = errors.drain(..).map(|error| Box::new(Self::from(error)) as _);
                related.extend(shown);
            }
            _ => {}
        }
        Self { error, help, source, related }
    }
}

/// The text of a configuration, by its name.
fn text_of(errors: &ConfigErrors) -> NamedSource<String> {
    NamedSource::new(errors.name(), errors.text().to_owned()).with_language("yaml")
}

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            // they are shown below
            CommandError::Several(_) => write!(out, "{} things are wrong", self.related.len()),
            error => error.fmt(out),
        }
    }
}

impl std::error::Error for Shown {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl Diagnostic for Shown {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as _)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as _)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        match self.related.is_empty() {
            true => None,
            false => Some(Box::new(self.related.iter().map(|related| &**related as &dyn Diagnostic))),
        }
    }
}

/// An error of a configuration, for miette.
#[derive(Debug)]
struct ShownConfigError(ConfigError);

impl fmt::Display for ShownConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl std::error::Error for ShownConfigError {}

impl Diagnostic for ShownConfigError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.0.help))
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let Place::Text { offset, length, .. } = self.0.place else {
            return None;
        };
        let label = LabeledSpan::new(Some(self.0.kind.to_string()), offset, length);
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leanburn_systems::Config;

    /// What the terminal shows of a text that is no configuration.
    fn shown(text: &str) -> Option<String> {
        let errors = Config::parse(text, "test.yaml", &[]).err()?;
        let mut shown = String::new();
        miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
            .render_report(&mut shown, &Shown::from(CommandError::from(errors)))
            .unwrap();
        Some(shown)
    }

    #[test]
    fn every_error_is_shown_in_its_line() {
        let shown = shown("data: {paths: [a]}\nautoencoder:\n  num_chanels: [8]\n  seed: x\n").unwrap();
        for part in ["3 errors in test.yaml", "test.yaml:3:3", "num_chanels: [8]", "missing key"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn a_byte_order_mark_shifts_nothing() {
        let shown = shown("\u{feff}sead: 1\ndata: {paths: [a]}\nautoencoder: {num_channels: [32]}\n").unwrap();
        assert!(shown.contains("1 │ sead: 1"), "{shown:?}");
    }

    #[test]
    fn hostile_text_is_shown() {
        for text in ["[".repeat(9_000), "k".repeat(9_000) + ": 1", format!("seed: \"{}\"", "\\e[2J".repeat(1_000))] {
            assert!(shown(&text).unwrap().len() < 3_000_000);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z:\\[\\]{}#&*!|>'\"%@`\\-?, \n\t0-9.\u{e4}]{0,200}") {
            let _ = shown(&text);
        }
    }
}
