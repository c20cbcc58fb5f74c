//! `leanburn data`: the page of what a model will see.

use std::fs;

use crate::common::Place;

const MODEL: &str = "autoencoder: {num_channels: [4], norm_num_groups: 2, num_res_blocks: 1}\n";

fn configuration(data: &str) -> String {
    format!("data:\n  phantom: {{count: 3, shape: [12, 12, 12]}}\n  patch_size: 8\n{data}{MODEL}")
}

#[test]
fn the_page_shows_what_is_seen_and_says_what_was_done() {
    let place = Place::new();
    fs::write(place.path("c.yaml"), configuration("  augmentation: nnunet\n")).unwrap();
    let ended = place.run(&["data", "c.yaml", "--samples", "20"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("8x8x8, 1 channel") && ended.stdout.contains("c-data.html"), "{}", ended.stdout);
    let page = fs::read_to_string(place.path("c-data.html")).unwrap();
    assert_eq!(page.matches("data:image/png;base64,").count(), 20);
    for text in ["Sample 19", "mirrored along y", "gamma", "rotated by", "probability: 0.2", "phantom 2"] {
        assert!(page.contains(text), "{text}");
    }
    // the same again, and nothing is replaced
    let again = place.run(&["data", "c.yaml", "again.html", "--samples", "20"]);
    assert_eq!((again.code, fs::read_to_string(place.path("again.html")).unwrap() == page), (Some(0), true));
    assert!(place.run(&["data", "c.yaml"]).stderr.contains("--force"));
    let plain = place.run(&["data", "c.yaml", "plain.html", "--set", "data.augmentation=none"]);
    assert_eq!(plain.code, Some(0), "{}", plain.stderr);
    let page = fs::read_to_string(place.path("plain.html")).unwrap();
    assert!(page.contains("as it is") && !page.contains("rotated"));
}

#[test]
fn fields_and_labels_are_shown_too() {
    let place = Place::new();
    fs::write(place.path("f.yaml"), "sequence: {advection: {steps: 60, shape: [8, 8]}}\nforecaster: {}\n").unwrap();
    let labels = configuration("  labels: {}\n").replace(MODEL, "segmentation: {num_classes: 3, channels: [4, 8]}\n");
    fs::write(place.path("s.yaml"), labels).unwrap();
    for (name, fact) in [("f", "fields of 8x8"), ("s", "classes  3")] {
        let ended = place.run(&["data", &format!("{name}.yaml"), "--samples", "2"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.contains(fact), "{}", ended.stdout);
        assert!(place.path(&format!("{name}-data.html")).is_file());
    }
}

#[test]
fn augmentation_is_read_validated_and_planned() {
    let place = Place::new();
    let plan = |data: &str| {
        fs::write(place.path("c.yaml"), configuration(data)).unwrap();
        place.run(&["plan", "c.yaml", "--json"])
    };
    let preset = plan("  augmentation: nnunet\n");
    assert_eq!(preset.code, Some(0), "{}", preset.stderr);
    let json: serde_json::Value = serde_json::from_str(&preset.stdout).unwrap();
    assert!(json.to_string().contains("samples that are augmented (data.num_workers)"), "{json}");
    let sparse = plan("  augmentation: {preset: nnunet, low_resolution: {probability: 0}}\n");
    assert!(sparse.code == Some(0) && !sparse.stdout.contains("augmented"), "{}", sparse.stdout);
    for (data, expected) in [
        ("  augmentation: nnunett\n", "did you mean `nnunet`"),
        ("  augmentation: {gamma: {range: [0.5, 2]}}\n", "data.augmentation.gamma.probability"),
        ("  augmentation: {elastic: {probability: 0.2, range: [0, 0.7]}}\n", "from 0 to 0.4"),
        ("  augmentation: {gama: {probability: 0.2}}\n", "gamma"),
        ("  augmentation: {gamma: {probability: 2}}\n", "probability"),
    ] {
        let ended = plan(data);
        assert!(ended.code == Some(2) && ended.stderr.contains(expected), "{:?} {}", ended.code, ended.stderr);
    }
}
