//! The header of a NRRD file: lines `field: value`, to the first empty one.

use super::image::{Image, LPS, Packing, Skip, affine};
use super::lines::{Lines, lengths, malformed, numbers};
use crate::error::DataError;
use crate::formats::voxels::{NumberType, Stored};
use std::collections::HashMap;

/// Names of the types of numbers, without `signed` and a last `int` after another word.
const TYPES: [(NumberType, &[&str]); 10] = [
    (NumberType::Int8, &["char", "int8", "int8_t"]),
    (NumberType::Uint8, &["uchar", "unsigned char", "uint8", "uint8_t"]),
    (NumberType::Int16, &["short", "int16", "int16_t"]),
    (NumberType::Uint16, &["ushort", "unsigned short", "uint16", "uint16_t"]),
    (NumberType::Int32, &["int", "int32", "int32_t"]),
    (NumberType::Uint32, &["uint", "unsigned", "uint32", "uint32_t"]),
    (NumberType::Int64, &["longlong", "long long", "int64", "int64_t"]),
    (NumberType::Uint64, &["ulonglong", "unsigned long long", "uint64", "uint64_t"]),
    (NumberType::Float32, &["float"]),
    (NumberType::Float64, &["double"]),
];

/// Fields by name.
struct Fields(HashMap<String, String>);

impl Fields {
    fn read(lines: &mut Lines) -> Result<Self, DataError> {
        let first = lines.next()?.unwrap_or_default();
        if !first.starts_with("NRRD000") {
            return Err(malformed("the first line", "NRRD0001 to NRRD0005", &first));
        }
        let mut fields = HashMap::new();
        while let Some(line) = lines.next()?.filter(|line| !line.is_empty()) {
            // `key:=value` is of no use here
            if let Some((name, value)) = line.split_once(": ").filter(|_| !line.starts_with('#')) {
                fields.insert(name.trim().to_lowercase(), value.trim().to_string());
            }
        }
        Ok(Self(fields))
    }

    /// The value of the first of `names` that is there.
    fn get(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.0.get(*name)).map(String::as_str)
    }

    fn required(&self, name: &str) -> Result<&str, DataError> {
        self.get(&[name]).ok_or_else(|| malformed(name, "a value", ""))
    }

    fn skip(&self, names: &[&str]) -> Result<i64, DataError> {
        let Some(text) = self.get(names) else { return Ok(0) };
        text.parse().ok().filter(|skip| *skip >= -1).ok_or_else(|| malformed(names[0], "a number", text))
    }
}

/// What the header at the beginning of a file says.
pub(super) fn image(lines: &mut Lines) -> Result<Image, DataError> {
    let fields = Fields::read(lines)?;
    let sizes = lengths("sizes", fields.required("sizes")?)?;
    let directions = directions(&fields, sizes.len())?;
    let channel_axis = channel_axis(&sizes, &directions)?;
    let spatial: Vec<[f64; 3]> = directions.into_iter().flatten().collect();
    let [x, y, z] = spatial[..] else {
        return Err(malformed("space directions", "three axes of space", &format!("{} of them", spatial.len())));
    };
    let origin = match fields.get(&["space origin"]) {
        Some(text) => vector("space origin", text)?,
        None => [0.0; 3],
    };
    let byte_skip = fields.skip(&["byte skip", "byteskip"])?;
    Ok(Image {
        stored: stored(&fields)?,
        sizes,
        channel_axis,
        affine: affine([x, y, z], origin, signs(&fields)?),
        file: data_file(&fields)?,
        packing: packing(&fields)?,
        line_skip: fields.skip(&["line skip", "lineskip"])?.max(0) as u64,
        skip: u64::try_from(byte_skip).map_or(Skip::ToTheEnd, Skip::Bytes),
    })
}

fn stored(fields: &Fields) -> Result<Stored, DataError> {
    let text = fields.required("type")?;
    let lower = text.to_lowercase();
    let name = lower.strip_prefix("signed ").unwrap_or(&lower);
    let name = if name == "int" { name } else { name.strip_suffix(" int").unwrap_or(name) };
    let found = TYPES.iter().find(|(_, names)| names.contains(&name));
    let (number, _) = found.ok_or_else(|| malformed("type", "integers of 8 to 64 bits, float or double", text))?;
    let endian = match number.size() {
        1 => "little",
        _ => fields.required("endian")?,
    };
    match endian.to_lowercase().as_str() {
        "little" => Ok(Stored::plain(*number, false)),
        "big" => Ok(Stored::plain(*number, true)),
        _ => Err(malformed("endian", "little or big", endian)),
    }
}

