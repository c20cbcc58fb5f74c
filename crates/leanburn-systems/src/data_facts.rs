//! What is said of an opened data set: facts, and pictures of its samples.

use image::RgbImage;
use leanburn_data::{Dataset, Preview, SceneDataset, SequenceDataset, Window};

use crate::bev;
use crate::error::Result;
use crate::picture::{fields, range_of, seen};

/// The facts of volumes.
pub(crate) fn facts_of_volumes(data: &Dataset) -> Result<Vec<(&'static str, String)>> {
    let sample = data.train_sample(0)?;
    let [channels, x, y, z] = sample.shape;
    let mut facts = vec![
        ("volumes", data.names().len().to_string()),
        ("trained on", data.len().to_string()),
        ("validation samples", data.val_len().to_string()),
        ("a sample", format!("{x}x{y}x{z}, {channels} {}", if channels == 1 { "channel" } else { "channels" })),
        ("values of the first", summary(&sample.data)),
    ];
    facts.extend(data.num_classes().map(|classes| ("classes", classes.to_string())));
    let augmentation = if data.config().augmentation.is_some() { "yes" } else { "none" };
    facts.push(("augmentation", augmentation.into()));
    Ok(facts)
}

/// Range, mean and deviation.
fn summary(values: &[f32]) -> String {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let variance = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / count;
    let (low, high) = range_of(values);
    format!("{low:.3} to {high:.3}, mean {mean:.3}, deviation {:.3}", variance.sqrt())
}

/// A training sample's caption and picture, of its first channel.
pub(crate) fn draw_volume(data: &Dataset, index: u64) -> Result<(String, RgbImage)> {
    let Preview { plain, seen: sample, changes } = data.preview(index)?;
    let [_, x, y, z] = sample.shape;
    let voxels = x * y * z;
    let picture = seen(&plain.data[..voxels], &sample.data[..voxels], sample.labels.as_deref(), [x, y, z])?;
    let changes = if changes.is_empty() { "as it is".into() } else { changes.join(", ") };
    Ok((format!("{} from {:?}: {changes}", sample.name, sample.start), picture))
}

/// The facts of a sequence of fields.
pub(crate) fn facts_of_fields(data: &SequenceDataset) -> Result<Vec<(&'static str, String)>> {
    let window = data.train_window(0)?;
    let [days, channels, height, width] = window.input_shape;
    Ok(vec![
        ("windows", data.len().to_string()),
        ("validation windows", data.val_len().to_string()),
        ("seen", format!("{days} fields of {height}x{width}, {channels} channels")),
        ("predicted", format!("{} fields, {} channels", window.target_shape[0], window.target_shape[1])),
        ("values of the first", summary(&window.input)),
    ])
}

/// A window's caption and picture: what is to be predicted, and what was seen last.
pub(crate) fn draw_window(data: &SequenceDataset, index: u64) -> Result<(String, RgbImage)> {
    let window = data.train_window(index)?;
    let persistence = data.persistence(&window)?;
    let Window { target, target_shape: [.., height, width], start, .. } = &window;
    let last = target.len() - height * width;
    let columns = [("to be predicted", &target[last..]), ("last seen", &persistence[last..])];
    Ok((format!("fields from time {start} on"), fields(columns, [*height, *width])?))
}

/// The facts of road scenes.
pub(crate) fn facts_of_scenes(data: &SceneDataset) -> Result<Vec<(&'static str, String)>> {
    let sample = data.train_scene(0)?;
    let ([_, cameras, height, width], [_, rows, columns]) = (sample.images_shape, sample.map_shape);
    let shares = data.config().classes().iter().zip(data.shares()?).map(|(class, share)| format!("{class} {share:.3}"));
    let shares: Vec<String> = shares.collect();
    let plural = if cameras == 1 { "image" } else { "images" };
    Ok(vec![
        ("scenes", (data.len() + data.val_len()).to_string()),
        ("trained on", data.len().to_string()),
        ("validation scenes", data.val_len().to_string()),
        ("seen", format!("{cameras} {plural} of {height}x{width}")),
        ("mapped", format!("{rows}x{columns} cells of {} m", data.config().map.cell)),
        ("shares of the classes", shares.join(", ")),
        ("values of the first", summary(&sample.images)),
    ])
}

/// A scene's caption and picture: its images and its map.
pub(crate) fn draw_scene(data: &SceneDataset, index: u64) -> Result<(String, RgbImage)> {
    let sample = data.train_scene(index)?;
    Ok((format!("scene {}", sample.scene), bev::draw(data, &sample, &[])?))
}
