//! Files as nibabel writes them (`tests/fixtures/make_formats.py`).

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
        let in_file = volume.into_original_orientation();
        assert_eq!(in_file.data(), values(), "{name}");
        let [x, y, z, _] = *in_file.affine();
        assert_eq!([x, y], [[-1.5, 0.0, 0.0, 20.25], [0.0, -2.0, 0.0, 7.125]], "{name}");
        assert_eq!(z, [0.0, 0.0, 3.0, -100_000.062_5], "{name}");
    }
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
