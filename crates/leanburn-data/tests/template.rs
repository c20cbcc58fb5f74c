//! The brain template of `data/`: a file as others write it. A package of this crate is without it, and without these tests.

use std::path::PathBuf;

use leanburn_data::metrics::best_two_thresholds;
use leanburn_data::{DataConfig, Dataset, LabelsConfig, Volume};

fn template(name: &str) -> PathBuf {
    // Cargo runs tests in the folder of their crate.
    PathBuf::from(format!("../../data/mni152_2009a_{name}_1mm.nii.gz"))
}

#[test]
fn the_template_is_read_and_returned() {
    let volume = Volume::read(template("t1")).unwrap();
    assert_eq!(volume.shape(), [1, 197, 233, 189]);
    assert_eq!(volume.spacing(), [1.0; 3]);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.nii.gz");
    volume.clone().into_original_orientation().unwrap().write(&copy).unwrap();
    assert_eq!(Volume::read(&copy).unwrap().data(), volume.data());
}

#[test]
fn the_template_has_the_labels_and_thresholds_of_numpy() {
    // numpy: labels = argmax([255 - gm - wm, gm, wm]) of [:, 186:], and the best of all pairs of 8-bit thresholds.
    let labels = LabelsConfig { class_maps: vec![template("gm"), template("wm")], ..LabelsConfig::default() };
    let config = DataConfig {
        paths: vec![template("t1")],
        labels: Some(labels),
        patch_size: Some([16; 3]),
        ..DataConfig::default()
    };
    let part = Dataset::open(&config, 1).unwrap().held_out(0).unwrap();
    let labels = part.labels.unwrap();
    let count = |class: u8| labels.data().iter().filter(|label| **label == class).count();
    assert_eq!([0, 1, 2].map(count), [1_681_225, 50_500, 18_226]);
    let best = best_two_thresholds(part.volume.data(), labels.data()).unwrap();
    assert!((best.mean - 0.966_779_639_443_373_4).abs() < 1e-12, "{best:?}");
}
