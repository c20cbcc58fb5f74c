//! Every public function with sizes from nothing to the largest number: either a shape is rejected with a message of ours, or
//! what it computes has the stated size and is finite.
//!
//! `LEANBURN_EXTREMES` is the number of cases, 2,000 if it is not set; `LEANBURN_EXTREMES_SEED` draws others.

mod extreme;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use extreme::{Draw, Outcome, attention, bev, conv, fourier, norm, pool, random, resample, stored, window};
use leanburn_kernels::conv::{ConvSettings, ConvShape, Input, data_gradient_allocating, data_gradient_workspace};

/// How the standard library, not one of our checks, says that something is wrong.
const FAULTS: [&str; 7] =
    ["attempt to", "out of bounds", "out of range", "capacity overflow", "unwrap", "chunk size", "unreachable"];

/// A random call of some functions.
type Function = fn(&mut Draw) -> Outcome;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn every_function_rejects_or_computes() {
    let (cases, seed) = (number("LEANBURN_EXTREMES", 2_000), number("LEANBURN_EXTREMES_SEED", 1));
    let functions: [(&str, Function); 16] = [
        ("conv", conv::convolution),
        ("conv transposed", conv::transposed),
        ("conv bias", conv::bias),
        ("attention", attention::attention),
        ("attention in windows", window::attention),
        ("layer norm", window::layer_norm),
        ("bird's-eye view", bev::pool),
        ("norm", norm::norm),
        ("resample", resample::resample),
        ("max pool", pool::max_pool),
        ("adaptive max pool", pool::adaptive),
        ("Fourier transform", fourier::transform),
        ("products of spectra", fourier::mixing),
        ("random", random::random),
        ("compressed", stored::compressed),
        ("planes of pieces", stored::planes),
    ];
    std::panic::set_hook(Box::new(|_| ()));
    let mut counts: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    let mut faults = Vec::new();
    for case in 0..cases {
        let (name, function) = functions[(case % functions.len() as u64) as usize];
        let mut draw = Draw::new(seed.wrapping_mul(1 << 32).wrapping_add(case));
        let outcome = catch_unwind(AssertUnwindSafe(|| function(&mut draw))).unwrap_or_else(|panic| {
            let message = panic.downcast_ref::<String>().cloned();
            let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let message = message.unwrap_or_default();
            if message.starts_with("wrong:") || FAULTS.iter().any(|fault| message.contains(fault)) {
                faults.push(format!("case {case}, {name}: {message}"));
            }
            Outcome::Rejected
        });
        counts.entry(name).or_default()[outcome as usize] += 1;
    }
    _ = std::panic::take_hook();
    println!("function: computed, accepted but too large to compute here, rejected");
    counts.iter().for_each(|(name, counts)| println!("{name}: {counts:?}"));
    assert!(faults.is_empty(), "{} of {cases}:\n{}", faults.len(), faults.join("\n"));
    for (name, [computed, _, rejected]) in counts {
        let tenth = cases / functions.len() as u64 / 10;
        assert!(computed > tenth && rejected > tenth, "{name}: {computed} computed, {rejected} rejected");
    }
}

/// Found by 100,000 cases: how far a kernel reached along two axes was more than can be counted.
#[test]
fn of_a_kernel_that_fits_nowhere_the_bias_remains() {
    let settings = ConvSettings { dilation: [1, 1 << 40, 1 << 40], ..ConvSettings::default() };
    let shape = ConvShape::new([1, 2, 2, 2, 2], [3, 2, 3, 3, 3], settings).unwrap();
    assert_eq!(shape.output_len(), 0);
    assert!(data_gradient_workspace::<f32>(&shape) < 1 << 20);
    let sums = data_gradient_allocating::<f32>(&shape, Input::plain(&[]), &[1.0; 162], Some(&[1.0, 2.0]));
    assert_eq!(sums, [[1.0; 8], [2.0; 8]].concat());
}
