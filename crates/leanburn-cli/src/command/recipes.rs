//! `leanburn recipes` and `leanburn init`.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use leanburn_common::atomic;
use leanburn_systems::{SystemError, recipes};

use crate::console::print_line;
use crate::error::{CommandError, Result};

pub(super) fn run() -> Result<()> {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["recipe", "for"]);
    for recipe in recipes() {
        table.add_row([recipe.name, recipe.about]);
    }
    print_line(format_args!("{table}\n`leanburn init RECIPE` writes one into a file to edit."))
}

/// `leanburn init`
#[derive(Debug, Args)]
pub struct Init {
    /// Name of the recipe, as `leanburn recipes` lists it.
    recipe: String,
    /// File to write; by default the recipe's name with .yaml.
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Init {
    pub(super) fn run(self) -> Result<()> {
        let found = recipes().into_iter().find(|recipe| recipe.name == self.recipe);
        let Some(recipe) = found else {
            let names: Vec<&str> = recipes().iter().map(|recipe| recipe.name).collect();
            let error = SystemError::Input {
                subject: "RECIPE".into(),
                expected: format!("one of {}", names.join(", ")),
                found: self.recipe,
                remedy: "`leanburn recipes` says what each is for".into(),
            };
            return Err(error.into());
        };
        let path = self.out.unwrap_or_else(|| format!("{}.yaml", recipe.name).into());
        if path.exists() {
            let error = SystemError::Input {
                subject: path.display().to_string(),
                expected: "a new file".into(),
                found: "one that is there already".into(),
                remedy: "name another with --out, or delete it first".into(),
            };
            return Err(error.into());
        }
        atomic::write(&path, recipe.text.as_bytes()).map_err(CommandError::writing(&path))?;
        print_line(format_args!("{path}: edit it, then `leanburn train {path}`", path = path.display()))
    }
}
