//! `leanburn segment`: a label map on the volume's own grid.

use std::fs;

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_data::{LabelMap, Volume, prepare};
use leanburn_nn::weights;
use leanburn_systems::{Config, SystemSection};

use crate::common::{Place, placed, smooth};

const CONFIG: &str = "\
data:
  phantom: {count: 2, shape: [16, 16, 16]}
  labels: {}
  patch_size: 8
  num_workers: 1
segmentation:
  num_classes: 3
  channels: [4, 8]
  training: {max_steps: 4, learning_rate: 0.01, val_interval: 4, visualize_interval: 4}
";
const WEIGHTS: &str = "run/weights.safetensors";

/// A trained model in the folder `run`.
fn trained() -> Place {
    let place = Place::new();
    fs::write(place.path("segmentation.yaml"), CONFIG).unwrap();
    place.succeed(&["train", "segmentation.yaml", "--out", "run"]);
    place
}

/// What the model alone makes of a volume whose sizes are even.
fn direct(place: &Place, volume: Volume) -> LabelMap {
    let config = Config::load(&place.path("run/config.yaml"), &[]).unwrap();
    let SystemSection::Segmentation(section) = &config.system else { panic!("{config:?}") };
    let mut model = section.model().init(&Device::flex());
    weights::load(&mut model, &place.path(WEIGHTS)).unwrap();
    let volume = prepare(volume, &config.data).unwrap().volume;
    let [channels, x, y, z] = volume.shape();
    let input = TensorData::new(volume.data().to_vec(), [1, channels, x, y, z]);
    let logits = model.forward(Tensor::from_data(input, &Device::flex()));
    LabelMap::argmax(&volume.with_data(logits.into_data().try_to_vec().unwrap(), 3).unwrap()).unwrap()
}

#[test]
fn labels_are_those_of_the_model_on_the_grid_of_the_volume() {
    let place = trained();
    let volume = smooth([1, 12, 10, 8], 0.0, 900.0);
    volume.write(place.path("in.nii.gz")).unwrap();
    let printed = place.succeed(&["segment", WEIGHTS, "in.nii.gz", "whole.nii.gz", "--patch", "12,10,8"]);
    assert!(printed.contains("whole.nii.gz") && printed.contains("class 2"), "{printed}");
    let expected = direct(&place, volume);
    assert_eq!(LabelMap::read(place.path("whole.nii.gz")).unwrap(), expected);
    // a label a voxel, as a byte
    place.succeed(&["segment", WEIGHTS, "in.nii.gz", "patches.nii"]);
    assert_eq!(place.bytes("patches.nii").len(), 352 + 12 * 10 * 8);
    let patches = LabelMap::read(place.path("patches.nii")).unwrap();
    assert_eq!((patches.extent(), patches.affine()), (expected.extent(), expected.affine()));
    assert!(patches.data().iter().all(|label| *label < 3));
}

#[test]
fn the_grid_is_that_of_the_volume_whatever_the_model_was_trained_on() {
    let place = trained();
    let text = CONFIG.replace("  patch_size: 8\n", "  patch_size: 8\n  spacing: [2, 3, 1.5]\n");
    fs::write(place.path("coarse.yaml"), text).unwrap();
    // x to the left, y and z exchanged
    let affine = [[-1.5, 0.0, 0.0, 40.0], [0.0, 0.0, 2.0, -7.0], [0.0, 1.0, 0.0, 3.0], [0.0, 0.0, 0.0, 1.0]];
    placed([1, 11, 9, 13], 0.0, 1.0, affine).write(place.path("turned.nii")).unwrap();
    for config in ["run/config.yaml", "coarse.yaml"] {
        place.succeed(&["segment", WEIGHTS, "turned.nii", "labels.nii", "--config", config, "--force"]);
        // dim, pixdim and the rows of the affine
        let [volume, labels] = ["turned.nii", "labels.nii"].map(|name| place.bytes(name));
        for range in [40..56, 76..108, 280..328] {
            assert_eq!(labels[range.clone()], volume[range], "{config}");
        }
        let labels = LabelMap::read(place.path("labels.nii")).unwrap();
        assert_eq!(labels.extent(), place.volume("turned.nii").extent());
    }
}

#[test]
fn bad_inputs_are_named_and_nothing_is_written() {
    let place = trained();
    place.train("autoencoder", &["--max-steps", "1"]);
    smooth([1, 8, 8, 8], 0.0, 1.0).write(place.path("in.nii")).unwrap();
    smooth([2, 8, 8, 8], 0.0, 1.0).write(place.path("two.nii")).unwrap();
    fs::write(place.path("cut.nii"), &place.bytes("in.nii")[..500]).unwrap();
    let before = place.contents();
    let other = "autoencoder/weights.safetensors";
    for (arguments, parts) in [
        ([WEIGHTS, "none.nii", "out.nii"], ["none.nii", "not found"]),
        ([WEIGHTS, "cut.nii", "out.nii"], ["cut.nii", "found at most 500"]),
        ([WEIGHTS, "two.nii", "out.nii"], ["two.nii", "found 2"]),
        ([WEIGHTS, "in.nii", "out.npy"], ["out.npy", ".nii.gz"]),
        ([WEIGHTS, "in.nii", "in.nii"], ["in.nii", "an input"]),
        ([WEIGHTS, "in.nii", "nowhere/out.nii"], ["nowhere/out.nii", "folder"]),
        ([other, "in.nii", "out.nii"], ["section `segmentation`", "section `autoencoder`"]),
        (["none.safetensors", "in.nii", "out.nii"], ["none.safetensors", "--config"]),
    ] {
        let ended = place.run(&[&["segment"][..], &arguments].concat());
        assert_ne!(ended.code, Some(0), "{arguments:?}");
        parts.iter().for_each(|part| assert!(ended.stderr.contains(part), "{part} in {}", ended.stderr));
    }
    let ended = place.run(&["segment", other, "in.nii", "out.nii", "--config", "run/config.yaml"]);
    assert_ne!(ended.code, Some(0), "weights of another model");
    assert_eq!(place.contents(), before, "nothing is written");
}
