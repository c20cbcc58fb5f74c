//! The slices of a folder as one volume.

use super::is_slice;
use super::slice::Slice;
use crate::error::DataError;
use crate::volumes::affine::{Affine, IDENTITY};
use crate::volumes::{Volume, count, reserved};
use ndarray::{ArrayView4, ShapeBuilder};
use std::fs;
use std::path::{Path, PathBuf};

const OWN_FOLDER: &str = "Put the slices of each series into a folder of its own.";

/// Reads the series in a folder: slices in the order of their places, brought to RAS order.
///
/// # Errors
/// If a slice is damaged or packed, slices are missing, lie at one place or belong to several series; each is named.
pub(crate) fn read(folder: &Path) -> Result<Volume, DataError> {
    let mut slices: Vec<Slice> = slice_files(folder)?
        .iter()
        .map(|path| Slice::read(path).map_err(|error| error.at(path)))
        .collect::<Result<_, _>>()?;
    if slices.len() < 2 {
        let found = slices.len().to_string();
        return Err(DataError::malformed("two slices or more (.dcm) in the folder", found, OWN_FOLDER).at(folder));
    }
    let first = slices[0].clone();
    slices.iter().try_for_each(|slice| goes_with(&first, slice))?;
    let normal = cross(first.steps[0], first.steps[1]);
    let length = dot(normal, normal).sqrt();
    let along = |slice: &Slice| dot(slice.position, normal) / length;
    slices.sort_by(|one, other| along(one).total_cmp(&along(other)));
    check_distances(&slices, along)?;

    let (first, last) = (&slices[0], &slices[slices.len() - 1]);
    let step = [0, 1, 2].map(|world| (last.position[world] - first.position[world]) / (slices.len() - 1) as f64);
    let shape = [first.columns, first.rows, slices.len()];
    let mut values = reserved(&shape, count(&shape)?)?;
    for slice in &slices {
        slice.append(&mut values).map_err(|error| error.at(&slice.path))?;
    }
    let [x, y, z] = shape;
    let view = ArrayView4::from_shape((x, y, z, 1).f(), &values).expect("as many pixels as the slices have");
    let volume = Volume::from_file_axes(view.permuted_axes([3, 0, 1, 2]), affine(first, step));
    volume.map_err(|error| error.at(folder))
}

fn slice_files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |error| DataError::io(folder, "list", error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut files = entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<Vec<_>, DataError>>()?;
    files.retain(|path| path.is_file() && is_slice(path));
    files.sort();
    Ok(files)
}

/// That two slices are of one series, one size and one direction.
fn goes_with(first: &Slice, slice: &Slice) -> Result<(), DataError> {
    let name = first.path.file_name().unwrap_or_default().to_string_lossy();
    let mismatch = |expected: String, found: String, remedy: &'static str| {
        Err(DataError::Mismatch { path: slice.path.clone(), expected, found, remedy })
    };
    if slice.series != first.series {
        return mismatch(format!("series {}, as {name}", first.series), format!("series {}", slice.series), OWN_FOLDER);
    }
    let size = |slice: &Slice| format!("{} rows of {} pixels", slice.rows, slice.columns);
    if size(slice) != size(first) {
        return mismatch(format!("{}, as {name}", size(first)), size(slice), OWN_FOLDER);
    }
    let pairs = slice.steps.as_flattened().iter().zip(first.steps.as_flattened());
    let largest = first.steps.as_flattened().iter().fold(0.0_f64, |largest, part| largest.max(part.abs()));
    if pairs.into_iter().any(|(one, other)| (one - other).abs() > 1e-3 * largest) {
        let steps = |slice: &Slice| format!("{:?} from pixel to pixel", slice.steps);
        return mismatch(format!("{}, as {name}", steps(first)), steps(slice), OWN_FOLDER);
    }
    Ok(())
}

/// That sorted slices lie at equal distances.
fn check_distances(slices: &[Slice], along: impl Fn(&Slice) -> f64) -> Result<(), DataError> {
    let gaps: Vec<f64> = slices.windows(2).map(|pair| along(&pair[1]) - along(&pair[0])).collect();
    let mut sorted = gaps.clone();
    sorted.sort_by(f64::total_cmp);
    let usual = sorted[sorted.len() / 2];
    for (pair, gap) in slices.windows(2).zip(gaps) {
        if (gap - usual).abs() <= 0.02 * usual && gap > 0.0 {
            continue;
        }
        let other = pair[0].path.file_name().unwrap_or_default().to_string_lossy();
        let (found, remedy) = match gap {
            gap if gap <= 0.02 * usual.max(1e-3) => {
                (format!("the place of {other} again"), "Remove one of the two: a slice must be there once.")
            }
            gap if gap > 1.5 * usual => (
                format!("{gap:.3} mm, {:.0} missing", (gap / usual).round() - 1.0),
                "Copy or export the series again, with all its slices.",
            ),
            gap => (format!("{gap:.3} mm"), "Resample the series to equal distances, as dcm2niix does."),
        };
        return Err(DataError::Mismatch {
            path: pair[1].path.clone(),
            expected: format!("a slice {usual:.3} mm behind {other}"),
            found,
            remedy,
        });
    }
    Ok(())
}

/// Pixels to millimetres to the right, the front and the top.
fn affine(first: &Slice, step: [f64; 3]) -> Affine {
    let columns = [first.steps[0], first.steps[1], step, first.position];
    let mut affine = IDENTITY;
    for (world, sign) in [-1.0, -1.0, 1.0].into_iter().enumerate() {
        (0..4).for_each(|column| affine[world][column] = sign * columns[column][world]);
    }
    affine
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
