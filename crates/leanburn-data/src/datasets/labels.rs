//! The labels of a volume: which files hold them, and how they become a label map on the volume's prepared grid.

use crate::datasets::config::LabelsConfig;
use crate::error::DataError;
use crate::formats::{Format, find_volumes};
use crate::volumes::affine::{Affine, is_same_place};
use crate::volumes::{LabelMap, NewGrid, Volume, zeros};
use std::path::{Path, PathBuf};

/// The label files of one volume.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LabelFiles {
    /// A file of labels below a number of classes.
    Labels(PathBuf, usize),
    /// A file for each class from 1 on.
    ClassMaps(Vec<PathBuf>),
}

impl LabelFiles {
    /// The label files of every volume, in the order of the volumes.
    ///
    /// # Errors
    /// If a file is missing, or no file or several go with a volume.
    pub(crate) fn of(config: &LabelsConfig, volumes: &[PathBuf]) -> Result<Vec<Self>, DataError> {
        if config.class_maps.is_empty() {
            let files = find_volumes(&config.label_maps)?;
            let classes = config.num_classes.unwrap_or_default();
            return Ok(partners(volumes, &files)?.into_iter().map(|path| Self::Labels(path, classes)).collect());
        }
        let mut files: Vec<Vec<PathBuf>> = vec![Vec::new(); volumes.len()];
        for class in &config.class_maps {
            let maps = partners(volumes, &find_volumes(std::slice::from_ref(class))?)?;
            files.iter_mut().zip(maps).for_each(|(files, map)| files.push(map));
        }
        Ok(files.into_iter().map(Self::ClassMaps).collect())
    }

    /// The files.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        match self {
            Self::Labels(path, _) => std::slice::from_ref(path),
            Self::ClassMaps(paths) => paths,
        }
    }

    /// The labels of a volume that was read from `name`, on another grid if there is one.
    ///
    /// # Errors
    /// If a file cannot be read, is not on the grid of the volume, or holds other values than labels or shares.
    pub(crate) fn load(&self, volume: &Volume, name: &Path, grid: Option<&NewGrid>) -> Result<LabelMap, DataError> {
        match self {
            Self::Labels(path, classes) => {
                let labels = LabelMap::read(path)?;
                check_grid((volume.extent(), volume.affine()), name, (labels.extent(), labels.affine()), path)?;
                check_classes(&labels, *classes).map_err(|error| error.at(path))?;
                on_grid(labels, grid, |labels, grid| labels.resample(grid))
            }
            Self::ClassMaps(paths) => class_maps(paths, volume, name, grid),
        }
    }
}

/// What was read, on another grid if there is one.
fn on_grid<T>(
    read: T,
    grid: Option<&NewGrid>,
    resample: impl Fn(&T, &NewGrid) -> Result<T, DataError>,
) -> Result<T, DataError> {
    match grid {
        Some(grid) => resample(&read, grid),
        None => Ok(read),
    }
}

/// The file of each volume.
fn partners(volumes: &[PathBuf], files: &[PathBuf]) -> Result<Vec<PathBuf>, DataError> {
    if let ([_], [file]) = (volumes, files) {
        return Ok(vec![file.clone()]);
    }
    let mismatch = |volume: &Path, found: String| DataError::Mismatch {
        path: volume.into(),
        expected: "one label file of its own, whose name continues that of the volume".into(),
        found,
        remedy: "Name label files as their volumes, such as case_1.nii.gz and case_1_seg.nii.gz.",
    };
    let mut partners: Vec<PathBuf> = Vec::new();
    for volume in volumes {
        let found: Vec<&PathBuf> = files.iter().filter(|file| go_together(&stem(volume), &stem(file))).collect();
        match found[..] {
            [file] if !partners.contains(file) => partners.push(file.clone()),
            [file] => return Err(mismatch(volume, format!("{}, which another volume has", file.display()))),
            [] => return Err(mismatch(volume, format!("none among {} files", files.len()))),
            _ => return Err(mismatch(volume, listed(found))),
        }
    }
    Ok(partners)
}

/// The names of files, in one line.
pub(crate) fn listed<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> String {
    paths.into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The name of a file without folder and ending.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    Format::stem(&name).to_string()
}

/// Whether one name is the other or continues it by a further word.
fn go_together(one: &str, other: &str) -> bool {
    let continues = |long: &str, short: &str| {
        let rest = long.strip_prefix(short);
        rest.is_some_and(|rest| rest.chars().next().is_none_or(|next| !next.is_alphanumeric()))
    };
    continues(one, other) || continues(other, one)
}

