//! `leanburn recipes` and `leanburn init`.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use leanburn_systems::{Recipe, SystemError, recipes};
use serde_json::{Value, json};

use super::output::{Force, Output};
use super::sample;
use crate::console::print_line;
use crate::error::{Result, both};

/// `leanburn recipes`
#[derive(Debug, Args)]
pub struct Recipes {
    /// Print them as JSON, with their YAML.
    #[arg(long)]
    json: bool,
}

impl Recipes {
    pub(super) fn run(self) -> Result<()> {
        if self.json {
            let listed = recipes()
                .into_iter()
                .map(|Recipe { name, about, text }| json!({ "name": name, "about": about, "yaml": text }));
            return print_line(Value::Array(listed.collect()));
        }
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(["recipe", "for"]);
        for recipe in recipes() {
            table.add_row([recipe.name, recipe.about]);
        }
        print_line(format_args!(
            "{table}\n`leanburn init RECIPE` writes one into a file to edit, and the volumes that it names and that come with the command."
        ))
    }
}

/// `leanburn init`: the configuration, and in `data` the volumes that it names if they come with the command.
#[derive(Debug, Args)]
pub struct Init {
    /// Name of the recipe, as `leanburn recipes` lists it.
    recipe: String,
    /// File to write; by default the recipe's name with .yaml.
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
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
        let (configuration, samples) = both(Output::new(&path, &[], self.force), sample::outputs(&recipe, self.force))?;
        configuration.write(recipe.text)?;
        sample::write(samples)?;
        print_line(format_args!("{path}: edit it, then `leanburn train {path}`", path = path.display()))
    }
}
