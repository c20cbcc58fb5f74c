//! Transforms and mixing against their definitions in float64, on every instruction set.

use half::bf16;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::planes::{add_volumes_on, to_spectra_on};
use super::*;
use crate::{Activation, Stored, simd};

fn draw(seed: u64, len: usize) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..len).map(|_| rng.random_range(-1.0..1.0)).collect()
}

fn distance(found: &[f64], expected: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    norm(&mut found.iter().zip(expected).map(|(a, b)| a - b)) / norm(&mut expected.iter().copied()).max(1e-3)
}

fn exact<E: Stored>(values: &[E]) -> Vec<f64> {
    values.iter().map(|value| f64::from(value.to_f32())).collect()
}

/// The dense matrix of a transform, real rows then imaginary ones, `[2 modes, volume]`.
fn dense(transform: &Transform) -> Vec<Vec<f64>> {
    let (size, modes) = (transform.size(), transform.modes());
    let matrices = [0, 1, 2].map(|axis| transform.matrices(axis));
    let all = |[a, b, c]: [usize; 3]| (0..a * b * c).map(|at| [at / (b * c), at / c % b, at % c]).collect::<Vec<_>>();
    let wave = |k: [usize; 3], n: [usize; 3]| {
        (0..3).fold((1.0, 0.0), |(re, im), axis| {
            let place = k[axis] * size[axis] + n[axis];
            let (cos, sin) = (matrices[axis][0][place], -matrices[axis][1][place]);
            (re * cos - im * sin, re * sin + im * cos)
        })
    };
    let rows = |part: fn((f64, f64)) -> f64| {
        all(modes).into_iter().map(move |k| all(size).into_iter().map(|n| part(wave(k, n))).collect()).collect()
    };
    let parts: [Vec<Vec<f64>>; 2] = [rows(|wave| wave.0), rows(|wave| wave.1)];
    parts.concat()
}

fn check<E: Stored>(transform: &Transform, items: usize, tolerance: f64) {
    let (volume, modes) = (transform.volume_len(), transform.spectrum_len());
    let x: Vec<E> = draw(1, items * volume).into_iter().map(E::from_f32).collect();
    let spectra = draw(2, 2 * items * modes);
    let before: Vec<E> = draw(3, items * volume).into_iter().map(E::from_f32).collect();
    let (rows, mut expected, mut expected_volumes) = (dense(transform), vec![0.0; spectra.len()], exact(&before));
    for (item, (row, values)) in (0..items).flat_map(|item| rows.iter().enumerate().map(move |row| (item, row))) {
        let (part, mode) = (row / modes, row % modes);
        let place = (part * items + item) * modes + mode;
        for (n, wave) in values.iter().enumerate() {
            let at = item * volume + n;
            expected[place] += wave * f64::from(x[at].to_f32().max(0.0));
            expected_volumes[at] += wave * f64::from(spectra[place]);
        }
    }
    for arch in simd::available() {
        let mut found = vec![f32::NAN; spectra.len()];
        to_spectra_on(transform, arch, &x, Activation::Relu, &mut found);
        let error = distance(&exact(&found), &expected);
        assert!(error < 2e-6, "{arch:?} {transform:?}: {error:e}");
        let mut y = before.clone();
        add_volumes_on(transform, arch, &spectra, &mut y);
        let error = distance(&exact(&y), &expected_volumes);
        assert!(error < tolerance, "{arch:?} {transform:?}: {error:e}");
    }
}

fn signed(modes: usize) -> Vec<i32> {
    (0..modes as i32).chain((-(modes as i32)..0).filter(|_| modes > 1)).collect()
}

#[test]
fn powers_of_two_odd_and_prime_lengths() {
    for (size, modes) in
        [([1, 1, 16], [1, 1, 9]), ([1, 13, 8], [1, 4, 3]), ([6, 5, 31], [2, 2, 7]), ([2, 8, 9], [1, 3, 2])]
    {
        let frequencies = [signed(modes[0]), signed(modes[1]), (0..modes[2] as i32).collect()];
        check::<f32>(&Transform::to_amplitudes(size, &frequencies).unwrap(), 3, 2e-6);
        check::<f32>(&Transform::of_waves(size, &frequencies).unwrap(), 2, 2e-6);
        check::<bf16>(&Transform::of_waves(size, &frequencies).unwrap(), 2, 4e-3);
    }
}

