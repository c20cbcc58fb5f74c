//! Attention in windows, and the layer norm that stands before it.

use burn::prelude::*;
use leanburn_ops::{WindowAttention, layer_norm3d, window_attention3d};
use proptest::prelude::*;

use crate::case::{Case, Inputs, cases};
use crate::plain;

/// An attention in windows without its tensors.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    pub dims: [usize; 5],
    pub num_heads: usize,
    pub window: [usize; 3],
    pub shift: [usize; 3],
    pub is_padded: bool,
}

impl Windows {
    fn rows(&self) -> usize {
        self.window.iter().map(|length| 2 * length - 1).product()
    }

    pub fn case(&self) -> Case {
        let padding = if self.is_padded { 2 } else { 0 };
        let vectors = [vec![self.rows() * self.num_heads], vec![self.dims[1]; padding]].concat();
        Case { volumes: vec![self.dims; 3], vectors, ..Case::default() }
    }

    /// Query, key, value, and the attention of them.
    pub fn given(&self, (volumes, _, vectors): Inputs) -> ([Tensor<5>; 3], WindowAttention) {
        let mut vectors = vectors.into_iter();
        let table = vectors.next().expect("a table").reshape([self.rows(), self.num_heads]);
        let attention = WindowAttention {
            num_heads: self.num_heads,
            window: self.window,
            shift: self.shift,
            scale: 0.5,
            table,
            padding: [0; 2].map(|_| vectors.next()),
        };
        (volumes.try_into().expect("query, key and value"), attention)
    }

    pub fn run(&self, inputs: Inputs) -> Tensor<5> {
        let ([query, key, value], attention) = self.given(inputs);
        window_attention3d(query, key, value, attention)
    }

    fn run_plain(&self, inputs: Inputs) -> Tensor<5> {
        let (volumes, attention) = self.given(inputs);
        plain::window_attention3d(volumes, attention)
    }

    fn check(self) {
        self.case().check(move |inputs| self.run(inputs), move |inputs| self.run_plain(inputs));
    }
}

#[test]
fn window_attention3d_in_half_precision() {
    let windows = Windows { dims: [1, 16, 5, 6, 7], num_heads: 2, window: [4; 3], shift: [2; 3], is_padded: true };
    windows.case().check_half(&move |inputs| windows.run(inputs), &move |inputs| windows.run_plain(inputs), 4.0);
}

/// The window of the reference, on a volume where it is whole, shifted, cut off by the volume's end and shrunken.
#[test]
fn window_attention3d_with_the_window_of_the_reference() {
    for volume in [[8, 3, 7], [1, 9, 14]] {
        let dims = [1, 6, volume[0], volume[1], volume[2]];
        Windows { dims, num_heads: 2, window: [7; 3], shift: [3; 3], is_padded: true }.check();
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn window_attention3d_of_any_shape(
        batch_size in 1usize..3,
        num_heads in 1usize..3,
        head_channels in 1usize..7,
        // A window of one position has no gradient of its query.
        size in [1usize..7, 1usize..7, 2usize..7],
        window in [1usize..4, 1usize..5, 2usize..5],
        shift in [0usize..4, 0usize..5, 0usize..5],
        is_padded in any::<bool>(),
    ) {
        let dims = [batch_size, num_heads * head_channels, size[0], size[1], size[2]];
        let shift = std::array::from_fn(|axis| shift[axis] % window[axis]);
        Windows { dims, num_heads, window, shift, is_padded }.check();
    }

    #[test]
    fn layer_norm3d_of_any_shape(
        batch_size in 1usize..4,
        channels in 2usize..20,
        size in [1usize..5, 1usize..5, 1usize..30],
        affine in any::<[bool; 2]>(),
    ) {
        let case = Case {
            volumes: vec![[batch_size, channels, size[0], size[1], size[2]]],
            vectors: affine.into_iter().filter(|there| *there).map(|_| channels).collect(),
            ..Case::default()
        };
        let given = move |(x, _, vectors): Inputs| {
            let mut vectors = vectors.into_iter();
            let [weight, bias] = affine.map(|there| there.then(|| vectors.next().expect("as many as the case has")));
            (x[0].clone(), weight, bias)
        };
        case.check(
            move |inputs| {
                let (x, weight, bias) = given(inputs);
                layer_norm3d(x, weight, bias, 0.125)
            },
            move |inputs| {
                let (x, weight, bias) = given(inputs);
                plain::layer_norm3d(x, weight, bias, 0.125)
            },
        );
    }
}
