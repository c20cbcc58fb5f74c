//! Values as SciPy and NumPy give them (`tests/fixtures/make_augmentation.py`), and the distribution of what is drawn.

use super::bias_field::BiasField;
use super::change::Change;
use super::elastic::Elastic;
use super::*;
use crate::error::DataError;
use crate::random::{Stream, generator};
use crate::sampling::patch::{Cut, Region};
use safetensors::SafeTensors;

const SHAPE: [usize; 4] = [2, 9, 8, 10];
const EXTENT: [usize; 3] = [9, 8, 10];
const PATCH: Cut = Cut {
    region: Region { start: [1, 0, 0], end: [9, 8, 8] },
    start: [2, -1, 1],
    size: [6, 7, 8],
    flips: [false, true, false],
};
const DEGREES: [f64; 3] = [20.0, -35.0, 50.0];

struct Fixture(Vec<u8>);

impl Fixture {
    fn open() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/augmentation.safetensors");
        Self(std::fs::read(path).unwrap())
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        SafeTensors::deserialize(&self.0).unwrap().tensor(name).unwrap().data().to_vec()
    }

    fn values(&self, name: &str) -> Vec<f32> {
        self.bytes(name).chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect()
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        self.bytes(name).chunks_exact(8).map(|value| f64::from_le_bytes(value.try_into().unwrap())).collect()
    }

    fn bent(&self) -> Warp {
        let points = self.numbers("points").chunks_exact(3).map(|point| point.try_into().unwrap()).collect();
        Warp { degrees: DEGREES, scale: 1.3, elastic: Some(Elastic::of(points)) }
    }
}

fn largest_difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f32::max)
}

#[test]
fn warps_are_those_of_scipy() -> Result<(), DataError> {
    let fixture = Fixture::open();
    let (volume, bent) = (fixture.values("volume"), fixture.bent());
    let rotated = Warp { elastic: None, ..bent.clone() };
    for (name, warp) in [("rotated", &rotated), ("bent", &bent)] {
        let found = warped(&volume, SHAPE, &PATCH, warp, trilinear)?;
        let largest = largest_difference(&found, &fixture.values(name));
        assert!(largest < 1e-5, "{name}: {largest}");
    }
    let labels = warped(&fixture.bytes("labels"), [1, 9, 8, 10], &PATCH, &bent, nearest)?;
    assert_eq!(labels, fixture.bytes("bent_labels"));
    Ok(())
}

#[test]
fn changes_are_those_of_scipy_and_numpy() -> Result<(), DataError> {
    let fixture = Fixture::open();
    let channel = &fixture.values("volume")[..EXTENT.iter().product()];
    let mut coefficients = fixture.numbers("coefficients").into_iter();
    let changes = [
        ("bias_field", Change::BiasField(BiasField::draw(|| coefficients.next().unwrap()))),
        ("blur", Change::Blur([0.5, 0.8, 1.0])),
        ("brightness", Change::Brightness(0.8)),
        ("contrast", Change::Contrast(1.25)),
        ("low_resolution", Change::LowResolution(0.6)),
        ("inverted_gamma", Change::InvertedGamma(1.4)),
        ("gamma", Change::Gamma(0.7)),
    ];
    for (name, change) in changes {
        let mut values = channel.to_vec();
        change.apply(&mut values, EXTENT)?;
        let largest = largest_difference(&values, &fixture.values(name));
        assert!(largest < 2e-6, "{name}: {largest}");
        assert!(largest_difference(&values, channel) > 0.01, "{name} changes something");
    }
    Ok(())
}

#[test]
fn a_warp_that_moves_nothing_is_a_cut() -> Result<(), DataError> {
    let volume = Fixture::open().values("volume");
    let still = Warp { degrees: [0.0; 3], scale: 1.0, elastic: Some(Elastic::of(vec![[0.0; 3]; 343])) };
    let cut = crate::sampling::patch::cut(&volume, SHAPE, &PATCH)?;
    assert!(largest_difference(&warped(&volume, SHAPE, &PATCH, &still, trilinear)?, &cut) < 1e-6);
    assert_eq!(warped(&volume, SHAPE, &PATCH, &still, nearest)?, cut);
    Ok(())
}

