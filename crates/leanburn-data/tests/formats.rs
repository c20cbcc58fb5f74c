//! Files as nibabel (`tests/fixtures/make_formats.py`), pydicom, pynrrd and SimpleITK (`make_images.py`) write them.

use std::fs;
use std::path::{Path, PathBuf};

use leanburn_data::{DataConfig, Dataset, Format, Volume, find_volumes};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The values of all fixtures, on the axes of the file.
fn values() -> Vec<f32> {
    let voxels = (0..4).flat_map(|x| (0..3).flat_map(move |y| (0..2).map(move |z| (x, y, z))));
    voxels.map(|(x, y, z)| (10 * x + 3 * y - z) as f32).collect()
}

#[test]
fn second_headers_and_pairs_are_read() {
    for name in ["second.nii.gz", "second_big.nii", "pair.hdr", "second_pair.hdr"] {
        let volume = Volume::read(fixture(name)).unwrap();
        assert_eq!((volume.shape(), volume.original_orientation().codes()), ([1, 4, 3, 2], "LPS".into()), "{name}");
        assert_eq!(volume.data()[0], 36.0, "{name}: right and front come last in the file");
        let in_file = volume.into_original_orientation().unwrap();
        assert_eq!(in_file.data(), values(), "{name}");
        let [x, y, z, _] = *in_file.affine();
        assert_eq!([x, y], [[-1.5, 0.0, 0.0, 20.25], [0.0, -2.0, 0.0, 7.125]], "{name}");
        assert_eq!(z, [0.0, 0.0, 3.0, -100_000.062_5], "{name}");
    }
}

#[test]
fn a_second_header_has_a_unit_of_length() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(fixture("second_big.nii")).unwrap();
    bytes[500..504].copy_from_slice(&3_i32.to_be_bytes());
    fs::write(folder.path().join("v.nii"), bytes).unwrap();
    let spacing = Volume::read(folder.path().join("v.nii")).unwrap().spacing();
    let expected = [1.5e-3, 2e-3, 3e-3];
    assert!(spacing.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12), "{spacing:?}");
}

#[test]
fn a_pair_is_one_volume_and_needs_both_files() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str, to: &str| fs::copy(fixture(name), folder.path().join(to)).unwrap();
    copy("pair.hdr", "scan.hdr");
    let alone = Volume::read(folder.path().join("scan.hdr")).unwrap_err().to_string();
    assert!(alone.contains("scan.hdr") && alone.contains(".img"), "{alone}");
    copy("pair.img", "scan.img");
    assert_eq!(find_volumes(&[folder.path().into()]).unwrap(), [folder.path().join("scan.hdr")]);
    let config = DataConfig { paths: vec![folder.path().into()], ..DataConfig::default() };
    assert_eq!(Dataset::open(&config, 1).unwrap().len(), 1);
    copy("pair.hdr", "scan.nii");
    let renamed = Volume::read(folder.path().join("scan.nii")).unwrap_err().to_string();
    assert!(renamed.contains(".hdr/.img") && renamed.contains("Rename"), "{renamed}");
    let short = &fs::read(fixture("pair.img")).unwrap()[..47];
    fs::write(folder.path().join("scan.img"), short).unwrap();
    let cut = Volume::read(folder.path().join("scan.hdr")).unwrap_err();
    assert!(cut.is_malformed() && cut.to_string().contains("scan.img"), "{cut}");
    let output = Format::of_output(&folder.path().join("out.hdr")).unwrap_err().to_string();
    assert!(output.contains("out.hdr") && output.contains(".nii"), "{output}");
}

#[test]
fn a_second_header_cut_or_damaged_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.nii");
    let whole = fs::read(fixture("second_big.nii")).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(Volume::read(&path).unwrap_err().is_malformed(), "cut at {length}");
    }
    for place in 0..whole.len() {
        for value in [0, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[place] = value;
            fs::write(&path, bytes).unwrap();
            if let Err(error) = Volume::read(&path) {
                assert!(error.to_string().contains("v.nii"), "{error}");
            }
        }
    }
    let mut long = whole;
    long[24..32].copy_from_slice(&40_000_i64.to_be_bytes());
    fs::write(&path, long).unwrap();
    assert!(Volume::read(&path).unwrap_err().to_string().contains("32767"));
}

