//! The configuration of a set of volumes.

use crate::augmentation::AugmentationConfig;
use crate::checks;
use crate::synthetic::{PHANTOM_CLASSES, PHANTOM_KINDS, PhantomConfig, RadarConfig};
use crate::volumes::{MOST_CLASSES, Normalize};
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which volumes to train on and how to prepare them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Files, or folders that are searched to the bottom.
    pub paths: Vec<PathBuf>,
    /// Synthetic volumes in place of `paths`.
    pub phantom: Option<PhantomConfig>,
    /// Synthetic radar scenes in place of `paths`.
    pub radar: Option<RadarConfig>,
    /// A class for every voxel, for segmentation; none for volumes alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelsConfig>,
    /// The classes of whole volumes, for models that make volumes of a class: names of folders, of which each volume lies in one; of the
    /// phantom its kinds, `t1`, `t2` and `wide_ventricles`, by turns. None where volumes have no classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Channels that every volume must have; those of the first one if none.
    pub channels: Option<usize>,
    /// Each volume is resized to this many voxels along x, y and z.
    pub voxel_size: Option<[usize; 3]>,
    /// Each volume is resampled to voxels of this many millimetres.
    pub spacing: Option<[f64; 3]>,
    /// How values are brought to a common range.
    pub normalize: Normalize,
    /// Percentiles that become 0 and 1 under [`Normalize::Percentile`].
    pub percentiles: [f64; 2],
    /// Size of random patches in voxels; whole volumes if none. Where a volume is smaller, its
    /// outermost voxels repeat.
    pub patch_size: Option<[usize; 3]>,
    /// How often a patch is centred on a voxel that is brighter than the volume's mean (as near as
    /// the border lets it), instead of anywhere.
    pub foreground_probability: f64,
    /// Axes along which training samples are mirrored half of the time.
    pub flip: [bool; 3],
    /// Training samples are multiplied by 1 and shifted by 0, plus or minus up to this much.
    pub intensity_jitter: f64,
    /// Training samples are rotated, scaled, bent, blurred and so on, at random; none leaves them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub augmentation: Option<AugmentationConfig>,
    /// Share of the volumes that is held out; of a single volume, the end of its longest axis.
    pub val_fraction: f64,
    /// The most validation samples.
    pub val_patches: usize,
    /// Share of the volumes that stays in memory; the others are read again on each use.
    pub cache_rate: f64,
    /// Threads that make batches; 0 makes them in the caller's.
    pub num_workers: usize,
    /// Finished batches that may wait, rounded up to a multiple of `num_workers`.
    pub prefetch: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            phantom: None,
            radar: None,
            labels: None,
            classes: Vec::new(),
            channels: None,
            voxel_size: None,
            spacing: None,
            normalize: Normalize::Percentile,
            percentiles: [0.5, 99.5],
            patch_size: None,
            foreground_probability: 0.9,
            flip: [false; 3],
            intensity_jitter: 0.0,
            augmentation: None,
            val_fraction: 0.2,
            val_patches: 8,
            cache_rate: 1.0,
            num_workers: 2,
            prefetch: 2,
        }
    }
}

/// Where the labels of the volumes are: either `label_maps` or `class_maps`; neither for the phantom, which has its own.
///
/// A label file has the grid of its volume; it is resampled and cut with it. A single volume takes the single file. Of
/// several volumes, each takes the file of its own name, or the one whose name (without the ending) continues its own or is
/// continued by it: `case_1.nii.gz` and `case_1_seg.nii.gz`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabelsConfig {
    /// Files, or folders, with one file for each volume: whole numbers below `num_classes`, 0 for the background.
    pub label_maps: Vec<PathBuf>,
    /// For each class from 1 on, a file, or a folder with one file for each volume: the share of that class in each
    /// voxel, such as a probability. A voxel takes the class with the largest share; the background has what the maps
    /// leave of 1. If the largest value of a volume's maps is above 1, it stands for 1.
    pub class_maps: Vec<PathBuf>,
    /// Number of classes, the background among them; `label_maps` need it.
    pub num_classes: Option<usize>,
}