/// Extent and affine.
type Grid<'a> = ([usize; 3], &'a Affine);

/// The labels must lie where the volume has its voxels, to a tenth of a voxel.
fn check_grid((extent, affine): Grid<'_>, volume: &Path, found: Grid<'_>, labels: &Path) -> Result<(), DataError> {
    if extent == found.0 && is_same_place(affine, found.1, extent, 0.1) {
        return Ok(());
    }
    let grid = |extent: [usize; 3], affine: &Affine| format!("{extent:?} voxels at {:?}", &affine[..3]);
    Err(DataError::Mismatch {
        path: labels.into(),
        expected: format!("labels on the grid of {}, {}", volume.display(), grid(extent, affine)),
        found: grid(found.0, found.1),
        remedy: "Resample the labels to the grid of their volume.",
    })
}

fn check_classes(labels: &LabelMap, classes: usize) -> Result<(), DataError> {
    match labels.data().iter().max() {
        Some(label) if usize::from(*label) >= classes => {
            let expected = format!("labels below {classes}, as `num_classes` says");
            Err(DataError::malformed(
                expected,
                label.to_string(),
                "Set `num_classes` to one more than the largest label.",
            ))
        }
        _ => Ok(()),
    }
}

/// What the class maps of a volume say so far, voxel by voxel.
struct Shares {
    /// The class with the largest share.
    class: Vec<u8>,
    best: Vec<f32>,
    sum: Vec<f32>,
    /// The value that stands for 1.
    largest: f32,
}

impl Shares {
    fn add(&mut self, class: u8, map: &Volume) {
        let voxels = self.class.iter_mut().zip(&mut self.best).zip(&mut self.sum);
        for (((label, best), sum), share) in voxels.zip(map.data()) {
            *sum += share;
            if *share > *best {
                (*label, *best) = (class, *share);
            }
        }
    }

    /// The classes, the background where the maps leave at least as much as the largest of them.
    fn labels(mut self) -> Vec<u8> {
        for ((label, best), sum) in self.class.iter_mut().zip(self.best).zip(self.sum) {
            if self.largest - sum >= best {
                *label = 0;
            }
        }
        self.class
    }
}

