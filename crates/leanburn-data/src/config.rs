use crate::intensity::Normalize;
use crate::mistakes::Mistakes;
use crate::radar::RadarConfig;
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
            channels: None,
            voxel_size: None,
            spacing: None,
            normalize: Normalize::Percentile,
            percentiles: [0.5, 99.5],
            patch_size: None,
            foreground_probability: 0.9,
            flip: [false; 3],
            intensity_jitter: 0.0,
            val_fraction: 0.2,
            val_patches: 8,
            cache_rate: 1.0,
            num_workers: 2,
            prefetch: 2,
        }
    }
}

/// Synthetic volumes for trying things out; see [`phantom`](crate::phantom()).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PhantomConfig {
    /// Number of volumes.
    pub count: usize,
    /// Voxels along x, y and z.
    pub shape: [usize; 3],
    /// Standard deviation of the noise; tissue has values 0 to 1.
    pub noise: f32,
}

impl Default for PhantomConfig {
    fn default() -> Self {
        Self { count: 8, shape: [64, 64, 64], noise: 0.02 }
    }
}

/// More synthetic volumes than this are a slip of the pen.
pub(crate) const MOST_PHANTOMS: usize = 1 << 20;

impl DataConfig {
    /// All that is wrong with the settings: key, and what was expected and found.
    ///
    /// # Example
    /// ```
    /// let config = leanburn_data::DataConfig { cache_rate: 2.0, ..Default::default() };
    /// let keys: Vec<String> = config.mistakes().into_iter().map(|(key, _)| key).collect();
    /// assert_eq!(keys, ["paths", "cache_rate"]);
    /// ```
    pub fn mistakes(&self) -> Vec<(String, String)> {
        let mut mistakes = Mistakes::default();
        self.check_source(&mut mistakes);
        self.check_grid(&mut mistakes);
        mistakes.fraction("foreground_probability", self.foreground_probability);
        mistakes.fraction("intensity_jitter", self.intensity_jitter);
        mistakes.fraction("cache_rate", self.cache_rate);
        mistakes.percentiles(self.percentiles);
        mistakes.val_fraction(self.val_fraction);
        let patches = self.val_fraction <= 0.0 || self.val_patches > 0;
        mistakes.unless(patches, "val_patches", "at least 1, or a val_fraction of 0", &self.val_patches);
        mistakes.loading(self.num_workers, self.prefetch);
        mistakes.0
    }

    fn check_source(&self, mistakes: &mut Mistakes) {
        if self.paths.iter().any(|path| path.as_os_str().is_empty()) {
            mistakes.add("paths", "expected files or folders, found an empty name");
        }
        let synthetic = [("phantom", self.phantom.is_some()), ("radar", self.radar.is_some())];
        let mut taken = (!self.paths.is_empty()).then_some("paths");
        for (key, _) in synthetic.into_iter().filter(|(_, given)| *given) {
            if let Some(other) = taken {
                mistakes.add(key, &format!("expected either `{other}` or `{key}`, found both; drop one"));
            }
            taken = taken.or(Some(key));
        }
        if taken.is_none() {
            mistakes.add("paths", "expected files or folders, found none; name some, or set `phantom` or `radar`");
        }
        if let Some(phantom) = &self.phantom {
            let volumes = (1..=MOST_PHANTOMS).contains(&phantom.count);
            let expected = format!("1 to {MOST_PHANTOMS} volumes");
            mistakes.unless(volumes, "phantom.count", &expected, &phantom.count);
            mistakes.grid("phantom.shape", Some(phantom.shape));
            let noise = phantom.noise.is_finite() && phantom.noise >= 0.0;
            mistakes.unless(noise, "phantom.noise", "0 or more", &phantom.noise);
        }
        if let Some(radar) = &self.radar {
            radar.check(mistakes);
            let normalize = self.normalize != Normalize::Percentile;
            let expected = "another kind than the percentiles, which are both 0 where most voxels are empty";
            mistakes.unless(normalize, "normalize", expected, &self.normalize);
        }
    }

    fn check_grid(&self, mistakes: &mut Mistakes) {
        mistakes.unless(self.channels != Some(0), "channels", "1 or more", &self.channels);
        mistakes.grid("voxel_size", self.voxel_size);
        mistakes.grid("patch_size", self.patch_size);
        if let Some(spacing) = self.spacing {
            let positive = spacing.iter().all(|size| size.is_finite() && *size > 0.0);
            mistakes.unless(positive, "spacing", "three positive sizes in millimetres", &spacing);
            if self.voxel_size.is_some() {
                let both = "expected either `voxel_size` (voxels) or `spacing` (mm), found both; drop one";
                mistakes.add("spacing", both);
            }
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
        assert_eq!(sound().mistakes(), []);
        let phantom = DataConfig { phantom: Some(PhantomConfig::default()), ..DataConfig::default() };
        assert_eq!(phantom.mistakes(), []);
        let radar = Some(RadarConfig::default());
        assert_eq!(DataConfig { radar, normalize: Normalize::None, ..DataConfig::default() }.mistakes(), []);
    }

    #[test]
    fn every_mistake_is_told_at_once() {
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
        let keys: Vec<String> = config.mistakes().into_iter().map(|(key, _)| key).collect();
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
