//! Sparse voxel grids as their occupied voxels: where they are, and what they hold.

use crate::error::DataError;
use crate::formats::archive::Archive;
use crate::formats::array::Array;
use crate::volumes::{count, zeros};

/// Whole numbers `[voxels, 3]`: depth, height, width, or any other three axes.
pub(crate) const COORDINATES: &str = "coordinates";
/// `[voxels, channels]`: the values at these coordinates; all other voxels are 0.
const FEATURES: &str = "features";
/// Three whole numbers: the lengths of the axes.
const SHAPE: &str = "shape";

/// The most values of a grid (1 GiB of them): a file of a few bytes may ask for any number.
const MOST_VALUES: usize = 1 << 28;
const SAVE_AGAIN: &str =
    "Save `coordinates` [voxels, 3], `features` [voxels, channels] and `shape` [3], each voxel once.";

/// The dense values, last axis fastest, and their shape `[channels, depth, height, width]`.
///
/// The order of the voxels has no meaning. A voxel that is named twice is an error, since nothing
/// says which of its features count.
pub(crate) fn read(archive: &mut Archive) -> Result<(Vec<f32>, [usize; 4]), DataError> {
    let extent = extent(&archive.array(SHAPE, |value| value)?)?;
    let coordinates = archive.array(COORDINATES, |value| value)?;
    let features = archive.array(FEATURES, |value| value as f32)?;
    let ([voxels, 3], [rows, channels]) = (pair(&coordinates)?, pair(&features)?) else {
        return Err(rows_differ(&coordinates, &features));
    };
    if voxels != rows || channels == 0 {
        return Err(rows_differ(&coordinates, &features));
    }
    let shape = [channels, extent[0], extent[1], extent[2]];
    if count(&shape)? > MOST_VALUES {
        let expected = format!("a grid of at most {MOST_VALUES} values");
        return Err(DataError::malformed(expected, format!("shape {shape:?}"), "Crop the grid, or save it dense."));
    }
    let mut values = zeros(&shape)?;
    let plane = extent.iter().product::<usize>();
    let mut taken = vec![false; plane];
    let rows = coordinates.values.chunks_exact(3).zip(features.values.chunks_exact(channels));
    for (row, (coordinate, features)) in rows.enumerate() {
        let place = place(row, coordinate, extent)?;
        if std::mem::replace(&mut taken[place], true) {
            let found = format!("voxel {coordinate:?} again in row {row}");
            return Err(DataError::malformed("every voxel once", found, SAVE_AGAIN));
        }
        features.iter().enumerate().for_each(|(channel, value)| values[channel * plane + place] = *value);
    }
    Ok((values, shape))
}

fn pair<T>(array: &Array<T>) -> Result<[usize; 2], DataError> {
    array.shape[..].try_into().map_err(|_| {
        let found = format!("shape {:?}", array.shape);
        DataError::malformed("`coordinates` [voxels, 3] and `features` [voxels, channels]", found, SAVE_AGAIN)
    })
}

fn rows_differ(coordinates: &Array<f64>, features: &Array<f32>) -> DataError {
    let found = format!("`coordinates` {:?} and `features` {:?}", coordinates.shape, features.shape);
    DataError::malformed("`coordinates` [voxels, 3] and `features` [voxels, channels]", found, SAVE_AGAIN)
}

/// The lengths of the axes, 1 or more each.
fn extent(shape: &Array<f64>) -> Result<[usize; 3], DataError> {
    let whole = |length: &f64| length.fract() == 0.0 && (1.0..=MOST_VALUES as f64).contains(length);
    match shape.values[..] {
        [depth, height, width] if shape.values.iter().all(whole) => {
            Ok([depth, height, width].map(|axis| axis as usize))
        }
        _ => {
            let found = format!("{:?} of shape {:?}", shape.values.get(..8).unwrap_or(&shape.values), shape.shape);
            Err(DataError::malformed(
                "a `shape` of three whole numbers of 1 or more that fit in memory",
                found,
                SAVE_AGAIN,
            ))
        }
    }
}