/// One map after the other, so that one alone is in memory.
fn class_maps(paths: &[PathBuf], volume: &Volume, name: &Path, grid: Option<&NewGrid>) -> Result<LabelMap, DataError> {
    let extent = grid.map_or(volume.extent(), |grid| grid.extent);
    let mut shares = Shares { class: zeros(&extent)?, best: zeros(&extent)?, sum: zeros(&extent)?, largest: 1.0 };
    let mut affine = *volume.affine();
    for (path, class) in paths.iter().zip(1..=u8::MAX) {
        let map = Volume::read(path)?;
        check_grid((volume.extent(), volume.affine()), name, (map.extent(), map.affine()), path)?;
        let least = map.data().iter().copied().fold(0.0, f32::min);
        if map.channels() != 1 || least < 0.0 {
            let found = format!("{} channels, the least value {least}", map.channels());
            let remedy = "Save the share of one class for each voxel.";
            return Err(DataError::malformed("a class map: one channel of values of 0 or more", found, remedy).at(path));
        }
        shares.largest = map.data().iter().copied().fold(shares.largest, f32::max);
        let map = on_grid(map, grid, |map, grid| map.on_new_grid(grid))?;
        affine = *map.affine();
        shares.add(class, &map);
    }
    LabelMap::new(shares.labels(), extent, affine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::IDENTITY;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    fn write(folder: &Path, name: &str, data: &[f32], affine: Affine) -> PathBuf {
        let path = folder.join(name);
        Volume::new(data.to_vec(), [1, 1, 1, data.len()], affine).unwrap().write(&path).unwrap();
        path
    }

    #[test]
    fn files_go_with_the_volume_whose_name_they_continue() {
        let volumes = paths(&["v/case_1.nii", "v/case_10.nii.gz", "v/other.npy"]);
        let labels = paths(&["l/case_10_seg.nii", "l/case_1_seg.nii", "l/Other.nii.gz", "l/more.nii"]);
        assert_eq!(
            partners(&volumes, &labels).unwrap(),
            paths(&["l/case_1_seg.nii", "l/case_10_seg.nii", "l/Other.nii.gz"])
        );
        assert_eq!(partners(&paths(&["t1.nii"]), &paths(&["anything.nii"])).unwrap(), paths(&["anything.nii"]));
        // as in nnU-Net, where volumes have the number of their channel behind
        let channels = partners(&paths(&["a_0000.nii", "b_0000.nii"]), &paths(&["a.nii", "b.nii"])).unwrap();
        assert_eq!(channels, paths(&["a.nii", "b.nii"]));
        let message =
            |volumes: &[&str], labels: &[&str]| partners(&paths(volumes), &paths(labels)).unwrap_err().to_string();
        assert!(message(&["a.nii", "b.nii"], &["a_seg.nii", "c.nii"]).contains("b.nii: expected one label file"));
        assert!(message(&["a.nii", "b.nii"], &["a_seg.nii", "a_old.nii", "b.nii"]).contains("a_seg.nii, a_old.nii"));
        let twice = message(&["case.nii", "case_1.nii"], &["case_1_seg.nii"]);
        assert!(twice.contains("case_1_seg.nii, which another volume has"), "{twice}");
    }

    #[test]
    fn the_largest_share_wins_and_the_rest_is_the_background() {
        let folder = tempfile::tempdir().unwrap();
        let volume = Volume::new(vec![0.0; 5], [1, 1, 1, 5], IDENTITY).unwrap();
        let one = write(folder.path(), "one.npy", &[0.0, 200.0, 20.0, 80.0, 127.0], IDENTITY);
        let two = write(folder.path(), "two.npy", &[0.0, 55.0, 250.0, 100.0, 1.0], IDENTITY);
        // of 250: [250, -5, -20, 70, 122] are left
        let labels = LabelFiles::ClassMaps(vec![one, two]).load(&volume, Path::new("scan"), None).unwrap();
        assert_eq!(labels.data(), [0, 1, 2, 2, 1]);
        let shares = [0.0, 0.5, 0.6, 0.4, 0.49];
        let half = write(folder.path(), "half.npy", &shares, IDENTITY);
        let labels = LabelFiles::ClassMaps(vec![half]).load(&volume, Path::new("scan"), None).unwrap();
        assert_eq!(labels.data(), [0, 0, 1, 0, 0], "the background is first among equals");
        let negative = write(folder.path(), "negative.npy", &[-1.0; 5], IDENTITY);
        let error = LabelFiles::ClassMaps(vec![negative]).load(&volume, Path::new("scan"), None).unwrap_err();
        assert!(error.to_string().contains("negative.npy") && error.to_string().contains("-1"), "{error}");
    }

    #[test]
    fn maps_are_interpolated_and_labels_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let volume = Volume::new(vec![0.0; 4], [1, 1, 1, 4], IDENTITY).unwrap();
        let grid = NewGrid::of_extent(&volume, [1, 1, 2]);
        let load = |files: LabelFiles| files.load(&volume, Path::new("scan"), Some(&grid)).unwrap();
        let map = write(folder.path(), "map.npy", &[1.0, 1.0, 0.2, 0.0], IDENTITY);
        let labels = load(LabelFiles::ClassMaps(vec![map]));
        assert_eq!((labels.data(), labels.extent()), (&[1, 0][..], [1, 1, 2]));
        assert_eq!(labels.affine(), volume.on_new_grid(&grid).unwrap().affine());
        let whole = write(folder.path(), "labels.npy", &[4.0, 1.0, 1.0, 3.0], IDENTITY);
        assert_eq!(load(LabelFiles::Labels(whole, 5)).data(), [1, 3], "never the 2 between 1 and 3");
    }

    #[test]
    fn labels_on_another_grid_or_of_other_classes_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let mut shifted = IDENTITY;
        shifted[1][3] = 0.5;
        let volume = Volume::new(vec![0.0; 3], [1, 1, 1, 3], IDENTITY).unwrap();
        let message = |files: LabelFiles| files.load(&volume, Path::new("scan.nii"), None).unwrap_err().to_string();
        for (name, values, affine) in [("long.nii", &[0.0; 4][..], IDENTITY), ("shifted.nii", &[0.0; 3], shifted)] {
            let path = write(folder.path(), name, values, affine);
            for files in [LabelFiles::Labels(path.clone(), 2), LabelFiles::ClassMaps(vec![path])] {
                let message = message(files);
                assert!(message.contains(name) && message.contains("scan.nii"), "{message}");
            }
        }
        let path = write(folder.path(), "many.nii", &[0.0, 1.0, 2.0], IDENTITY);
        let many = message(LabelFiles::Labels(path, 2));
        assert!(many.contains("many.nii") && many.contains("below 2") && many.contains("found 2"), "{many}");
    }
}
