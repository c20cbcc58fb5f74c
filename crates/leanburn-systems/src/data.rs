//! What a system is trained on, opened: batches are taken of it, and samples to validate on.

use std::sync::Arc;

use image::RgbImage;
use leanburn_common::Bytes;
use leanburn_data::{
    DataMemory, Dataset, Intensity, Progress, Sample, SceneDataset, SequenceDataset, Window, find_volumes,
};

use crate::data_facts::{draw_scene, draw_volume, draw_window, facts_of_fields, facts_of_scenes, facts_of_volumes};
use crate::error::Result;
use crate::shared::Context;

/// What a plan has to know of the data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataSize {
    /// Extent of a sample, where the data has to be asked for it: depth, height and width, of fields the days that are seen, height and
    /// width.
    pub extent: Option<[usize; 3]>,
    /// Volumes or fields that stay in memory.
    pub held: Bytes,
    /// Volumes that are read again while the run goes on.
    pub read: Bytes,
    /// Why it is not known what the data holds, such as that it is not here.
    pub unknown: Option<String>,
}

impl DataSize {
    /// Of data that holds nothing, with samples of an extent.
    pub fn of_extent(extent: [usize; 3]) -> Self {
        Self { extent: Some(extent), ..Self::default() }
    }
}

/// An opened data set.
pub trait Data: Sized {
    /// Opens what a configuration names, with a call of `progress` after each sample.
    ///
    /// # Errors
    ///
    /// If a sample cannot be read.
    fn open(context: &Context<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self>;

    /// Depth, height and width of a training sample; of fields the days that are seen, height and width.
    ///
    /// # Errors
    ///
    /// If the first sample cannot be read.
    fn extent(&self) -> Result<[usize; 3]>;

    /// How many training samples an epoch has.
    fn samples_of_epoch(&self) -> usize;

    /// Names and shapes of samples that the models must take: `[channels, depth, height, width]`, of fields
    /// `[channels, days, height, width]`.
    ///
    /// # Errors
    ///
    /// If a sample cannot be read.
    fn samples(&self) -> Result<Vec<(String, [usize; 4])>>;

    /// Its size in memory, without the extent of a sample.
    fn size(&self) -> DataSize;

    /// The files (or what stands for them) of each sample in their fixed order, on which the split and the order of samples depend; none where
    /// a seed decides all.
    fn names(&self) -> Vec<String>;

    /// Names and values that say what it is.
    ///
    /// # Errors
    ///
    /// If the first sample cannot be read.
    fn facts(&self) -> Result<Vec<(&'static str, String)>>;

    /// The caption and the picture of a training sample, as the model sees it.
    ///
    /// # Errors
    ///
    /// If the sample cannot be read or drawn.
    fn draw_sample(&self, index: u64) -> Result<(String, RgbImage)>;

    /// What somebody should know who trains on it, such as that a file of it was made anew.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// What normalizing did to each channel, where a model needs it to be used on other data: empty where each sample is normalized by
    /// itself.
    fn normalization(&self) -> &[Intensity] {
        &[]
    }

    /// The size in memory that the data of a configuration will have, without opening it, for samples of so many channels; none if it
    /// must be opened.
    ///
    /// # Errors
    ///
    /// If there is no data, or the part that has to be read cannot be.
    fn expected(context: &Context<'_>, channels: usize) -> Result<Option<DataSize>>;
}

/// Volumes, with labels or without: the section `data`.
impl Data for Arc<Dataset> {
    fn open(context: &Context<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self> {
        Ok(Arc::new(Dataset::open_with(context.data, context.seed, progress)?))
    }

    fn extent(&self) -> Result<[usize; 3]> {
        let [_, extent @ ..] = self.train_sample(0)?.shape;
        Ok(extent)
    }

    fn samples_of_epoch(&self) -> usize {
        self.len()
    }

    fn samples(&self) -> Result<Vec<(String, [usize; 4])>> {
        let named = |sample: Sample| (sample.name, sample.shape);
        let mut samples = vec![named(self.train_sample(0)?)];
        if self.val_len() > 0 {
            samples.push(named(self.val_sample(0)?));
        }
        Ok(samples)
    }

    fn size(&self) -> DataSize {
        of_volumes(self.memory())
    }

    fn names(&self) -> Vec<String> {
        self.names_with_labels()
    }

    fn facts(&self) -> Result<Vec<(&'static str, String)>> {
        facts_of_volumes(self)
    }

    fn draw_sample(&self, index: u64) -> Result<(String, RgbImage)> {
        draw_volume(self, index)
    }

    fn expected(context: &Context<'_>, channels: usize) -> Result<Option<DataSize>> {
        let channels = context.data.channels.unwrap_or(channels);
        Ok(Some(of_volumes(DataMemory::of(context.data, channels, context.seed)?)))
    }
}

/// A sequence of fields: the section `sequence`.
impl Data for Arc<SequenceDataset> {
    fn open(context: &Context<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self> {
        Ok(Arc::new(SequenceDataset::open_with(&context.fields(), context.seed, progress)?))
    }

    fn extent(&self) -> Result<[usize; 3]> {
        let [days, _, height, width] = self.train_window(0)?.input_shape;
        Ok([days, height, width])
    }

    fn samples_of_epoch(&self) -> usize {
        self.len()
    }

    fn samples(&self) -> Result<Vec<(String, [usize; 4])>> {
        let Window { input_shape: [days, channels, height, width], .. } = self.train_window(0)?;
        Ok(vec![("the sequence".into(), [channels, days, height, width])])
    }

    fn size(&self) -> DataSize {
        DataSize { held: Bytes(size_of_val(self.sequence().data()) as u64), ..DataSize::default() }
    }

    fn names(&self) -> Vec<String> {
        let files = find_volumes(&self.config().paths).unwrap_or_default();
        files.iter().map(|file| file.display().to_string()).collect()
    }

    fn facts(&self) -> Result<Vec<(&'static str, String)>> {
        facts_of_fields(self)
    }

    fn draw_sample(&self, index: u64) -> Result<(String, RgbImage)> {
        draw_window(self, index)
    }

    fn normalization(&self) -> &[Intensity] {
        self.intensities()
    }

    fn expected(context: &Context<'_>, channels: usize) -> Result<Option<DataSize>> {
        let fields = context.fields();
        let held = fields
            .synthetic_frames()
            .zip(fields.size())
            .map(|(frames, [height, width])| Bytes(4 * (frames * channels * height * width) as u64));
        Ok(held.map(|held| DataSize { held, ..DataSize::default() }))
    }
}

/// Road scenes: the section `scenes`. They are drawn as they are asked for, and nothing is held.
impl Data for Arc<SceneDataset> {
    fn open(context: &Context<'_>, _progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self> {
        Ok(Arc::new(SceneDataset::open(&context.scenes(), context.seed)?))
    }

    fn extent(&self) -> Result<[usize; 3]> {
        let [height, width] = self.config().image_size;
        Ok([self.config().camera_yaws.len(), height, width])
    }

    fn samples_of_epoch(&self) -> usize {
        self.len()
    }

    fn samples(&self) -> Result<Vec<(String, [usize; 4])>> {
        Ok(vec![("the scenes".into(), self.train_scene(0)?.images_shape)])
    }

    fn size(&self) -> DataSize {
        DataSize::default()
    }

    fn names(&self) -> Vec<String> {
        SceneDataset::names(self)
    }

    fn facts(&self) -> Result<Vec<(&'static str, String)>> {
        facts_of_scenes(self)
    }

    fn draw_sample(&self, index: u64) -> Result<(String, RgbImage)> {
        draw_scene(self, index)
    }

    fn expected(_context: &Context<'_>, _channels: usize) -> Result<Option<DataSize>> {
        Ok(Some(DataSize::default()))
    }
}

fn of_volumes(DataMemory { cached, read, .. }: DataMemory) -> DataSize {
    DataSize { held: Bytes(cached), read: Bytes(read), ..DataSize::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leanburn_data::{DataConfig, LabelMap, LabelsConfig, phantom};

    #[test]
    fn names_of_volumes_have_their_labels() {
        let folder = tempfile::tempdir().unwrap();
        let [scan, labels] = ["scan.nii", "scan_seg.nii"].map(|name| folder.path().join(name));
        let volume = phantom([8, 8, 8], 0.0, 1).unwrap();
        volume.write(&scan).unwrap();
        LabelMap::new(vec![1; 512], volume.extent(), *volume.affine()).unwrap().write(&labels).unwrap();
        let names = |labels: Option<LabelsConfig>| {
            let config = DataConfig { paths: vec![scan.clone()], labels, val_fraction: 0.0, ..DataConfig::default() };
            Data::names(&Arc::new(Dataset::open(&config, 1).unwrap()))
        };
        assert_eq!(names(None), [scan.display().to_string()]);
        let config = LabelsConfig { label_maps: vec![labels.clone()], num_classes: Some(2), ..LabelsConfig::default() };
        assert_eq!(names(Some(config)), [format!("{} with labels {}", scan.display(), labels.display())]);
    }
}