impl LabelsConfig {
    /// Everything that is wrong with the values.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        checks::paths(&mut validation, "label_maps", &self.label_maps);
        checks::paths(&mut validation, "class_maps", &self.class_maps);
        let one = self.label_maps.is_empty() || self.class_maps.is_empty();
        let expected = "either `label_maps` or `class_maps`";
        validation.check_together(one, &["label_maps"], "class_maps", expected, "both", "drop one");
        let expected = format!("at most {} maps", MOST_CLASSES - 1);
        let maps = self.class_maps.len();
        validation.check(maps < MOST_CLASSES, "class_maps", &expected, maps, "use fewer classes");
        let found = self.num_classes.map_or("none".into(), |classes| classes.to_string());
        if self.label_maps.is_empty() {
            let known = self.known_classes();
            let (expected, with) = (format!("{known}, the background among them"), &["class_maps"]);
            let sound = self.num_classes.is_none_or(|classes| classes == known);
            validation.check_together(sound, with, "num_classes", &expected, found, "leave `num_classes` out");
        } else {
            let sound = self.num_classes.is_some_and(|classes| (2..=MOST_CLASSES).contains(&classes));
            let expected = format!("2 to {MOST_CLASSES} classes, the background among them");
            validation.check(sound, "num_classes", &expected, found, "write one more than the largest label");
        }
        validation.errors()
    }

    /// The number of classes of class maps, or of the phantom.
    fn known_classes(&self) -> usize {
        if self.class_maps.is_empty() { PHANTOM_CLASSES } else { self.class_maps.len() + 1 }
    }

    fn has_files(&self) -> bool {
        !self.label_maps.is_empty() || !self.class_maps.is_empty()
    }
}

