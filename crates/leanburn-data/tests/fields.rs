//! Fields in files that h5py and netCDF4 wrote (`tests/fixtures/make_fields.py`), and pairs of them for super-resolution.
#![cfg(feature = "hdf5")]

use leanburn_data::{DataError, Sequence, SequenceConfig, SequenceDataset, Volume};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read(name: &str, key: Option<&str>, axes: Option<&str>) -> Result<Sequence, DataError> {
    let config = SequenceConfig { data_key: key.map(Into::into), axes: axes.map(Into::into), ..Default::default() };
    config.read(&fixture(name))
}

/// Values that name their places.
fn expected(time: usize) -> Vec<f32> {
    (0..time * 20).map(|at| (at / 20 * 100 + at / 5 % 4 * 10 + at % 5) as f32).collect()
}

#[test]
fn hdf5_as_h5py_writes_it() {
    for (key, sign) in [("uo_data", 1.0), ("vo_data", -1.0)] {
        let fields = read("ocean.h5", Some(key), Some("thwc")).unwrap();
        assert_eq!(fields.shape(), [6, 1, 4, 5], "{key}");
        assert_eq!(fields.data(), expected(6).iter().map(|value| sign * value).collect::<Vec<_>>(), "{key}");
    }
    let deep = read("ocean.h5", Some("deep/er/field"), None).unwrap();
    assert_eq!((deep.shape(), deep.data()), ([6, 1, 4, 5], &expected(6)[..]), "an array without channels");
    // The other axes are read as they are: [6, 4, 5, 1] is also a volume of six channels.
    assert!(Volume::read(fixture("ocean.h5")).unwrap_err().to_string().contains("3 arrays"));
}

#[test]
fn matlab_as_version_7_3_saves_it() {
    let flows = read("flows.mat", Some("u"), Some("twhn")).unwrap();
    assert_eq!((flows.shape(), flows.trajectory_length()), ([12, 1, 4, 5], Some(6)));
    let (first, second) = flows.data().split_at(120);
    assert_eq!(first, expected(6));
    assert!(second.iter().zip(first).all(|(other, value)| other - value == 1000.0));
}

#[test]
fn netcdf_as_netcdf4_writes_it() {
    for name in ["weather.nc", "classic.nc"] {
        // Packed into 16 bits, in steps of a half; coordinates are not taken for fields.
        let fields = read(name, None, None).unwrap();
        assert_eq!((fields.shape(), fields.data()), ([6, 1, 4, 5], &expected(6)[..]), "{name}");
        assert_eq!(fields, read(name, Some("t2m"), Some("thw")).unwrap());
        assert_eq!(Volume::read(fixture(name)).unwrap().shape(), [1, 6, 4, 5], "{name}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let message = |name: &str, key: &str, axes: Option<&str>| {
        let error = read(name, Some(key), axes).unwrap_err();
        assert!(error.is_malformed() && error.to_string().contains(name), "{error}");
        error.to_string()
    };
    let wrong = message("ocean.h5", "uo_date", None);
    assert!(wrong.contains("`uo_date`") && wrong.contains("found `uo_data`, of ["), "{wrong}");
    assert!(wrong.contains("\"vo_data\"") && wrong.contains("\"deep/er/field\""), "{wrong}");
    assert!(message("weather.nc", "pressure", None).contains("[\"time\", \"lat\", \"lon\", \"t2m\"]"));
    let axes = message("ocean.h5", "uo_data", Some("thw"));
    assert!(axes.contains("3 axes [time, height, width]") && axes.contains("[6, 4, 5, 1]"), "{axes}");
    assert!(message("weather.nc", "lat", None).contains("found [4]"));
    let missing = message("missing.nc", "sst", None);
    assert!(
        missing.contains("found 1 that are not") && missing.contains("time 1, channel 0, row 0, column 1"),
        "{missing}"
    );
    let several = read("ocean.h5", None, None).unwrap_err().to_string();
    assert!(several.contains("3 arrays") && several.contains("vo_data"), "{several}");
}

#[test]
fn a_file_that_is_cut_short_or_changed_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    for (name, key) in [("ocean.h5", "uo_data"), ("weather.nc", "t2m"), ("classic.nc", "t2m"), ("flows.mat", "u")] {
        let (whole, path) = (std::fs::read(fixture(name)).unwrap(), folder.path().join(name));
        let config = SequenceConfig {
            data_key: Some(key.into()),
            axes: (name == "ocean.h5").then(|| "thwc".into()),
            ..Default::default()
        };
        let whole_fields = config.read(&fixture(name)).ok();
        let step = (whole.len() / 60).max(1);
        for length in (0..whole.len() - 1).step_by(step) {
            std::fs::write(&path, &whole[..length]).unwrap();
            match config.read(&path) {
                Err(error) => assert!(error.to_string().contains(name), "{error}"),
                Ok(fields) => assert_eq!(Some(fields), whole_fields, "{name} cut at {length} of {}", whole.len()),
            }
        }
        for at in (0..whole.len()).step_by(step) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x5a;
            std::fs::write(&path, bytes).unwrap();
            let _ = config.read(&path); // a value may have changed, in a file without checksums
        }
    }
}

#[test]
fn pairs_are_degraded_as_diffsr_does_it() {
    let paths = vec![fixture("degraded.npz")];
    let array =
        |key: &str| SequenceConfig { data_key: Some(key.into()), ..SequenceConfig::default() }.read(&paths[0]).unwrap();
    let distance = |one: &[f32], other: &[f32]| {
        assert_eq!(one.len(), other.len());
        one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
    };
    for factor in [2, 3, 4] {
        let config = SequenceConfig {
            paths: paths.clone(),
            data_key: Some("fields".into()),
            input_days: 1,
            sample_factor: factor,
            normalize: leanburn_data::Normalize::None,
            val_fraction: 0.5,
            ..SequenceConfig::default()
        };
        let pairs = SequenceDataset::open(&config, 1).unwrap();
        let (coarse, fine) = (array(&format!("coarse_{factor}")), array(&format!("fine_{factor}")));
        let [.., height, width] = coarse.shape();
        for (window, frame) in [(pairs.train_window(0).unwrap(), 0), (pairs.val_window(0).unwrap(), 1)] {
            assert_eq!((window.input_shape, window.target_shape), ([1, 1, height, width], [1, 1, 12, 24]));
            let of = |sequence: &Sequence| {
                let [_, _, height, width] = sequence.shape();
                sequence.data()[frame * height * width..][..height * width].to_vec()
            };
            assert_eq!(window.target, of(&array("fields")));
            let apart = distance(&window.input, &of(&coarse));
            assert!(apart < 2e-6, "{factor}: {apart}");
            let apart = distance(&pairs.persistence(&window).unwrap(), &of(&fine));
            assert!(apart < 2e-6, "{factor}: {apart}");
        }
    }
    let config = SequenceConfig {
        paths: paths.clone(),
        data_key: Some("fields".into()),
        input_days: 1,
        sample_factor: 5,
        ..Default::default()
    };
    let error = SequenceDataset::open(&config, 1).unwrap_err().to_string();
    assert!(error.contains("multiples of 5") && error.contains("[12, 24]"), "{error}");
}
