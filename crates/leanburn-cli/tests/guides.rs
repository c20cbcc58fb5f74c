//! docs/guides.md: every line is read as people would use it.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Parser;
use leanburn_cli::command::Command;
use leanburn_systems::{Config, recipes};
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/guides.md");

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    _command: Command,
}

/// A line of a table.
struct Line {
    guide: String,
    here: String,
}

/// The small configuration before each table, and its lines.
fn tables() -> Vec<(String, Vec<Line>)> {
    let mut tables = Vec::new();
    for section in PAGE.split("\n## ").skip(1) {
        let yaml = section.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| the guide"));
        let lines = rows.map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            assert!(cells.len() == 3 || cells.len() == 2, "{row}");
            Line { guide: cells[0].into(), here: cells[1].into() }
        });
        tables.push((yaml.into(), lines.collect()));
    }
    tables
}

/// The text in backticks, if a cell is that alone.
fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`').filter(|text| !text.contains('`'))
}

/// `a.b=c` for every leaf of YAML.
fn overrides(yaml: &str) -> Vec<String> {
    fn leaves(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                for (key, value) in entries {
                    leaves(&if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value, found);
                }
            }
            value => drop(found.insert(path.into(), value.to_string())),
        }
    }
    let value: Value = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"));
    assert!(value.is_object(), "{yaml}");
    let mut found = BTreeMap::new();
    leaves("", &value, &mut found);
    found.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

fn check_command(command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    Arguments::try_parse_from(&words).unwrap_or_else(|error| panic!("{command}: {error}"));
    if let ["leanburn", "init", name] = words[..] {
        assert!(recipes().iter().any(|recipe| recipe.name == name), "{name}");
    }
}

#[test]
fn every_line_is_read() {
    let [mut snippets, mut commands, mut others] = [0; 3];
    for (base, lines) in tables() {
        Config::parse(&base, "the base", &[]).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(lines.len() > 5);
        for Line { guide, here } in lines {
            match code(&here) {
                Some(command) if command.starts_with("leanburn ") => {
                    check_command(command);
                    commands += 1;
                }
                Some(yaml) => {
                    let overrides = overrides(yaml);
                    Config::parse(&base, "guides.md", &overrides).unwrap_or_else(|errors| panic!("{guide}: {errors}"));
                    snippets += 1;
                }
                None => {
                    assert!(["nothing", "not yet"].contains(&here.as_str()), "{guide}: {here}");
                    // what is said not to be there is not there
                    if let Some(yaml) = code(&guide).filter(|text| here == "not yet" && text.contains(": ")) {
                        assert!(Config::parse(&base, "guides.md", &overrides(yaml)).is_err(), "{guide}");
                    }
                    others += 1;
                }
            }
        }
    }
    assert!(snippets > 50 && commands > 20 && others > 15, "{snippets} {commands} {others}");
}

/// What a guide writes as keys and flags stands on the page: `LEANBURN_GUIDES=FOLDER`, a file for each guide.
#[test]
#[ignore = "needs the guides, which are not ours to keep"]
fn no_key_and_no_flag_of_the_guides_is_left_out() {
    let folder = std::env::var("LEANBURN_GUIDES").expect("the folder of the guides");
    let mut missing = Vec::new();
    for file in std::fs::read_dir(Path::new(&folder)).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let flags = text.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 4);
        let blocks = text.split("```yaml").skip(1).filter_map(|rest| rest.split("```").next());
        let keys = blocks.flat_map(str::lines).filter_map(|line| line.split('#').next()?.trim().split_once(':'));
        let keys = keys.map(|(key, _)| key.trim_start_matches("- ")).filter(|key| !key.is_empty());
        let words = flags.chain(keys).map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_'));
        missing.extend(words.filter(|word| !PAGE.contains(word)).map(str::to_owned));
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "{missing:?}");
}
