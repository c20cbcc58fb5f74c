//! Samples of whole data sets.

use super::batch::Sample;
use super::config::{DataConfig, LabelsConfig};
use super::dataset::Dataset;
use super::item::Reader;
use crate::augmentation::{AugmentationConfig, Strength};
use crate::synthetic::PhantomConfig;
use crate::synthetic::RadarConfig;
use crate::volumes::affine::IDENTITY;
use crate::volumes::{Normalize, Volume};
use std::collections::HashSet;
use std::path::PathBuf;

fn phantoms(count: usize) -> DataConfig {
    DataConfig {
        phantom: Some(PhantomConfig { count, shape: [16, 14, 12], noise: 0.05 }),
        patch_size: Some([6, 6, 6]),
        ..DataConfig::default()
    }
}

fn write(folder: &std::path::Path, name: &str, data: Vec<f32>, shape: [usize; 4]) -> PathBuf {
    let path = folder.join(name);
    Volume::new(data, shape, IDENTITY).unwrap().write(&path).unwrap();
    path
}

#[test]
fn an_epoch_visits_every_training_volume_once() {
    let dataset = Dataset::open(&phantoms(10), 3).unwrap();
    assert_eq!((dataset.len(), dataset.channels(), dataset.is_empty()), (8, 1, false));
    let epoch = |epoch: u64| -> Vec<String> {
        (epoch * 8..epoch * 8 + 8).map(|index| dataset.train_sample(index).unwrap().name).collect()
    };
    let names: HashSet<String> = epoch(0).into_iter().collect();
    assert_eq!(names.len(), 8);
    assert!((1..5).any(|later| epoch(later) != epoch(0)));
    assert_eq!(epoch(4).into_iter().collect::<HashSet<_>>(), names);
    for index in 0..dataset.val_len() {
        assert!(!names.contains(&dataset.val_sample(index).unwrap().name));
    }
    assert_eq!(dataset.val_len(), 8);
    assert!(dataset.val_sample(8).is_err());
    assert_eq!(dataset.exhibit().unwrap().0.shape(), [1, 16, 14, 12]);
}

#[test]
fn a_thread_reads_again_what_it_has_not_read_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "one.npy", (0..512).map(|value| value as f32).collect(), [1, 8, 8, 8]);
    let config = DataConfig { paths: vec![path.clone()], cache_rate: 0.0, val_fraction: 0.0, ..DataConfig::default() };
    let dataset = Dataset::open(&config, 1).unwrap();
    let mut reader = Reader::default();
    let first = dataset.train_batch(2, 0.., &mut reader).unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!(dataset.train_batch(2, 0.., &mut reader).unwrap(), first);
    assert!(dataset.train_batch(2, 0.., &mut Reader::default()).unwrap_err().is_not_found());
}

#[test]
fn samples_depend_on_seed_and_index_alone() {
    let config = DataConfig { flip: [true; 3], intensity_jitter: 0.1, ..phantoms(4) };
    let uncached = DataConfig { cache_rate: 0.0, num_workers: 0, ..config.clone() };
    let (first, second) = (Dataset::open(&config, 1).unwrap(), Dataset::open(&uncached, 1).unwrap());
    for index in [5, 0, 17, 5] {
        assert_eq!(first.train_sample(index).unwrap(), second.train_sample(index).unwrap());
    }
    assert_eq!(first.val_sample(1).unwrap(), second.val_sample(1).unwrap());
    assert_ne!(first.train_sample(0).unwrap().data, first.train_sample(3).unwrap().data);
    let other = Dataset::open(&config, 2).unwrap();
    assert_ne!(first.train_sample(0).unwrap().data, other.train_sample(0).unwrap().data);
    assert_eq!((first.cached_bytes(), second.cached_bytes()), (4 * 16 * 14 * 12 * 4, 0));
    let half = Dataset::open(&DataConfig { cache_rate: 0.5, ..config }, 1).unwrap();
    assert_eq!(half.cached_bytes(), 2 * 16 * 14 * 12 * 4);
}

