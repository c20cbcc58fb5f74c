//! What a model will be shown, for people to look at before it is trained.

use crate::data::Data;
use crate::error::Result;
use crate::picture::encode_png;

/// What the data of a configuration is, and its first training samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataPreview {
    /// Names and values, such as the number of volumes.
    pub facts: Vec<(&'static str, String)>,
    /// Training samples in the order of a run.
    pub samples: Vec<PreviewedSample>,
}

/// A training sample to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedSample {
    /// Where it is from and what was done to it.
    pub caption: String,
    /// The picture, encoded as PNG.
    pub png: Vec<u8>,
}

/// What an opened data set shows.
pub(crate) fn preview(data: &impl Data, count: u64) -> Result<DataPreview> {
    let samples = (0..count).map(|index| {
        let (caption, picture) = data.draw_sample(index)?;
        Ok(PreviewedSample { caption, png: encode_png(&picture)? })
    });
    Ok(DataPreview { facts: data.facts()?, samples: samples.collect::<Result<_>>()? })
}
