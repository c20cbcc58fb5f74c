//! Attention between the positions of two volumes.

use leanburn_ops::attention3d;
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

/// More positions than a block of queries or keys has.
#[test]
fn attention3d_over_several_blocks() {
    check(1, 32, 1, [6, 8, 9], [5, 8, 11], 0.25);
    check(1, 32, 2, [6, 8, 9], [6, 8, 9], 0.25);
}