/// One volume whose last fifth along y is 1000, all else 1.
fn slab(patch_size: Option<[usize; 3]>) -> (tempfile::TempDir, Dataset) {
    let folder = tempfile::tempdir().unwrap();
    let data = (0..8 * 20 * 9).map(|index| if index / 9 % 20 < 16 { 1.0 } else { 1000.0 });
    let path = write(folder.path(), "one.npy", data.collect(), [1, 8, 20, 9]);
    let config = DataConfig {
        paths: vec![path],
        normalize: Normalize::None,
        patch_size,
        foreground_probability: 0.5,
        flip: [true; 3],
        ..DataConfig::default()
    };
    let dataset = Dataset::open(&config, 1).unwrap();
    (folder, dataset)
}

#[test]
fn training_never_touches_the_held_out_slab() {
    for patch_size in [Some([4, 4, 4]), Some([10, 30, 4]), None] {
        let (_folder, dataset) = slab(patch_size);
        assert_eq!(dataset.len(), 1);
        for index in 0..300 {
            let sample = dataset.train_sample(index).unwrap();
            assert!(sample.data.iter().all(|value| *value == 1.0), "{patch_size:?} {index}");
            // A patch that fits does not stand out either.
            assert!(patch_size != Some([4, 4, 4]) || (0..=12).contains(&sample.start[1]));
        }
        assert!(dataset.val_len() > 0);
        for index in 0..dataset.val_len() {
            let sample = dataset.val_sample(index).unwrap();
            assert!(sample.data.iter().all(|value| *value == 1000.0), "{patch_size:?} {index}");
            assert_eq!(sample.shape[1..], patch_size.unwrap_or([8, 4, 9]));
        }
    }
}

#[test]
fn every_sample_is_drawn_anew() {
    let (_folder, dataset) = slab(Some([2, 2, 2]));
    let start = |index| dataset.train_sample(index).unwrap().start;
    for offset in 1..4 {
        let equal = (0..100).filter(|index| start(*index) == start(index + offset)).count();
        assert!(equal < 10, "{equal} of 100 samples equal those {offset} later");
    }
}

#[test]
fn patches_centre_on_foreground_as_often_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut data = vec![0.0; 30 * 30 * 30];
    data[(11 * 30 + 17) * 30 + 20] = 1.0;
    let path = write(folder.path(), "spot.npy", data, [1, 30, 30, 30]);
    let config = DataConfig {
        paths: vec![path],
        patch_size: Some([3, 3, 3]),
        foreground_probability: 0.7,
        normalize: Normalize::MinMax,
        val_fraction: 0.0,
        ..DataConfig::default()
    };
    let dataset = Dataset::open(&config, 1).unwrap();
    assert_eq!(dataset.val_len(), 0);
    let centred = (0..400).filter(|index| dataset.train_sample(*index).unwrap().data[13] == 1.0);
    let centred = centred.count();
    assert!((250..310).contains(&centred), "{centred} of 400");
}

#[test]
fn flips_and_jitter_change_what_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "v.npy", vec![0.0, 1.0], [1, 1, 1, 2]);
    let mut config = DataConfig {
        paths: vec![path],
        val_fraction: 0.0,
        normalize: Normalize::None,
        flip: [false, false, true],
        ..DataConfig::default()
    };
    let dataset = Dataset::open(&config, 1).unwrap();
    let flipped = (0..200).filter(|index| dataset.train_sample(*index).unwrap().data == [1.0, 0.0]);
    assert!((75..125).contains(&flipped.count()));
    (config.flip, config.intensity_jitter) = ([false; 3], 0.25);
    let dataset = Dataset::open(&config, 1).unwrap();
    let (mut low, mut high) = (0.0_f32, 0.0_f32);
    for index in 0..200 {
        let data = dataset.train_sample(index).unwrap().data;
        let (shift, scale) = (data[0], data[1] - data[0]);
        assert!(shift.abs() <= 0.25 && (scale - 1.0).abs() <= 0.2501);
        (low, high) = (low.min(shift), high.max(shift));
    }
    assert!(low < -0.2 && high > 0.2);
}

