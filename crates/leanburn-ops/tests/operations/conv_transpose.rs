//! Transposed convolution.

use burn::tensor::{module, ops::ConvTransposeOptions};
use leanburn_ops::conv_transpose3d;
use proptest::prelude::*;

use crate::case::{Case, cases};

/// Size, kernel, stride, dilation, and padding before and at the end that leave something of the axis.
fn axis() -> impl Strategy<Value = [usize; 6]> {
    (1usize..5, 1usize..5, 1usize..4, 1usize..3, 0usize..3, 0usize..3).prop_map(
        |(size, kernel, stride, dilation, padding, padding_out)| {
            let grown = (size - 1) * stride + dilation * (kernel - 1) + 1;
            [size, kernel, stride, dilation, padding.min((grown - 1) / 2), padding_out % stride]
        },
    )
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn conv_transpose3d_of_any_geometry(
        batch_size in 1usize..3,
        groups in 1usize..4,
        per_group in [1usize..5, 1usize..6],
        axes in [axis(), axis(), axis()],
        bias in any::<bool>(),
    ) {
        let [size, kernel, stride, dilation, padding, padding_out] = std::array::from_fn(|of| axes.map(|axis| axis[of]));
        let options = ConvTransposeOptions::new(stride, padding, padding_out, dilation, groups);
        let [channels_in, channels_out] = per_group.map(|channels| channels * groups);
        let case = Case {
            volumes: vec![[batch_size, channels_in, size[0], size[1], size[2]]],
            kernels: vec![[channels_in, per_group[1], kernel[0], kernel[1], kernel[2]]],
            vectors: if bias { vec![channels_out] } else { Vec::new() },
            ..Case::default()
        };
        let plainly = options.clone();
        case.check(
            move |(x, kernels, vectors)| {
                conv_transpose3d(x[0].clone(), kernels[0].clone(), vectors.first().cloned(), options.clone())
            },
            move |(x, kernels, vectors)| {
                module::conv_transpose3d(x[0].clone(), kernels[0].clone(), vectors.first().cloned(), plainly.clone())
            },
        );
    }
}
