//! `leanburn launch`.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::console::print_line;
use crate::error::{CommandError, Result};

/// `leanburn launch`
#[derive(Debug, Args)]
pub struct Launch {
    /// How many processes train together.
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// MPI's launcher.
    #[arg(long, default_value = "mpirun")]
    launcher: PathBuf,
    /// Print the launcher's command instead of running it, to go into a script.
    #[arg(long)]
    print: bool,
    /// Configuration in YAML, then what else `leanburn train` takes.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CONFIG")]
    train: Vec<OsString>,
}

impl Launch {
    pub(super) fn run(self) -> Result<()> {
        let words = self.command()?;
        if self.print {
            return print_line(words.iter().map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" "));
        }
        let status = Command::new(&words[0]).args(&words[1..]).status();
        let status = status.map_err(|source| self.not_started(source))?;
        match status.code() {
            Some(0) => Ok(()),
            code => Err(CommandError::Launched(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))),
        }
    }

    /// The launcher with its arguments. Open MPI is allowed more processes than cores.
    fn command(&self) -> Result<Vec<OsString>> {
        let this = env::current_exe().map_err(|source| self.not_started(source))?;
        let version = Command::new(&self.launcher).arg("--version").output();
        let version = version.map_err(|source| self.not_started(source))?;
        let mut words: Vec<OsString> = vec![self.launcher.clone().into(), "-n".into(), self.ranks.to_string().into()];
        if String::from_utf8_lossy(&version.stdout).contains("Open MPI") {
            words.push("--oversubscribe".into());
        }
        words.extend([this.into(), "train".into()]);
        words.extend(self.train.iter().cloned());
        Ok(words)
    }

    fn not_started(&self, source: std::io::Error) -> CommandError {
        CommandError::Launcher { program: self.launcher.display().to_string(), source }
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,+@%".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_split_it() {
        assert_eq!(quoted("runs/a-1.yaml"), "runs/a-1.yaml");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