#[test]
fn noise_has_its_deviation_and_no_mean() -> Result<(), DataError> {
    let extent = [40, 40, 40];
    // values with a deviation of 2
    let mut values: Vec<f32> = (0..64_000).map(|index| if index % 2 == 0 { 3.0 } else { 7.0 }).collect();
    let before = values.clone();
    Change::Noise { deviation: 0.25, seed: 3 }.apply(&mut values, extent)?;
    let noise: Vec<f64> = values.iter().zip(&before).map(|(one, other)| f64::from(one - other)).collect();
    let mean = noise.iter().sum::<f64>() / 64_000.0;
    let deviation = (noise.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 64_000.0).sqrt();
    assert!(mean.abs() < 0.01 && (deviation - 0.5).abs() < 0.005, "{mean} {deviation}");
    Ok(())
}

#[test]
fn changes_keep_what_they_promise_on_constant_and_tiny_samples() -> Result<(), DataError> {
    for (values, extent) in [(vec![2.5_f32; 8], [2, 2, 2]), (vec![1.0], [1, 1, 1]), (vec![0.0, 5.0], [1, 2, 1])] {
        let mut coefficients = [0.1; 20].into_iter();
        for change in [
            Change::BiasField(BiasField::draw(|| coefficients.next().unwrap())),
            Change::Noise { deviation: 0.1, seed: 1 },
            Change::Blur([1.0; 3]),
            Change::Contrast(1.2),
            Change::LowResolution(0.5),
            Change::InvertedGamma(0.7),
            Change::Gamma(1.5),
        ] {
            let mut changed = values.clone();
            change.apply(&mut changed, extent)?;
            assert!(changed.iter().all(|value| value.is_finite()), "{change}: {changed:?}");
        }
    }
    Ok(())
}

/// Draws of nnU-Net's preset, with elastic deformation and bias fields.
fn draws(count: u64) -> Vec<Drawn> {
    let config = AugmentationConfig {
        elastic: Strength { probability: 0.3, range: [0.1, 0.2] },
        bias_field: Strength { probability: 0.4, range: [-0.1, 0.1] },
        ..AugmentationConfig::nnunet()
    };
    (0..count).map(|index| Drawn::of(&config, 1, &mut generator(5, Stream::Augmentation, index))).collect()
}

/// The strengths of one transformation among the draws.
fn strengths(draws: &[Drawn], strength: impl Fn(&Drawn) -> Option<f64>) -> Vec<f64> {
    draws.iter().filter_map(strength).collect()
}

/// As often as the probability, within four standard deviations; as far as the range goes, and not beyond.
fn check(name: &str, found: &[f64], count: usize, probability: f64, [low, high]: [f64; 2]) {
    let expected = probability * count as f64;
    let deviation = (expected * (1.0 - probability)).sqrt();
    assert!((found.len() as f64 - expected).abs() < 4.0 * deviation, "{name}: {} for {expected}", found.len());
    let (least, most) = found.iter().fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(*at), high.max(*at)));
    let near = 0.02 * (high - low);
    assert!((low..=low + near).contains(&least) && (high - near..=high).contains(&most), "{name}: {least} to {most}");
}