/// A number array of `images.json`, whatever its depth.
fn flat(value: &serde_json::Value) -> Vec<f64> {
    match value {
        serde_json::Value::Array(values) => values.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

#[test]
fn images_are_what_the_packages_that_made_them_read() {
    let text = fs::read_to_string(fixture("images.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = expected.as_object().unwrap();
    assert_eq!(expected.len(), 13);
    for (name, expected) in expected.iter().filter(|(name, _)| cfg!(feature = "dicom") || !name.starts_with("series")) {
        let volume = Volume::read(fixture(name)).unwrap_or_else(|error| panic!("{error}"));
        let in_file = volume.into_original_orientation().unwrap();
        let mut shape = flat(&expected["shape"]);
        if shape.len() == 3 {
            shape.insert(0, 1.0);
        }
        assert_eq!(in_file.shape().map(|length| length as f64)[..], shape, "{name}");
        let found: Vec<f64> = in_file.data().iter().map(|value| f64::from(*value)).collect();
        assert_eq!(found, flat(&expected["values"]), "{name}");
        for (found, expected) in in_file.affine().as_flattened().iter().zip(flat(&expected["affine"])) {
            assert!((found - expected).abs() < 5e-6, "{name}: {found} for {expected} in {:?}", in_file.affine());
        }
    }
}

#[cfg(not(feature = "dicom"))]
#[test]
fn a_build_that_reads_no_series_says_so() {
    let error = Volume::read(fixture("series_signed")).unwrap_err().to_string();
    assert!(error.contains("series_signed") && error.contains("feature `dicom`"), "{error}");
}

/// A copy of a series of five slices, in a folder of its own.
#[cfg(feature = "dicom")]
fn series(folder: &Path) -> PathBuf {
    let copy = folder.join("series");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(fixture("series_signed")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    copy
}

/// Its files in the order of their places.
#[cfg(feature = "dicom")]
fn in_order(series: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(series).unwrap().map(|entry| entry.unwrap().path()).collect();
    let number = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        let at = bytes.windows(8).position(|bytes| bytes == b"\x20\0\x13\0IS\x02\0").unwrap(); // InstanceNumber
        bytes[at + 8]
    };
    files.sort_by_key(number);
    files
}

#[cfg(feature = "dicom")]
#[test]
fn a_series_is_one_volume_of_a_data_set() {
    let folder = tempfile::tempdir().unwrap();
    let series = series(folder.path());
    fs::write(series.join("notes.txt"), "no slice").unwrap();
    fs::write(series.join("DICOMDIR"), [&[0; 128][..], b"DICM"].concat()).unwrap();
    assert_eq!(find_volumes(&[folder.path().into()]).unwrap(), [series.as_path()]);
    assert_eq!(Format::output_ending(&series), Some(".nii.gz"));
    let config = DataConfig { paths: vec![folder.path().into()], val_fraction: 0.0, ..DataConfig::default() };
    assert_eq!(Dataset::open(&config, 1).unwrap().train_sample(0).unwrap().shape, [1, 3, 4, 5]);
}

#[cfg(feature = "dicom")]
#[test]
fn what_is_wrong_with_a_series_is_named() {
    let fails = |change: &dyn Fn(&Path, &[PathBuf]), words: [&str; 2]| {
        let folder = tempfile::tempdir().unwrap();
        let series = series(folder.path());
        change(&series, &in_order(&series));
        let error = Volume::read(&series).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{words:?} in {error}");
    };
    fails(&|_, files| fs::remove_file(&files[1]).unwrap(), ["5.000 mm, 1 missing", ".dcm"]);
    fails(
        &|series, files| {
            fs::copy(&files[2], series.join("copy.dcm")).unwrap();
        },
        ["copy.dcm", "again"],
    );
    let other = |series: &Path| {
        fs::copy(fixture("series_bytes/0.dcm"), series.join("x.dcm")).unwrap();
    };
    fails(&|series, _| other(series), ["x.dcm", "series 1.2.826.0.1.3680043.8.498.112"]);
    let packed = |series: &Path| {
        fs::copy(fixture("packed.dcm"), series.join("x.dcm")).unwrap();
    };
    fails(&|series, _| packed(series), ["x.dcm", "transfer syntax 1.2.840.10008.1.2.5"]);
    fails(&|_, files| files[1..].iter().for_each(|file| fs::remove_file(file).unwrap()), ["two slices", "found 1"]);
    fails(&|_, files| fs::write(&files[3], b"no DICOM").unwrap(), [".dcm", "damaged"]);
    let turned = |file: &PathBuf| {
        let mut bytes = fs::read(file).unwrap();
        let at = bytes.windows(6).position(|bytes| bytes == b"\x28\0\x30\0DS").unwrap(); // PixelSpacing
        bytes[at + 8..at + 12].copy_from_slice(b"0.25");
        fs::write(file, bytes).unwrap();
    };
    fails(&|_, files| turned(&files[0]), ["from pixel to pixel", ".dcm"]);
}

#[cfg(feature = "dicom")]
#[test]
fn a_slice_cut_or_damaged_is_an_error_or_a_volume() {
    let folder = tempfile::tempdir().unwrap();
    let series = series(folder.path());
    let files = in_order(&series);
    files[2..].iter().for_each(|file| fs::remove_file(file).unwrap());
    let file = &files[1];
    let whole = fs::read(file).unwrap();
    for length in (0..whole.len()).step_by(61) {
        fs::write(file, &whole[..length]).unwrap();
        let error = Volume::read(&series).unwrap_err();
        assert!(error.to_string().contains(&*file.file_name().unwrap().to_string_lossy()), "cut at {length}: {error}");
    }
    for place in (128..whole.len()).step_by(37) {
        let mut bytes = whole.clone();
        bytes[place] = if place % 2 == 0 { 0 } else { 0xff };
        fs::write(file, bytes).unwrap();
        let _ = Volume::read(&series); // no panic
    }
}

#[test]
fn a_header_of_text_cut_or_damaged_is_an_error_or_a_volume() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["gzip.nrrd", "big.nrrd", "packed.mha", "raw.mha", "parts.mhd"] {
        let path = folder.path().join(name);
        let whole = fs::read(fixture(name)).unwrap();
        for length in (0..whole.len()).step_by(3) {
            fs::write(&path, &whole[..length]).unwrap();
            let error = Volume::read(&path).unwrap_err();
            assert!(error.is_malformed() && error.to_string().contains(name), "{name} cut at {length}: {error}");
        }
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] = [0, b'9', 0xff][place % 3];
            fs::write(&path, bytes).unwrap();
            let _ = Volume::read(&path); // no panic
        }
    }
    let header = |text: &str| {
        let path = folder.path().join("v.nrrd");
        fs::write(&path, text).unwrap();
        Volume::read(&path).unwrap_err().to_string()
    };
    let start = "NRRD0004\ntype: short\nsizes: 1 1 1\nendian: little\n";
    for (rest, words) in [
        ("encoding: bzip2\n\n", "`encoding` with raw or gzip, found \"bzip2\""),
        ("encoding: raw\nspace: left-posterior-superior-time\n\n", "`space`"),
        ("encoding: raw\ndata file: LIST\n\n", "not one for each slice"),
        ("encoding: raw\nspace directions: (1,0) (0,1) (0,0)\n\n", "vectors of three numbers"),
        ("encoding: raw\nsizes: 30000 30000 30000\n\n", "no memory"),
        ("encoding: raw\nline skip: 9\n\na line\nvoxels", "`line skip` with at most 2, as many as there are"),
    ] {
        let error = header(&format!("{start}{rest}"));
        assert!(error.contains(words), "{words} in {error}");
    }
}