#[test]
fn reports_what_does_not_go_together() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.npy", vec![0.0; 8], [1, 2, 2, 2]);
    let b = write(folder.path(), "b.nii.gz", vec![0.0; 12], [1, 2, 2, 3]);
    let mut config = DataConfig { paths: vec![folder.path().into()], ..DataConfig::default() };
    let error = Dataset::open(&config, 0).unwrap_err().to_string();
    assert!(error.contains("b.nii.gz") && error.contains("voxel_size"), "{error}");
    config.voxel_size = Some([3, 3, 3]);
    let sample = Dataset::open(&config, 0).unwrap().train_sample(0).unwrap();
    assert_eq!(sample.shape, [1, 3, 3, 3]);
    Volume::new(vec![0.0; 24], [2, 2, 2, 3], IDENTITY).unwrap().write(&b).unwrap();
    assert!(Dataset::open(&config, 0).unwrap_err().to_string().contains("channels"));
    config.cache_rate = 7.0;
    assert!(Dataset::open(&config, 0).unwrap_err().is_config());
}

#[test]
fn labels_follow_their_volume_through_crops_and_flips() {
    // Every label can be read off its voxel: the noise is 0.
    let labels = Some(LabelsConfig::default());
    let phantom = Some(PhantomConfig { count: 4, shape: [16, 14, 12], noise: 0.0 });
    let config = DataConfig { labels, phantom, normalize: Normalize::None, flip: [true; 3], ..phantoms(4) };
    let (dataset, uncached) = (
        Dataset::open(&config, 1).unwrap(),
        Dataset::open(&DataConfig { cache_rate: 0.0, ..config.clone() }, 1).unwrap(),
    );
    assert_eq!((dataset.num_classes(), Dataset::open(&phantoms(4), 1).unwrap().num_classes()), (Some(3), None));
    let check = |data: &[f32], labels: &[u8]| {
        assert_eq!(data.len(), labels.len());
        for (value, label) in data.iter().zip(labels) {
            let class = [0.55, 0.80].iter().position(|tissue| tissue == value).map_or(0, |class| class + 1);
            assert_eq!(usize::from(*label), class, "at {value}");
        }
    };
    let mut seen = HashSet::new();
    for index in 0..40 {
        let sample = dataset.train_sample(index).unwrap();
        assert_eq!(sample, uncached.train_sample(index).unwrap());
        check(&sample.data, sample.labels.as_ref().unwrap());
        seen.extend(sample.labels.unwrap());
    }
    assert_eq!(seen.len(), 3);
    for index in 0..dataset.val_len() {
        let sample = dataset.val_sample(index).unwrap();
        check(&sample.data, sample.labels.as_ref().unwrap());
    }
    let voxels = 16 * 14 * 12;
    assert_eq!((dataset.cached_bytes(), uncached.cached_bytes()), (4 * voxels * 5, 0));
    assert_eq!(dataset.held_out_len(), 1);
    let part = dataset.held_out(0).unwrap();
    check(part.volume.data(), part.labels.unwrap().data());
    assert_eq!((part.volume.extent(), part.name), ([16, 14, 12], dataset.val_sample(0).unwrap().name));
    assert!(dataset.held_out(1).is_err());
}

#[test]
fn labels_change_no_value_and_no_draw() {
    let config = DataConfig { flip: [true; 3], intensity_jitter: 0.1, voxel_size: Some([9, 8, 10]), ..phantoms(4) };
    let labelled = DataConfig { labels: Some(LabelsConfig::default()), ..config.clone() };
    let (without, with) = (Dataset::open(&config, 1).unwrap(), Dataset::open(&labelled, 1).unwrap());
    for index in 0..20 {
        let sample = with.train_sample(index).unwrap();
        assert!(sample.labels.is_some());
        assert_eq!(Sample { labels: None, ..sample }, without.train_sample(index).unwrap());
    }
}

#[test]
fn the_held_out_part_of_one_volume_is_its_end() {
    let (folder, dataset) = slab(Some([4, 4, 4]));
    let part = dataset.held_out(0).unwrap();
    assert_eq!((dataset.held_out_len(), part.volume.extent()), (1, [8, 4, 9]));
    assert!(part.volume.data().iter().all(|value| *value == 1000.0) && part.labels.is_none());
    assert_eq!(part.volume.affine()[1][3], 16.0);
    // Class maps of the same grid: the end is class 1, which training never sees.
    let map = (0..8 * 20 * 9).map(|index| f32::from(u8::from(index / 9 % 20 >= 16)));
    let map = write(folder.path(), "map.npy", map.collect(), [1, 8, 20, 9]);
    let labels = Some(LabelsConfig { class_maps: vec![map], ..LabelsConfig::default() });
    let dataset = Dataset::open(&DataConfig { labels, ..dataset.config().clone() }, 1).unwrap();
    assert!(dataset.held_out(0).unwrap().labels.unwrap().data().iter().all(|label| *label == 1));
    assert!((0..9).all(|index| dataset.train_sample(index).unwrap().labels.unwrap() == [0; 64]));
    assert!((0..dataset.val_len()).all(|index| dataset.val_sample(index).unwrap().labels.unwrap() == [1; 64]));
}

