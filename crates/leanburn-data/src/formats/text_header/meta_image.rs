//! The header of a MetaImage: lines `Key = value`, the last of them `ElementDataFile`.

use super::image::{Image, LPS, Packing, Skip, affine};
use super::lines::{Lines, lengths, malformed, numbers};
use crate::error::DataError;
use crate::formats::voxels::{NumberType, Stored};
use std::collections::HashMap;

const TYPES: [(&str, NumberType); 12] = [
    ("MET_CHAR", NumberType::Int8),
    ("MET_UCHAR", NumberType::Uint8),
    ("MET_SHORT", NumberType::Int16),
    ("MET_USHORT", NumberType::Uint16),
    ("MET_INT", NumberType::Int32),
    ("MET_UINT", NumberType::Uint32),
    ("MET_LONG", NumberType::Int32),
    ("MET_ULONG", NumberType::Uint32),
    ("MET_LONG_LONG", NumberType::Int64),
    ("MET_ULONG_LONG", NumberType::Uint64),
    ("MET_FLOAT", NumberType::Float32),
    ("MET_DOUBLE", NumberType::Float64),
];

/// The key that ends the header.
const DATA_FILE: &str = "ElementDataFile";

/// Values by key.
struct Keys(HashMap<String, String>);

impl Keys {
    fn read(lines: &mut Lines) -> Result<Self, DataError> {
        let mut keys = HashMap::new();
        while !keys.contains_key(DATA_FILE) {
            let line =
                lines.next()?.ok_or_else(|| malformed(DATA_FILE, "a value, as the last line of the header", ""))?;
            let (key, value) =
                line.split_once('=').ok_or_else(|| malformed("a line of the header", "`Key = value`", &line))?;
            keys.insert(key.trim().to_string(), value.trim().to_string());
        }
        Ok(Self(keys))
    }

    /// The value of the first of `names` that is there.
    fn get(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.0.get(*name)).map(String::as_str)
    }

    fn is_true(&self, names: &[&str]) -> bool {
        self.get(names).is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
    }

    /// So many numbers; `otherwise` where the key is missing.
    fn numbers(&self, names: &[&str], count: usize, otherwise: Vec<f64>) -> Result<Vec<f64>, DataError> {
        let Some(text) = self.get(names) else { return Ok(otherwise) };
        let numbers = numbers(names[0], text)?;
        match numbers.len() == count {
            true => Ok(numbers),
            false => Err(malformed(names[0], &format!("{count} numbers"), text)),
        }
    }
}

/// What the header at the beginning of a file says.
pub(super) fn image(lines: &mut Lines) -> Result<Image, DataError> {
    let keys = Keys::read(lines)?;
    let mut sizes = lengths("DimSize", keys.get(&["DimSize"]).unwrap_or_default())?;
    let axes = sizes.len();
    let channels = lengths("ElementNumberOfChannels", keys.get(&["ElementNumberOfChannels"]).unwrap_or("1"))?;
    let channel_axis = match (axes, &channels[..]) {
        (3, [1]) => None,
        (3, [channels]) => {
            sizes.insert(0, *channels); // those of a voxel lie together
            Some(0)
        }
        (4, [1]) => Some(3),
        _ => {
            let found = format!("{sizes:?} and {channels:?} channels");
            return Err(malformed("DimSize", "three axes, or four and one channel", &found));
        }
    };
    Ok(Image {
        stored: stored(&keys)?,
        sizes,
        channel_axis,
        affine: place(&keys, axes)?,
        file: data_file(&keys)?,
        packing: if keys.is_true(&["CompressedData"]) { Packing::Zlib } else { Packing::Raw },
        line_skip: 0,
        skip: skip(&keys)?,
    })
}

fn stored(keys: &Keys) -> Result<Stored, DataError> {
    let name = keys.get(&["ElementType"]).unwrap_or_default();
    let found = TYPES.iter().find(|(known, _)| *known == name);
    let (_, number) = found.ok_or_else(|| malformed("ElementType", "one of MET_UCHAR to MET_DOUBLE", name))?;
    if keys.get(&["BinaryData"]).is_some() && !keys.is_true(&["BinaryData"]) {
        return Err(malformed("BinaryData", "True", "False"));
    }
    Ok(Stored::plain(*number, keys.is_true(&["BinaryDataByteOrderMSB", "ElementByteOrderMSB"])))
}

/// The affine of the first three axes. ITK's world runs to the left, the back and the top; a row of the matrix is the direction of an
/// axis.
fn place(keys: &Keys, axes: usize) -> Result<crate::volumes::Affine, DataError> {
    let identity: Vec<f64> = (0..axes * axes).map(|at| f64::from(u8::from(at % (axes + 1) == 0))).collect();
    let matrix = keys.numbers(&["TransformMatrix", "Rotation", "Orientation"], axes * axes, identity)?;
    let spacing = keys.numbers(&["ElementSpacing", "ElementSize"], axes, vec![1.0; axes])?;
    let origin = keys.numbers(&["Offset", "Position", "Origin"], axes, vec![0.0; axes])?;
    let directions = [0, 1, 2].map(|axis| [0, 1, 2].map(|world| matrix[axis * axes + world] * spacing[axis]));
    Ok(affine(directions, [0, 1, 2].map(|world| origin[world]), LPS))
}

fn data_file(keys: &Keys) -> Result<Option<String>, DataError> {
    match keys.get(&[DATA_FILE]).unwrap_or_default() {
        "LOCAL" | "Local" | "local" => Ok(None),
        text if text.is_empty() || text.starts_with("LIST") || text.contains('%') => {
            Err(malformed(DATA_FILE, "LOCAL or one file, not one for each slice", text))
        }
        file => Ok(Some(file.to_string())),
    }
}

fn skip(keys: &Keys) -> Result<Skip, DataError> {
    let Some(text) = keys.get(&["HeaderSize"]) else { return Ok(Skip::Bytes(0)) };
    match text.parse::<i64>() {
        Ok(-1) => Ok(Skip::ToTheEnd),
        Ok(bytes) if bytes >= 0 => Ok(Skip::Bytes(bytes as u64)),
        _ => Err(malformed("HeaderSize", "a number of bytes", text)),
    }
}
