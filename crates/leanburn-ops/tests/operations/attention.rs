//! Attention between the positions of two volumes.

use burn::prelude::*;
use burn::tensor::{DType, TensorData};
use leanburn_ops::{attention3d, attention3d_in_blocks, backward};
use proptest::prelude::*;

use crate::case::{Case, Inputs, cases};
use crate::plain;

#[test]
fn attention3d_in_half_precision() {
    let volume = [1, 32, 6, 6, 6];
    let case = Case { volumes: vec![volume; 3], ..Case::default() };
    case.check_half(
        &|(x, _, _): Inputs| attention3d(x[0].clone(), x[1].clone(), x[2].clone(), 2, 0.25),
        &|(x, _, _): Inputs| plain::attention3d(x[0].clone(), x[1].clone(), x[2].clone(), 2, 0.25),
        1.0,
    );
}

fn check(batch_size: usize, channels: usize, num_heads: usize, query: [usize; 3], key: [usize; 3], scale: f64) {
    let volume = |[depth, height, width]: [usize; 3]| [batch_size, channels, depth, height, width];
    let case = Case { volumes: vec![volume(query), volume(key), volume(key)], ..Case::default() };
    case.check(
        move |(x, _, _)| attention3d(x[0].clone(), x[1].clone(), x[2].clone(), num_heads, scale),
        move |(x, _, _)| plain::attention3d(x[0].clone(), x[1].clone(), x[2].clone(), num_heads, scale),
    );
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn attention3d_of_any_shape(
        batch_size in 1usize..3,
        num_heads in 1usize..3,
        head_channels in 1usize..20,
        query in [1usize..5, 1usize..5, 1usize..8],
        key in [2usize..5, 2usize..5, 1usize..8],
        scale in 0.05f64..1.0,
    ) {
        // A float32 scale, so that it is the same number in every precision.
        check(batch_size, num_heads * head_channels, num_heads, query, key, f64::from(scale as f32));
    }
}

/// Output, and the gradients of queries, keys and values, of one dtype.
fn in_blocks(dtype: DType, heads: usize, block: Option<usize>) -> [TensorData; 4] {
    let device = Device::flex().autodiff();
    let leaf = |dims: [usize; 5], step: usize| {
        let values: Vec<f32> =
            (0..dims.iter().product()).map(|index: usize| (index * step % 101) as f32 / 50.0 - 1.0).collect();
        Tensor::<5>::from_data(TensorData::new(values, dims), &device).cast(dtype).detach().require_grad()
    };
    let (query, key, value) = (leaf([2, 8, 5, 7, 6], 37), leaf([2, 8, 4, 9, 6], 53), leaf([2, 8, 4, 9, 6], 71));
    let y = attention3d_in_blocks(query.clone(), key.clone(), value.clone(), heads, 0.5, block);
    let mut gradients = backward((y.clone() * leaf([2, 8, 5, 7, 6], 29)).sum());
    let [query, key, value] = [query, key, value].map(|leaf| gradients.take(&leaf).expect("a gradient").into_data());
    [y.into_data(), query, key, value]
}

#[test]
fn blocks_change_no_bit_on_the_cpu() {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let whole = in_blocks(dtype, 2, None);
        for block in [1, 60, 150, 1000] {
            assert!(in_blocks(dtype, 2, Some(block)) == whole, "{dtype:?} {block}");
        }
    }
}

/// float64 runs the composition that other devices run.
#[test]
fn blocks_of_the_composition_agree() {
    let whole = in_blocks(DType::F64, 2, None);
    for block in [1, 16, 100, 209] {
        for (found, expected) in in_blocks(DType::F64, 2, Some(block)).iter().zip(&whole) {
            found.assert_approx_eq::<f64>(expected, burn::tensor::Tolerance::absolute(1e-12));
        }
    }
    assert!(in_blocks(DType::F64, 2, Some(1_000_000)) == whole);
}

/// More positions than a block of queries or keys has.
#[test]
fn attention3d_over_several_blocks() {
    check(1, 32, 1, [6, 8, 9], [5, 8, 11], 0.25);
    check(1, 32, 2, [6, 8, 9], [6, 8, 9], 0.25);
}