#[test]
fn radar_scenes_and_files_need_the_given_channels() {
    let radar = RadarConfig { count: 3, shape: [8, 16, 12], ..RadarConfig::default() };
    let mut config = DataConfig {
        radar: Some(radar),
        channels: Some(4),
        patch_size: Some([4, 8, 8]),
        normalize: Normalize::None,
        ..DataConfig::default()
    };
    let dataset = Dataset::open(&config, 1).unwrap();
    let sample = dataset.train_sample(0).unwrap();
    assert_eq!((sample.shape, &sample.name[..11]), ([4, 4, 8, 8], "radar scene"));
    let other = Dataset::open(&DataConfig { num_workers: 0, cache_rate: 0.0, ..config.clone() }, 1).unwrap();
    assert_eq!(sample, other.train_sample(0).unwrap());
    assert_ne!(dataset.train_sample(0).unwrap().data, dataset.train_sample(1).unwrap().data);
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "three.npz", vec![0.0; 24], [3, 2, 2, 2]);
    (config.radar, config.paths) = (None, vec![path]);
    let error = Dataset::open(&config, 1).unwrap_err().to_string();
    assert!(error.contains("three.npz") && error.contains("expected 4 channels"), "{error}");
    config.channels = Some(3);
    assert_eq!(Dataset::open(&config, 1).unwrap().channels(), 3);
}

#[test]
fn a_file_that_changes_or_goes_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "a.npy", vec![0.0; 8], [1, 2, 2, 2]);
    let config = DataConfig { paths: vec![path.clone()], cache_rate: 0.0, ..DataConfig::default() };
    let dataset = Dataset::open(&config, 0).unwrap();
    write(folder.path(), "a.npy", vec![0.0; 12], [1, 2, 2, 3]);
    assert!(dataset.train_sample(0).unwrap_err().to_string().contains("a.npy"));
    std::fs::remove_file(&path).unwrap();
    assert!(dataset.train_sample(0).unwrap_err().is_not_found());
}

#[test]
fn progress_counts_every_volume() {
    let mut seen = Vec::new();
    let config = phantoms(5);
    Dataset::open_with(&config, 0, |p| seen.push((p.done, p.total, p.name.to_string()))).unwrap();
    assert_eq!(seen.len(), 5);
    assert_eq!(seen[4], (5, 5, "phantom 4".to_string()));
}

/// nnU-Net's augmentation with everything switched on that it leaves out, mirroring too.
fn augmented(config: DataConfig) -> DataConfig {
    let preset = AugmentationConfig::nnunet();
    let often = |strength: Strength| Strength { probability: 0.5, ..strength };
    let augmentation =
        AugmentationConfig { elastic: often(preset.elastic), bias_field: often(preset.bias_field), ..preset };
    DataConfig { augmentation: Some(augmentation), flip: [true; 3], ..config }
}

#[test]
fn augmented_samples_depend_on_seed_and_index_alone() {
    let config = augmented(DataConfig { voxel_size: Some([9, 8, 10]), ..phantoms(4) });
    let uncached = DataConfig { cache_rate: 0.0, num_workers: 0, ..config.clone() };
    let plain = DataConfig { augmentation: None, flip: [false; 3], ..config.clone() };
    let open = |config: &DataConfig, seed| Dataset::open(config, seed).unwrap();
    let (first, second, plain) = (open(&config, 1), open(&uncached, 1), open(&plain, 1));
    let mut changed = 0;
    for index in [5, 0, 17, 5, 2, 9, 11] {
        let sample = first.train_sample(index).unwrap();
        assert_eq!(sample, second.train_sample(index).unwrap());
        let preview = first.preview(index).unwrap();
        assert_eq!((&preview.plain, &preview.seen), (&plain.train_sample(index).unwrap(), &sample));
        assert_eq!(preview.changes.is_empty(), preview.plain.data == preview.seen.data, "{:?}", preview.changes);
        changed += usize::from(preview.plain != preview.seen);
    }
    assert!(changed > 4);
    assert_ne!(open(&config, 2).train_sample(0).unwrap().data, first.train_sample(0).unwrap().data);
    assert_eq!(first.val_sample(0).unwrap(), plain.val_sample(0).unwrap(), "validation is not augmented");
}