fn place(row: usize, coordinate: &[f64], extent: [usize; 3]) -> Result<usize, DataError> {
    let inside = |(at, length): (&f64, &usize)| at.fract() == 0.0 && (0.0..*length as f64).contains(at);
    if !coordinate.iter().zip(&extent).all(inside) {
        let expected = format!("whole coordinates from 0 up to, not with, {extent:?}");
        return Err(DataError::malformed(expected, format!("{coordinate:?} in row {row}"), SAVE_AGAIN));
    }
    Ok(coordinate.iter().zip(&extent).fold(0, |place, (at, length)| place * length + *at as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::npz::tests::{Values, write_npz};
    use crate::volumes::Volume;
    use safetensors::tensor::{Dtype, TensorView};

    /// Coordinates, features of 4 channels, and the shape, each with a shape of its own.
    type Parts<'a> = (Values<'a>, Values<'a>, Values<'a>);

    /// The same grid as `.npz` and as `.safetensors`.
    fn parse((coordinates, features, shape): Parts<'_>) -> [Result<Volume, DataError>; 2] {
        let folder = tempfile::tempdir().unwrap();
        let parts = [(COORDINATES, coordinates), (FEATURES, features), (SHAPE, shape)];
        let npz = folder.path().join("scene.npz");
        write_npz(&npz, &parts);
        let bytes = parts.map(|(_, (_, values))| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
        let views = parts.iter().zip(&bytes).map(|((name, (shape, _)), bytes)| {
            (name.to_string(), TensorView::new(Dtype::F64, shape.to_vec(), bytes).unwrap())
        });
        let safetensors = folder.path().join("scene.safetensors");
        std::fs::write(&safetensors, safetensors::serialize(views, None).unwrap()).unwrap();
        [Volume::read(npz), Volume::read(safetensors)]
    }

    const FOUR: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    const SOUND: Parts<'_> = ((&[2, 3], &[1.0, 2.0, 3.0, 0.0, 0.0, 1.0]), (&[2, 4], &FOUR), (&[3], &[2.0, 3.0, 4.0]));

    #[test]
    fn voxels_land_where_they_say_in_any_order() {
        let swapped = [5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0];
        let other: Parts<'_> = ((&[2, 3], &[0.0, 0.0, 1.0, 1.0, 2.0, 3.0]), (&[2, 4], &swapped), SOUND.2);
        for volume in parse(SOUND).into_iter().chain(parse(other)) {
            let volume = volume.unwrap();
            assert_eq!(volume.shape(), [4, 2, 3, 4]);
            for channel in 0..4 {
                assert_eq!(volume.view()[[channel, 1, 2, 3]], channel as f32 + 1.0);
                assert_eq!(volume.view()[[channel, 0, 0, 1]], channel as f32 + 5.0);
            }
            assert_eq!(volume.data().iter().filter(|value| **value != 0.0).count(), 8);
        }
        for empty in parse(((&[0, 3], &[]), (&[0, 4], &[]), SOUND.2)) {
            assert_eq!(empty.unwrap().data(), [0.0; 4 * 24], "a scene without voxels is one");
        }
    }

    #[test]
    fn broken_grids_have_errors_of_their_own() {
        let (coordinates, features, shape) = SOUND;
        let cases: [(Parts<'_>, &str); 13] = [
            (((&[2, 3], &[1.0, 2.0, 4.0, 0.0, 0.0, 1.0]), features, shape), "[1.0, 2.0, 4.0] in row 0"),
            (((&[2, 3], &[1.0, 2.0, 3.0, 0.0, -1.0, 1.0]), features, shape), "in row 1"),
            (((&[2, 3], &[1.0, 2.0, 0.5, 0.0, 0.0, 1.0]), features, shape), "in row 0"),
            (((&[2, 3], &[1.0, 2.0, f64::NAN, 0.0, 0.0, 1.0]), features, shape), "NaN"),
            (((&[2, 3], &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]), features, shape), "again in row 1"),
            (((&[3, 2], &[0.0; 6]), features, shape), "[3, 2]"),
            (((&[6], &[0.0; 6]), features, shape), "[6]"),
            ((coordinates, (&[4, 2], &FOUR), shape), "[4, 2]"),
            ((coordinates, (&[2, 0], &[]), shape), "[2, 0]"),
            ((coordinates, features, (&[2], &[2.0, 3.0])), "three whole numbers"),
            ((coordinates, features, (&[3], &[2.0, 0.0, 4.0])), "three whole numbers"),
            ((coordinates, features, (&[3], &[2.5, 3.0, 4.0])), "three whole numbers"),
            ((coordinates, features, (&[3], &[1024.0, 1024.0, 1024.0])), "at most 268435456 values"),
        ];
        for (parts, expected) in cases {
            for error in parse(parts).map(Result::unwrap_err) {
                assert!(error.is_malformed(), "{error}");
                let message = error.to_string();
                assert!(message.contains(expected) && message.contains("scene."), "{expected}: {message}");
            }
        }
        for error in parse((coordinates, features, (&[3], &[1e8, 1e8, 1e8]))).map(Result::unwrap_err) {
            assert!(error.is_too_large(), "{error}");
        }
        let mut infinite = FOUR;
        infinite[6] = f64::INFINITY;
        for error in parse((coordinates, (&[2, 4], &infinite), shape)).map(Result::unwrap_err) {
            assert!(error.is_not_finite() && error.to_string().contains("channel 2, voxel [0, 0, 1]"), "{error}");
        }
    }
}
