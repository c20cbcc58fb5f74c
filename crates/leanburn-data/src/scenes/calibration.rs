//! The camera matrices of a folder's images.

use crate::error::DataError;
use leanburn_common::Matrix3;
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader};
use std::marker::PhantomData;
use std::path::Path;

/// What pixels a matrix is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Calibration {
    /// From a point in the camera's axes to a pixel.
    pub(super) intrinsics: Matrix3,
    /// Rows and columns of the image that the pixels are of; `None` for the image as its file has it.
    pub(super) size: Option<[usize; 2]>,
}

/// One matrix for each name.
const MATRICES: &str = "calib.json";
/// The tables of nuScenes.
const TABLES: &str = "v1.0-trainval";
const REMEDY: &str = "Write calib.json, {NAME: [[fx, 0, cx], [0, fy, cy], [0, 0, 1]], ...}, or point at the folder that has v1.0-trainval.";

/// The calibrations of these names: of `calib.json` where it is there, else of the tables.
pub(super) fn read(root: &Path, names: &HashSet<&str>) -> Result<HashMap<String, Calibration>, DataError> {
    let path = root.join(MATRICES);
    if path.exists() {
        let matrices: HashMap<String, Matrix3> = json(&path, serde_json::from_reader)?;
        let known = matrices.into_iter().filter(|(name, _)| names.contains(name.as_str()));
        return Ok(known.map(|(name, intrinsics)| (name, Calibration { intrinsics, size: None })).collect());
    }
    let tables = root.join(TABLES);
    let images = rows::<Image>(&tables.join("sample_data.json"), |image| names.contains(image.token.as_str()))?;
    let used: HashSet<&str> = images.iter().map(|image| image.calibrated_sensor_token.as_str()).collect();
    let sensors =
        rows::<Sensor>(&tables.join("calibrated_sensor.json"), |sensor| used.contains(sensor.token.as_str()))?;
    // of a sensor that is no camera the matrix is empty
    let matrices: HashMap<&str, Matrix3> =
        sensors.iter().filter_map(|sensor| Some((sensor.token.as_str(), sensor.matrix()?))).collect();
    let known = images.iter().filter_map(|image| {
        let intrinsics = *matrices.get(image.calibrated_sensor_token.as_str())?;
        Some((image.token.clone(), Calibration { intrinsics, size: Some([image.height, image.width]) }))
    });
    Ok(known.collect())
}

/// A row of `sample_data`.
#[derive(Deserialize)]
struct Image {
    token: String,
    calibrated_sensor_token: String,
    height: usize,
    width: usize,
}

/// A row of `calibrated_sensor`.
#[derive(Deserialize)]
struct Sensor {
    token: String,
    camera_intrinsic: Vec<[f64; 3]>,
}

impl Sensor {
    fn matrix(&self) -> Option<Matrix3> {
        self.camera_intrinsic.as_slice().try_into().ok()
    }
}

/// The rows of a table that are wanted; no more of it is in memory.
fn rows<T: DeserializeOwned>(path: &Path, is_wanted: impl Fn(&T) -> bool) -> Result<Vec<T>, DataError> {
    json(path, |reader| {
        let mut text = serde_json::Deserializer::from_reader(reader);
        let rows = Wanted(is_wanted, PhantomData).deserialize(&mut text)?;
        text.end().map(|()| rows)
    })
}

fn json<T>(path: &Path, read: impl FnOnce(BufReader<File>) -> Result<T, serde_json::Error>) -> Result<T, DataError> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DataError::malformed("the cameras of its images", "no such file", REMEDY).at(path),
        _ => DataError::io(path, "read", error),
    })?;
    read(BufReader::new(file))
        .map_err(|error| DataError::malformed("a table of cameras as JSON", error.to_string(), REMEDY).at(path))
}

/// Takes the elements of a list that are wanted.
struct Wanted<T, F>(F, PhantomData<T>);

impl<'de, T: DeserializeOwned, F: Fn(&T) -> bool> DeserializeSeed<'de> for Wanted<T, F> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: DeserializeOwned, F: Fn(&T) -> bool> Visitor<'de> for Wanted<T, F> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Vec<T>, A::Error> {
        let mut wanted = Vec::new();
        while let Some(row) = rows.next_element::<T>()? {
            if (self.0)(&row) {
                wanted.push(row);
            }
        }
        Ok(wanted)
    }
}