#[test]
fn frequencies_and_ranges_are_those_of_nnu_net() {
    const COUNT: usize = 10_000;
    let draws = draws(COUNT as u64);
    let change = |pick: fn(&Change) -> Option<f64>| strengths(&draws, |drawn| drawn.channels[0].iter().find_map(pick));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let turned: Vec<[f64; 3]> = draws
        .iter()
        .filter_map(|drawn| drawn.warp.as_ref())
        .map(|warp| warp.degrees)
        .filter(|at| *at != [0.0; 3])
        .collect();
    for axis in 0..3 {
        let angles: Vec<f64> = turned.iter().map(|degrees| degrees[axis]).collect();
        check("rotation", &angles, COUNT, 0.2, [-30.0, 30.0]);
        assert!(mean(&angles).abs() < 2.0);
    }
    let scales = strengths(&draws, |drawn| Some(drawn.warp.as_ref()?.scale).filter(|scale| *scale != 1.0));
    check("scaling", &scales, COUNT, 0.2, [0.7, 1.4]);
    assert!((mean(&scales) - 1.05).abs() < 0.02, "uniform");
    let bent = strengths(&draws, |drawn| Some(drawn.warp.as_ref()?.elastic.as_ref()?.largest()));
    check("elastic", &bent, COUNT, 0.3, [0.099, 0.2]); // the largest of 1,029 parts is a little below what was drawn
    let fields = change(|change| matches!(change, Change::BiasField(_)).then_some(0.0));
    assert!((3_800..4_200).contains(&fields.len()), "{}", fields.len());
    let noise = change(|change| if let Change::Noise { deviation, .. } = change { Some(*deviation) } else { None });
    check("noise", &noise, COUNT, 0.1, [0.0, 0.1]);
    let blur = change(|change| if let Change::Blur([x, ..]) = change { Some(*x) } else { None });
    check("blur", &blur, COUNT, 0.1, [0.5, 1.0]);
    let share = change(|change| if let Change::LowResolution(share) = change { Some(*share) } else { None });
    check("low resolution", &share, COUNT, 0.125, [0.5, 1.0]);
    let balanced = [
        ("brightness", 0.15, [0.75, 1.25], change(|at| if let Change::Brightness(at) = at { Some(*at) } else { None })),
        ("contrast", 0.15, [0.75, 1.25], change(|at| if let Change::Contrast(at) = at { Some(*at) } else { None })),
        ("inverted", 0.1, [0.7, 1.5], change(|at| if let Change::InvertedGamma(at) = at { Some(*at) } else { None })),
        ("gamma", 0.3, [0.7, 1.5], change(|at| if let Change::Gamma(at) = at { Some(*at) } else { None })),
    ];
    for (name, probability, range, found) in balanced {
        check(name, &found, COUNT, probability, range);
        let below = found.iter().filter(|strength| **strength < 1.0).count() as f64 / found.len() as f64;
        assert!((below - 0.5).abs() < 0.07, "{name}: {below} below 1");
    }
    let darker = AugmentationConfig {
        brightness: Strength { probability: 1.0, range: [0.5, 0.8] },
        ..AugmentationConfig::default()
    };
    let darker = (0..200).map(|index| Drawn::of(&darker, 1, &mut generator(5, Stream::Augmentation, index)));
    let found = strengths(&darker.collect::<Vec<_>>(), |drawn| match drawn.channels[0][..] {
        [Change::Brightness(factor)] => Some(factor),
        _ => None,
    });
    assert!(found.len() == 200 && (mean(&found) - 0.65).abs() < 0.03, "a range on one side of 1 is drawn evenly");
    let order: Vec<Vec<String>> = draws.iter().map(|drawn| drawn.describe()).collect();
    let place = |changes: &[String], name: &str| changes.iter().position(|change| change.starts_with(name));
    let sequence = ["bias", "noise", "blur", "brightness", "contrast", "resolution", "inverted", "gamma"];
    for changes in order {
        assert!(sequence.iter().filter_map(|name| place(&changes, name)).is_sorted(), "{changes:?}");
    }
}