impl DataConfig {
    /// Everything that is wrong with the values. A configuration that names a size need not name its volumes, so that it can be
    /// planned without them; [`Dataset::open`](crate::Dataset::open) needs them.
    ///
    /// # Example
    /// ```
    /// let config = leanburn_data::DataConfig { cache_rate: 2.0, ..Default::default() };
    /// let keys: Vec<String> = config.validate().into_iter().map(|error| error.key).collect();
    /// assert_eq!(keys, ["paths", "cache_rate"]);
    /// ```
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        self.check_source(&mut validation);
        self.check_labels(&mut validation);
        self.check_classes(&mut validation);
        self.check_grid(&mut validation);
        checks::fraction(&mut validation, "foreground_probability", self.foreground_probability);
        checks::fraction(&mut validation, "intensity_jitter", self.intensity_jitter);
        if let Some(augmentation) = &self.augmentation {
            validation.extend_below("augmentation", augmentation.validate());
        }
        checks::fraction(&mut validation, "cache_rate", self.cache_rate);
        checks::percentiles(&mut validation, self.percentiles);
        checks::val_fraction(&mut validation, self.val_fraction);
        let patches = self.val_fraction <= 0.0 || self.val_patches > 0;
        let (with, help) = (&["val_fraction"], "ask for one patch, or set `val_fraction` to 0");
        validation.check_together(patches, with, "val_patches", "at least 1", self.val_patches, help);
        checks::loading(&mut validation, self.num_workers, self.prefetch);
        validation.errors()
    }

    /// The number of classes of the labels, the background among them; none without labels.
    pub fn num_classes(&self) -> Option<usize> {
        let labels = self.labels.as_ref()?;
        Some(labels.num_classes.unwrap_or_else(|| labels.known_classes()))
    }

    fn check_source(&self, validation: &mut Validation) {
        checks::paths(validation, "paths", &self.paths);
        let synthetic = [("phantom", self.phantom.is_some()), ("radar", self.radar.is_some())];
        let mut taken = (!self.paths.is_empty()).then_some("paths");
        for (key, _) in synthetic.into_iter().filter(|(_, given)| *given) {
            if let Some(other) = taken {
                let expected = format!("either `{other}` or `{key}`");
                validation.check_together(false, &[other], key, &expected, "both", "drop one");
            }
            taken = taken.or(Some(key));
        }
        // what has a size can be planned
        if self.voxel_size.is_none() && self.patch_size.is_none() {
            self.check_there_is_a_source(validation);
        }
        if let Some(phantom) = &self.phantom {
            validation.extend_below("phantom", phantom.validate());
        }
        if let Some(radar) = &self.radar {
            validation.extend_below("radar", radar.validate());
            let sound = self.normalize != Normalize::Percentile;
            let expected = "another kind than the percentiles, which are both 0 where most voxels are empty";
            let (found, help) = ("percentile", "set `normalize` to none");
            validation.check_together(sound, &["radar"], "normalize", expected, found, help);
        }
    }

    /// The error of a configuration that names no volumes, where it is to be trained on.
    pub fn missing_source(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        self.check_there_is_a_source(&mut validation);
        validation.errors()
    }

    fn check_there_is_a_source(&self, validation: &mut Validation) {
        let is_there = !self.paths.is_empty() || self.phantom.is_some() || self.radar.is_some();
        let help = "name some, or set `phantom` or `radar`";
        validation.check(is_there, "paths", "files or folders", "none", help);
    }

    fn check_labels(&self, validation: &mut Validation) {
        let Some(labels) = &self.labels else {
            return;
        };
        validation.extend_below("labels", labels.validate());
        let help = "drop `labels`, or train on `paths` or `phantom`";
        validation.check_together(
            self.radar.is_none(),
            &["radar"],
            "labels",
            "no `radar` in the same section",
            "`radar`",
            help,
        );
        let wanted = !self.paths.is_empty();
        let (expected, found) = match wanted {
            true => ("`label_maps` or `class_maps` for the volumes of `paths`", "neither"),
            false => ("no files, as the phantom has labels of its own", "files"),
        };
        let sound = labels.has_files() == wanted || (self.phantom.is_none() && !wanted);
        let help = if wanted { "name the label files" } else { "leave `labels` empty: {}" };
        validation.check_together(sound, &["paths", "phantom"], "labels", expected, found, help);
    }

    fn check_classes(&self, validation: &mut Validation) {
        let classes = &self.classes;
        for (index, class) in classes.iter().enumerate() {
            let sound = !class.is_empty() && !classes[..index].contains(class);
            validation.check(sound, "classes", "different names", format!("`{class}`"), "name each class once");
        }
        let kinds = PHANTOM_KINDS.map(|(kind, _)| kind);
        let stranger = classes.iter().find(|class| self.phantom.is_some() && !kinds.contains(&class.as_str()));
        validation.check_together(
            stranger.is_none(),
            &["phantom"],
            "classes",
            &format!("kinds of the phantom: {}", kinds.join(", ")),
            format!("`{}`", stranger.map_or("", String::as_str)),
            "write some of these, such as `classes: [t1, t2]`",
        );
        let sound = classes.is_empty() || self.radar.is_none();
        let help = "leave `classes` out, or train on `paths` or `phantom`";
        validation.check_together(sound, &["radar"], "classes", "no `radar` in the same section", "`radar`", help);
    }

    fn check_grid(&self, validation: &mut Validation) {
        validation.check(self.channels != Some(0), "channels", "1 or more", 0, "count the channels of a volume");
        for (key, extent) in [("voxel_size", self.voxel_size), ("patch_size", self.patch_size)] {
            if let Some(extent) = extent {
                checks::grid(validation, key, extent);
            }
        }
        if let Some(spacing) = self.spacing {
            let positive = spacing.iter().all(|size| size.is_finite() && *size > 0.0);
            let (expected, found) = ("three positive sizes in millimetres", format!("{spacing:?}"));
            validation.check(positive, "spacing", expected, found, "write the size of a voxel, such as [1, 1, 1]");
            let expected = "either `voxel_size` (voxels) or `spacing` (mm)";
            let one = self.voxel_size.is_none();
            validation.check_together(one, &["voxel_size"], "spacing", expected, "both", "drop one");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> DataConfig {
        DataConfig { paths: vec!["scans".into()], ..DataConfig::default() }
    }

    #[test]
    fn defaults_need_only_paths() {
        assert_eq!(sound().validate(), []);
        let phantom = DataConfig { phantom: Some(PhantomConfig::default()), ..DataConfig::default() };
        assert_eq!(phantom.validate(), []);
        let radar = Some(RadarConfig::default());
        assert_eq!(DataConfig { radar, normalize: Normalize::None, ..DataConfig::default() }.validate(), []);
    }

    #[test]
    fn every_error_is_found_at_once() {
        let config = DataConfig {
            paths: vec!["".into()],
            phantom: Some(PhantomConfig { count: 0, shape: [0, 1, 1], noise: -1.0 }),
            radar: Some(RadarConfig { count: 0, shape: [0, 1, 1], vehicles: 1 << 40, speckle: 2.0 }),
            channels: Some(0),
            voxel_size: Some([usize::MAX, 2, 2]),
            spacing: Some([1.0, 0.0, f64::NAN]),
            percentiles: [99.0, 1.0],
            patch_size: Some([8, 0, 8]),
            foreground_probability: 1.1,
            intensity_jitter: f64::NAN,
            val_fraction: 1.0,
            val_patches: 0,
            cache_rate: -0.1,
            num_workers: 100_000,
            prefetch: usize::MAX,
            ..DataConfig::default()
        };
        let keys: Vec<String> = config.validate().into_iter().map(|error| error.key).collect();
        let expected = [
            "paths",
            "phantom",
            "radar",
            "phantom.count",
            "phantom.shape",
            "phantom.noise",
            "radar.count",
            "radar.shape",
            "radar.vehicles",
            "radar.speckle",
            "normalize",
            "channels",
            "voxel_size",
            "patch_size",
            "spacing",
            "spacing",
            "foreground_probability",
            "intensity_jitter",
            "cache_rate",
            "percentiles",
            "val_fraction",
            "val_patches",
            "num_workers",
            "prefetch",
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn labels_go_with_files_or_with_the_phantom() {
        let files = |label_maps: &[&str], class_maps: &[&str], num_classes| {
            let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
            let labels = LabelsConfig { label_maps: paths(label_maps), class_maps: paths(class_maps), num_classes };
            DataConfig { labels: Some(labels), ..sound() }
        };
        let keys =
            |config: DataConfig| -> Vec<String> { config.validate().into_iter().map(|error| error.key).collect() };
        let maps = files(&[], &["gm", "wm"], None);
        assert_eq!((maps.num_classes(), keys(maps)), (Some(3), vec![]));
        let labels = files(&["labels"], &[], Some(5));
        assert_eq!((labels.num_classes(), keys(labels)), (Some(5), vec![]));
        assert_eq!(keys(files(&["labels"], &[], None)), ["labels.num_classes"]);
        assert_eq!(keys(files(&[], &["gm"], Some(4))), ["labels.num_classes"]);
        assert_eq!(keys(files(&["a", ""], &["b"], Some(2))), ["labels.label_maps", "labels.class_maps"]);
        assert_eq!(keys(files(&[], &["a"; 256], None)), ["labels.class_maps"]);
        assert_eq!(keys(files(&[], &[], None)), ["labels"]);
        let phantom = |config| DataConfig { paths: vec![], phantom: Some(PhantomConfig::default()), ..config };
        let own = phantom(files(&[], &[], None));
        assert_eq!((own.num_classes(), keys(own)), (Some(3), vec![]));
        assert_eq!(keys(phantom(files(&[], &["gm"], None))), ["labels"]);
        let radar = DataConfig {
            paths: vec![],
            radar: Some(RadarConfig::default()),
            normalize: Normalize::None,
            ..files(&[], &[], None)
        };
        assert_eq!(keys(radar), ["labels"]);
        assert_eq!(DataConfig::default().num_classes(), None);
        let text = serde_json::to_string(&DataConfig::default()).unwrap();
        assert!(!text.contains("labels"), "configurations without labels do not change");
    }

    #[test]
    fn keys_are_those_of_the_guide() {
        let text = r#"{"paths": ["a"], "voxel_size": [64, 64, 32], "normalize": "min_max",
            "patch_size": [32, 32, 32], "flip": [true, false, false], "val_patches": 3}"#;
        let config: DataConfig = serde_json::from_str(text).unwrap();
        assert_eq!(config.normalize, Normalize::MinMax);
        assert_eq!((config.voxel_size, config.cache_rate), (Some([64, 64, 32]), 1.0));
        let again: DataConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
        let wrong = serde_json::from_str::<DataConfig>(r#"{"patchsize": 3}"#).unwrap_err();
        assert!(wrong.to_string().contains("patchsize"));
        for (kind, name) in [(Normalize::ZScore, "\"z_score\""), (Normalize::None, "\"none\"")] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), name);
        }
    }
}
