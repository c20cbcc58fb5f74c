//! Points in PLY files, which MeshLab, CloudCompare, Open3D and others read.
//!
//! Format: [The PLY polygon file format](http://paulbourke.net/dataformats/ply/), binary, without faces.

use crate::error::DataError;
use crate::formats::file;
use crate::volumes::{Volume, affine};
use std::io::Write;
use std::path::Path;

/// Which voxels of a volume are points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Points {
    /// A voxel is a point where its first channel is above this.
    pub above: f32,
    /// How many at most: those with the largest values are taken.
    pub most: usize,
}

impl Points {
    /// The voxels, in their order in the volume.
    fn of(&self, volume: &Volume) -> Vec<usize> {
        let occupancy = &volume.data()[..volume.extent().iter().product()];
        let mut voxels: Vec<usize> = (0..occupancy.len()).filter(|voxel| occupancy[*voxel] > self.above).collect();
        if voxels.len() > self.most {
            voxels.sort_by(|one, other| occupancy[*other].total_cmp(&occupancy[*one]));
            voxels.truncate(self.most);
            voxels.sort_unstable();
        }
        voxels
    }
}

impl Volume {
    /// Writes voxels as points: the centre of each in millimetres, `x`, `y` and `z`, and the values of its channels, `channel_0` and so on, all
    /// float32. Gives their number.
    ///
    /// The file appears whole or not at all. A volume without such voxels gives a file without points.
    ///
    /// # Errors
    /// If the folder is missing or the disk is full.
    pub fn write_points(&self, path: impl AsRef<Path>, points: Points) -> Result<usize, DataError> {
        let voxels = points.of(self);
        let mut text = format!("ply\nformat binary_little_endian 1.0\nelement vertex {}\n", voxels.len());
        let channels = (0..self.channels()).map(|channel| format!("channel_{channel}"));
        for property in ["x", "y", "z"].map(String::from).into_iter().chain(channels) {
            text += &format!("property float {property}\n");
        }
        text += "end_header\n";
        let [_, height, width] = self.extent();
        let all = self.data().len() / self.channels();
        let mut bytes = text.into_bytes();
        for voxel in &voxels {
            let place = [voxel / (height * width), voxel / width % height, voxel % width];
            let centre = affine::place(self.affine(), place).map(|coordinate| coordinate as f32);
            let values = (0..self.channels()).map(|channel| self.data()[channel * all + voxel]);
            bytes.extend(centre.into_iter().chain(values).flat_map(f32::to_le_bytes));
        }
        file::replace(path.as_ref(), ".ply", |file, _| file.write_all(&bytes))?;
        Ok(voxels.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Header and numbers of a file of points.
    fn written(volume: &Volume, points: Points) -> (usize, String, Vec<f32>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.ply");
        let count = volume.write_points(&path, points).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let end = bytes.windows(11).position(|part| part == b"end_header\n").unwrap() + 11;
        let numbers = bytes[end..].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        (count, String::from_utf8(bytes[..end].to_vec()).unwrap(), numbers)
    }

    #[test]
    fn occupied_voxels_lie_where_they_are() {
        let mut values = vec![0.0; 2 * 24];
        // the voxels [0, 1, 2], [1, 0, 3] and [1, 2, 3] of 2 x 3 x 4
        for (voxel, value) in [(6, 0.7), (15, 0.5), (23, 0.9)] {
            (values[voxel], values[24 + voxel]) = (value, -value);
        }
        let affine = [[2.0, 0.0, 0.0, 10.0], [0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
        let volume = Volume::new(values, [2, 2, 3, 4], affine).unwrap();
        let (count, header, numbers) = written(&volume, Points { above: 0.1, most: 10 });
        assert_eq!(count, 3);
        let properties = "property float x\nproperty float y\nproperty float z\nproperty float channel_0\nproperty float channel_1\n";
        assert_eq!(header, format!("ply\nformat binary_little_endian 1.0\nelement vertex 3\n{properties}end_header\n"));
        let expected = [[10.0, 3.0, 8.0, 0.7, -0.7], [12.0, 0.0, 12.0, 0.5, -0.5], [12.0, 6.0, 12.0, 0.9, -0.9]];
        assert_eq!(numbers, expected.concat());
        let largest = [expected[0], expected[2]];
        assert_eq!(written(&volume, Points { above: 0.1, most: 2 }).2, largest.concat());
        assert_eq!(written(&volume, Points { above: 0.9, most: 2 }).0, 0);
    }
}
