//! `leanburn plan`, `fit` and `measure` as people use them.

#[path = "../common/mod.rs"]
mod common;
mod fit;
mod measure;
mod plan;

use common::{Ended, Place};
use serde_json::Value;

/// Cubes of 32, four to a step: the 0.2 MiB of graph metadata are little in comparison with the activations.
const SETTINGS: [&str; 8] = [
    "--set",
    "data.phantom.shape=[32,32,32]",
    "--set",
    "data.patch_size=32",
    "--set",
    "autoencoder.num_channels=[8,16]",
    "--set",
    "autoencoder.training.batch_size=4",
];

/// The autoencoder without its discriminator: half as many operations to record.
const ALONE: [&str; 2] = ["--set", "autoencoder.training.discriminator=null"];

/// One level, where a search has nothing to choose from but it.
const ONE_LEVEL: [&str; 4] = ["--set", "autoencoder.num_channels=[8]", "--set", "autoencoder.training.batch_size=1"];

/// Runs a command on `tiny.yaml` with [`SETTINGS`] and more arguments.
fn run(place: &Place, command: &str, more: &[&str]) -> Ended {
    place.run(&[&[command, "tiny.yaml"], &SETTINGS[..], more].concat())
}

/// Its answer as JSON, and the exit code.
#[track_caller]
fn ask(place: &Place, arguments: &[&str]) -> (Value, i32) {
    let ended = place.run(&[arguments, &["--json"]].concat());
    let answer = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    assert!(ended.stderr.is_empty(), "nothing else is printed with --json: {}", ended.stderr);
    (answer, ended.code.unwrap())
}

/// The same on `tiny.yaml` with [`SETTINGS`].
#[track_caller]
fn ask_tiny(place: &Place, command: &str, more: &[&str]) -> (Value, i32) {
    ask(place, &[&[command, "tiny.yaml"], &SETTINGS[..], more].concat())
}

#[track_caller]
fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no number `{name}` in {value}"))
}

fn bytes(count: u64) -> String {
    format!("{count}B")
}

/// A command line that must be rejected: what it must say.
#[track_caller]
fn reject(place: &Place, arguments: &[&str], says: &[&str]) {
    let before = place.contents();
    let Ended { code, stdout, stderr } = place.run(arguments);
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
    for said in says {
        assert!(stderr.contains(said), "{arguments:?} does not say {said:?}:\n{stderr}");
    }
    assert!(!stderr.contains("panicked") && place.contents() == before, "{arguments:?}:\n{stderr}");
}