/// What one transformation drew, as numbers.
fn drawn_numbers(drawn: &Drawn) -> Vec<f64> {
    if let Some(warp) = &drawn.warp {
        return warp.degrees.to_vec();
    }
    match &drawn.channels[0][..] {
        [Change::BiasField(field)] => field.coefficients.to_vec(),
        [Change::Noise { deviation, .. }] => vec![*deviation],
        [Change::Blur(deviations)] => deviations.to_vec(),
        [Change::Brightness(strength) | Change::Gamma(strength)] => vec![*strength],
        _ => Vec::new(),
    }
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

/// Frequencies, strengths, and the moments of each voxel over 3,000 samples (`tests/fixtures/make_monai_draws.py`).
#[test]
fn draws_and_voxels_are_distributed_as_monai_s() -> Result<(), DataError> {
    let text = include_str!("../../tests/fixtures/monai_draws.json");
    let monai: serde_json::Value = serde_json::from_str(text).unwrap();
    let numbers = |value: &serde_json::Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let count = monai["samples"].as_u64().unwrap();
    let size = monai["size"].as_u64().unwrap() as usize;
    let volume: Vec<f32> = numbers(&monai["volume"]).into_iter().map(|value| value as f32).collect();
    let whole = Cut { region: Region::whole([size; 3]), start: [0; 3], size: [size; 3], flips: [false; 3] };
    let with = |range| Strength { probability: 0.6, range };
    let none = AugmentationConfig::default();
    let cases = [
        ("rotation", AugmentationConfig { rotation: with([-30.0, 30.0]), ..none.clone() }),
        ("bias_field", AugmentationConfig { bias_field: with([-0.1, 0.1]), ..none.clone() }),
        ("noise", AugmentationConfig { noise: with([0.0, 0.4]), ..none.clone() }),
        ("blur", AugmentationConfig { blur: with([0.5, 1.0]), ..none.clone() }),
        ("brightness", AugmentationConfig { brightness: with([1.1, 1.4]), ..none.clone() }),
        ("gamma", AugmentationConfig { gamma: with([1.1, 1.5]), ..none }),
    ];
    for (name, config) in cases {
        let expected = &monai[name];
        let of = |key: &str| expected[key].as_f64().unwrap();
        let (mut strengths, mut changed) = (Vec::new(), 0);
        let mut samples = Vec::new();
        for index in 0..count {
            let drawn = Drawn::of(&config, 1, &mut generator(9, Stream::Augmentation, index));
            let mut values = match &drawn.warp {
                Some(warp) => warped(&volume, [1, size, size, size], &whole, warp, trilinear)?,
                None => volume.clone(),
            };
            drawn.change(&mut values, [size; 3])?;
            changed += u64::from(values != volume);
            strengths.extend(drawn_numbers(&drawn));
            samples.push(values);
        }
        // of a share of 0.6, four deviations of the difference of two counts
        let share = changed as f64 / count as f64;
        assert!((share - of("share")).abs() < 4.0 * (2.0 * 0.24 / count as f64).sqrt(), "{name}: {share}");
        // each axis draws by itself: one number for all would have the same moments
        let apart = |axes: &[f64]| axes[0] != axes[1] && axes[1] != axes[2];
        assert!(!["rotation", "blur"].contains(&name) || strengths.chunks(3).all(apart), "{name}: {strengths:?}");
        let ((mean, deviation), drawn) = (moments(&strengths), strengths.len() as f64);
        let error = of("drawn_deviation") * (2.0 / drawn).sqrt();
        assert!((mean - of("drawn_mean")).abs() < 4.0 * error, "{name}: drawn {mean}");
        assert!((deviation - of("drawn_deviation")).abs() < 4.0 * error, "{name}: drawn with deviation {deviation}");

        let (means, deviations) = (numbers(&expected["mean"]), numbers(&expected["deviation"]));
        let in_the_middle =
            |voxel: usize| [1, size, size * size].iter().all(|by| (3..=4).contains(&(voxel / by % size)));
        for voxel in (0..volume.len()).filter(|voxel| name != "blur" || in_the_middle(*voxel)) {
            let values: Vec<f64> = samples.iter().map(|values| f64::from(values[voxel])).collect();
            let (mean, deviation) = moments(&values);
            let error = deviations[voxel].max(deviation) * (2.0 / count as f64).sqrt() + 1e-3;
            assert!((mean - means[voxel]).abs() < 5.0 * error, "{name}, voxel {voxel}: {mean} for {}", means[voxel]);
            let found = (deviation, deviations[voxel]);
            assert!((found.0 - found.1).abs() < 7.0 * error, "{name}, voxel {voxel}: deviation {found:?}");
        }
    }
    Ok(())
}

#[test]
fn nothing_is_drawn_by_default_and_channels_draw_by_themselves() {
    let nothing = Drawn::of(&AugmentationConfig::default(), 3, &mut generator(1, Stream::Augmentation, 0));
    assert!(nothing.warp.is_none() && nothing.describe().is_empty());
    let draw = |index| Drawn::of(&AugmentationConfig::nnunet(), 2, &mut generator(1, Stream::Augmentation, index));
    assert_eq!(draw(3), draw(3));
    assert!((0..50).any(|index| draw(index).channels[0] != draw(index).channels[1]));
    assert!((0..50).any(|index| draw(index).describe().iter().any(|change| change.starts_with("channel 1: "))));
}

#[test]
fn wrong_strengths_are_named() {
    let strength = |probability, range| Strength { probability, range };
    let config = AugmentationConfig {
        elastic: strength(0.5, [0.0, 0.5]),
        gamma: strength(1.5, [0.7, 1.5]),
        scaling: strength(0.5, [1.4, 0.7]),
        noise: strength(0.5, [f64::NAN, 0.1]),
        ..AugmentationConfig::nnunet()
    };
    let keys: Vec<String> = config.validate().into_iter().map(|error| error.key).collect();
    assert_eq!(keys, ["scaling.range", "elastic.range", "noise.range", "gamma.probability"]);
    assert!(AugmentationConfig::nnunet().validate().is_empty() && AugmentationConfig::default().validate().is_empty());
}