#[test]
fn augmentation_never_touches_the_held_out_slab() {
    for patch_size in [Some([4, 4, 4]), Some([10, 30, 4]), None] {
        let (_folder, dataset) = slab(patch_size);
        let mut config = augmented(dataset.config().clone());
        // what changes values would hide where they are from
        let augmentation = config.augmentation.unwrap();
        let off = Strength { probability: 0.0, range: [1.0; 2] };
        config.augmentation = Some(AugmentationConfig {
            bias_field: Strength { range: [0.0; 2], ..off },
            brightness: off,
            ..augmentation
        });
        let dataset = Dataset::open(&config, 1).unwrap();
        for index in 0..300 {
            let sample = dataset.train_sample(index).unwrap();
            assert!(sample.data.iter().all(|value| (value - 1.0).abs() < 1e-5), "{patch_size:?} {index}");
        }
    }
}

#[test]
fn labels_are_warped_with_their_volume() {
    // Every label can be read off its voxel, besides those between two tissues.
    let phantom = Some(PhantomConfig { count: 2, shape: [24, 24, 24], noise: 0.0 });
    let config = DataConfig {
        labels: Some(LabelsConfig::default()),
        phantom,
        patch_size: Some([16; 3]),
        normalize: Normalize::None,
        ..DataConfig::default()
    };
    let strength = |range| Strength { probability: 1.0, range };
    let augmentation = Some(AugmentationConfig {
        rotation: strength([-40.0, 40.0]),
        scaling: strength([0.8, 1.2]),
        elastic: strength([0.2, 0.2]),
        ..AugmentationConfig::default()
    });
    let dataset = Dataset::open(&DataConfig { augmentation, ..config }, 1).unwrap();
    let (mut voxels, mut wrong) = (0, 0);
    for index in 0..8 {
        let sample = dataset.train_sample(index).unwrap();
        for (value, label) in sample.data.iter().zip(sample.labels.unwrap()) {
            let class = [0.55, 0.80].iter().position(|tissue| (tissue - value).abs() < 1e-4).map(|class| class + 1);
            voxels += usize::from(class.is_some());
            wrong += usize::from(class.is_some_and(|class| class != usize::from(label)));
        }
    }
    assert!(voxels > 3_000 && wrong * 100 < voxels, "{wrong} of {voxels}");
}

#[test]
fn volumes_have_classes() {
    let phantom = Some(PhantomConfig { count: 5, shape: [12, 12, 12], noise: 0.0 });
    let classes = vec!["t1".to_string(), "t2".to_string()];
    let config =
        DataConfig { phantom, classes, normalize: Normalize::None, val_fraction: 0.4, ..DataConfig::default() };
    let dataset = Dataset::open(&config, 1).unwrap();
    let mut seen = [false; 2];
    let samples = (0..3).map(|index| dataset.train_sample(index).unwrap());
    for sample in samples.chain((0..2).map(|index| dataset.val_sample(index).unwrap())) {
        let number: usize = sample.name.strip_prefix("phantom ").unwrap().parse().unwrap();
        assert_eq!(sample.class, Some(number % 2));
        // white matter of the one contrast, or of the other
        let white = [0.80_f32, 0.35][number % 2];
        assert!(sample.data.contains(&white), "{}", sample.name);
        seen[number % 2] = true;
    }
    assert_eq!(seen, [true; 2]);
    let keys = |config: DataConfig| config.validate().into_iter().map(|error| error.key).collect::<Vec<_>>();
    let with = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    assert_eq!(keys(DataConfig { classes: with(&["t1", "flair"]), ..config.clone() }), ["classes"]);
    assert_eq!(keys(DataConfig { classes: with(&["t1", "t1"]), ..config.clone() }), ["classes"]);
    let radar = DataConfig { phantom: None, radar: Some(RadarConfig::default()), ..config };
    assert_eq!(keys(radar), ["classes"]);
}