#[test]
fn frequencies_that_an_axis_does_not_have_are_zero() {
    let frequencies = [vec![0], vec![0, 1, 3, -3], (0..5).collect()];
    let [_, rows, columns] = Transform::to_amplitudes([1, 5, 4], &frequencies).unwrap().axes;
    let scales = |axis: &transform::Axis| axis.frequencies().map(|(_, scale)| scale != 0.0).collect::<Vec<_>>();
    assert_eq!(scales(&rows), [true, true, false, false]);
    assert_eq!(scales(&columns), [true, true, true, false, false]);
    let waves = Transform::of_waves([1, 1, 4], &[vec![0], vec![0], vec![0, 1, 2]]).unwrap();
    assert_eq!(waves.axes[2].frequencies().map(|(_, scale)| scale).collect::<Vec<_>>(), [1.0, 2.0, 1.0]);
}

#[test]
fn what_is_no_transform_is_rejected() {
    let message = |size, frequencies: [Vec<i32>; 3]| Transform::of_waves(size, &frequencies).unwrap_err().to_string();
    assert_eq!(
        message([1, 0, 4], [vec![0], vec![0], vec![0]]),
        "height: expected a length of at least 1 for the volume, found 0"
    );
    assert_eq!(
        message([1, 1, 4], [vec![], vec![0], vec![0]]),
        "depth: expected a length of at least 1 for the list of frequencies, found 0"
    );
    assert_eq!(
        message([1, 1, 4], [vec![0], vec![0], vec![0, -1]]),
        "width: expected frequencies of 0 and above, since the others are their conjugates, found -1"
    );
}

/// `conj` of the operands that a part conjugates.
fn mixed(sizes: [usize; 4], part: Part, operands: [&[f32]; 2]) -> Vec<f64> {
    let [batch, channels_in, channels_out, modes] = sizes;
    let mixing = Mixing::new(sizes).unwrap();
    let mut result = vec![0.0; mixing.len(part)];
    let get =
        |values: &[f32], at: usize, sign: f64| (f64::from(values[at]), sign * f64::from(values[values.len() / 2 + at]));
    for (b, i, o, k) in (0..batch).flat_map(|b| {
        (0..channels_in).flat_map(move |i| (0..channels_out).flat_map(move |o| (0..modes).map(move |k| (b, i, o, k))))
    }) {
        let [x, y, w] =
            [(b * channels_in + i) * modes + k, (b * channels_out + o) * modes + k, (i * channels_out + o) * modes + k];
        let ((first, second), target) = match part {
            Part::Output => ((get(operands[0], x, 1.0), get(operands[1], w, 1.0)), y),
            Part::Input => ((get(operands[0], y, 1.0), get(operands[1], w, -1.0)), x),
            Part::Weight => ((get(operands[0], x, -1.0), get(operands[1], y, 1.0)), w),
        };
        result[target] += first.0 * second.0 - first.1 * second.1;
        let half = result.len() / 2;
        result[half + target] += first.0 * second.1 + first.1 * second.0;
    }
    result
}

#[test]
fn spectra_are_mixed_as_complex_numbers() {
    for sizes in [[1, 1, 1, 1], [9, 3, 2, 5], [2, 10, 4, 300]] {
        let mixing = Mixing::new(sizes).unwrap();
        for (part, operands) in [
            (Part::Output, [Part::Input, Part::Weight]),
            (Part::Input, [Part::Output, Part::Weight]),
            (Part::Weight, [Part::Input, Part::Output]),
        ] {
            let [a, b] = operands.map(|part| draw(part as u64, mixing.len(part)));
            let expected = mixed(sizes, part, [&a, &b]);
            for arch in simd::available() {
                let mut found = vec![f32::NAN; mixing.len(part)];
                mixing.compute_on(arch, part, [&a, &b], &mut found);
                let error = distance(&exact(&found), &expected);
                assert!(error < 1e-6, "{arch:?} {sizes:?} {part:?}: {error:e}");
            }
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let transform = Transform::to_amplitudes([4, 37, 64], &[signed(2), signed(5), (0..6).collect()]).unwrap();
    let x = draw(7, 40 * transform.volume_len());
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let mut spectra = vec![0.0; 80 * transform.spectrum_len()];
        pool.install(|| transform.to_spectra(&x, Activation::Gelu, &mut spectra));
        spectra
    };
    assert_eq!(with_threads(1), with_threads(3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_size(size in [1usize..5, 1usize..12, 1usize..20], modes in [1usize..3, 1usize..5, 1usize..10]) {
        let frequencies = [signed(modes[0]), signed(modes[1]), (0..modes[2] as i32).collect()];
        check::<f32>(&Transform::of_waves(size, &frequencies).unwrap(), 2, 3e-6);
    }
}