fn packing(fields: &Fields) -> Result<Packing, DataError> {
    match fields.required("encoding")?.to_lowercase().as_str() {
        "raw" => Ok(Packing::Raw),
        "gzip" | "gz" => Ok(Packing::Gzip),
        other => Err(malformed("encoding", "raw or gzip", other)),
    }
}

fn data_file(fields: &Fields) -> Result<Option<String>, DataError> {
    match fields.get(&["data file", "datafile"]) {
        Some(text) if text.starts_with("LIST") || text.contains('%') => {
            Err(malformed("data file", "one file, not one for each slice", text))
        }
        file => Ok(file.map(ToString::to_string)),
    }
}

/// The step of each axis; none where it is no axis of space.
fn directions(fields: &Fields, axes: usize) -> Result<Vec<Option<[f64; 3]>>, DataError> {
    let Some(text) = fields.get(&["space directions"]) else { return spacings(fields, axes) };
    let mut directions = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (direction, after) = match rest.strip_prefix("none") {
            Some(after) => (None, after),
            None => {
                let end = rest.find(')').ok_or_else(|| malformed("space directions", "vectors like (1,0,0)", text))?;
                (Some(vector("space directions", &rest[..=end])?), &rest[end + 1..])
            }
        };
        directions.push(direction);
        rest = after.trim_start();
    }
    match directions.len() == axes {
        true => Ok(directions),
        false => Err(malformed("space directions", &format!("a vector or `none` for each of {axes} axes"), text)),
    }
}

/// Steps along the axes themselves: all that a header without `space directions` says. Of four axes the channels are those that it
/// calls no domain and no space, else the last.
fn spacings(fields: &Fields, axes: usize) -> Result<Vec<Option<[f64; 3]>>, DataError> {
    let kinds: Vec<String> =
        fields.get(&["kinds"]).unwrap_or_default().split_whitespace().map(str::to_lowercase).collect();
    let is_space = |kind: &String| ["domain", "space"].contains(&kind.as_str());
    let named = kinds.iter().position(|kind| !is_space(kind)).filter(|_| kinds.len() == axes);
    let channels = if axes == 4 { Some(named.unwrap_or(3)) } else { None };
    let spacings = match fields.get(&["spacings"]) {
        Some(text) => text.split_whitespace().map(|part| part.parse().unwrap_or(f64::NAN)).collect(),
        None => vec![1.0; axes],
    };
    if spacings.len() != axes {
        return Err(malformed("spacings", &format!("{axes} numbers"), &format!("{spacings:?}")));
    }
    let mut world = 0;
    let step = |(axis, spacing): (usize, f64)| {
        let spacing = if spacing.is_finite() { spacing } else { 1.0 };
        let mut step = [0.0; 3];
        *step.get_mut(world).filter(|_| Some(axis) != channels)? = spacing;
        world += 1;
        Some(step)
    };
    Ok(spacings.into_iter().enumerate().map(step).collect())
}

fn channel_axis(sizes: &[usize], directions: &[Option<[f64; 3]>]) -> Result<Option<usize>, DataError> {
    let others: Vec<usize> = (0..sizes.len()).filter(|axis| directions[*axis].is_none()).collect();
    match (sizes.len(), &others[..]) {
        (3, []) => Ok(None),
        (4, [axis]) => Ok(Some(*axis)),
        _ => Err(malformed("sizes", "three axes of space, and at most one of channels", &format!("{sizes:?}"))),
    }
}

/// A vector such as `(1,0,0)`.
fn vector(name: &str, text: &str) -> Result<[f64; 3], DataError> {
    let inside = text.trim().trim_start_matches('(').trim_end_matches(')').replace(',', " ");
    let numbers = numbers(name, &inside)?;
    numbers.try_into().map_err(|_| malformed(name, "vectors of three numbers like (1,0,0)", text))
}

/// Signs of the world's axes in RAS. Without a space that is known the axes count as RAS.
fn signs(fields: &Fields) -> Result<[f64; 3], DataError> {
    let Some(text) = fields.get(&["space"]) else { return Ok([1.0; 3]) };
    match text.to_lowercase().as_str() {
        "left-posterior-superior" | "lps" => Ok(LPS),
        "left-anterior-superior" | "las" => Ok([-1.0, 1.0, 1.0]),
        "right-anterior-superior" | "ras" | "scanner-xyz" | "3d-right-handed" | "3d-left-handed" => Ok([1.0; 3]),
        other => Err(malformed("space", "left-posterior-superior, or another space of three axes", other)),
    }
}
