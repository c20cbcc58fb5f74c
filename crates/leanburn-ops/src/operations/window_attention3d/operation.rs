//! Attention inside the windows of a volume in memory that grows with its positions, not with the scores of its windows.

use burn::tensor::Tensor;
use leanburn_kernels::attention::window::WindowShape;

use super::computations::{Backward, Forward};
use super::geometry::Geometry;
use super::inputs::Inputs;
use crate::engine::run;
use crate::operations::check::{
    assert_dims, assert_dtype, assert_not_empty, assert_parameter, assert_per_channel, assert_volume, valid,
};
use crate::operations::operation::{AnyTensor, Operation, apply};

/// How the positions of a volume attend to each other in windows.
#[derive(Clone, Debug)]
pub struct WindowAttention {
    /// Heads, a divisor of the channels.
    pub num_heads: usize,
    /// Depth, height and width of a window.
    pub window: [usize; 3],
    /// Where the first window begins, less than a window from the first voxel.
    pub shift: [usize; 3],
    /// Multiplies the scores, usually `1 / sqrt(channels / num_heads)`.
    pub scale: f64,
    /// The bias of each relative position, `[(2 depth - 1) (2 height - 1) (2 width - 1), num_heads]` of the window.
    pub table: Tensor<2>,
    /// The key and the value of positions outside of the volume, `[channels]` each; zeros if there are none.
    pub padding: [Option<Tensor<1>>; 2],
}

/// Softmax attention of the positions of a volume inside of windows, `softmax(scale Q^T K + bias + mask) V`, head by head.
///
/// The windows of [Swin Transformer](https://arxiv.org/abs/2103.14030), with the semantics of MONAI's `WindowAttention`:
///
/// - Along an axis that is no longer than the window, the window is the axis, and not shifted. Its biases are those of the first
///   positions of the full window.
/// - Windows begin at the shift. The last one of a shifted axis is made of both ends of the axis; -100 is added to scores between them.
/// - Where the windows reach beyond the volume, positions have the key and value of `padding`, and take part.
///
/// Windows in two dimensions are those of a volume of depth one.
///
/// # Shapes
///
/// - query, key, value and output: `[batch_size, channels, depth, height, width]`, no axis empty; head `h` has channels `h channels /
///   num_heads` and up
///
/// # Memory
///
/// Saved for backward: queries, keys, values and the output, shared with their producers, and 4 bytes for each query of each head.
/// Scores, biases and mask are made tile by tile. Workspace on the CPU: below 1 MiB for each thread with windows of 7 x 7 x 7
/// and heads of 32 channels, and in backward 8 bytes for each row of the table in each of 64 tasks; elsewhere a few blocks of
/// windows with at most 16 MiB of scores.
///
/// # Numerics
///
/// Softmax and its statistics in float32 regardless of the dtype; on the CPU the products too. On the CPU gradients do not depend
/// on the number of threads, bit for bit; that of the table is added up in float64.
///
/// # Panics
///
/// Panics if an axis is empty (an empty batch too), shapes or dtypes do not go together, there are no heads or they do not divide
/// the channels, a shift is not shorter than the window, or a volume takes more than 128 TiB.
#[must_use]
pub fn window_attention3d(query: Tensor<5>, key: Tensor<5>, value: Tensor<5>, attention: WindowAttention) -> Tensor<5> {
    check(&query, &key, &value, &attention);
    let dims = query.dims();
    let WindowAttention { num_heads, window, shift, scale, table, padding: [outer_key, outer_value] } = attention;
    let inputs = [query.into(), key.into(), value.into(), table.into(), outer_key.into(), outer_value.into()];
    apply(inputs, |[query, key, value, table, outer_key, outer_value], _| {
        let inputs = Inputs {
            volumes: [query, key, value].map(AnyTensor::given),
            table: table.given(),
            padding: [outer_key, outer_value].map(AnyTensor::optional),
            geometry: Geometry { dims, num_heads, window, shift, scale },
        };
        let (output, log_sum_exp) = run(Forward(inputs.clone()));
        (output.clone(), Attended { inputs, output: log_sum_exp.map(|log_sum_exp| (output, log_sum_exp)) })
    })
}

/// Panics if these are no queries, keys and values of such an attention.
fn check(query: &Tensor<5>, key: &Tensor<5>, value: &Tensor<5>, attention: &WindowAttention) {
    const OPERATION: &str = "window_attention3d";
    let WindowAttention { num_heads, window, shift, table, padding, .. } = attention;
    for (name, volume) in [("query", query), ("key", key), ("value", value)] {
        assert_not_empty(OPERATION, name, volume);
        assert_volume(OPERATION, name, volume, query.dims());
        assert_dtype(OPERATION, name, volume, query.dtype());
    }
    let [batch_size, channels, volume @ ..] = query.dims();
    assert!(
        *num_heads > 0 && channels.is_multiple_of(*num_heads),
        "{OPERATION}: num_heads is {num_heads}, expected a number that divides {channels} channels"
    );
    let heads = [batch_size, *num_heads, channels / num_heads];
    let shape = valid(OPERATION, WindowShape::new(heads, volume, [*window, *shift], 1.0));
    let rows = [("relative positions", shape.table_rows()), ("num_heads", *num_heads)];
    assert_dims(OPERATION, "table", table, rows);
    assert_parameter(OPERATION, "table", table, query.dtype());
    for (name, vector) in ["padding of the key", "padding of the value"].into_iter().zip(padding) {
        assert_per_channel(OPERATION, name, vector.as_ref(), channels, query.dtype());
    }
}

/// What [`window_attention3d`] saves.
#[derive(Clone, Debug)]
struct Attended {
    inputs: Inputs,
    /// The output and its statistics, where backward uses them.
    output: Option<(Tensor<5>, Tensor<2>)>,
}

impl Operation<6> for Attended {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 6]) -> [AnyTensor; 6] {
        let Self { inputs, output } = self;
        let gradients = run(Backward { inputs, output, gradient });
        let [query, key, value] = gradients.volumes.map(AnyTensor::from);
        let [outer_key, outer_value] = gradients.padding.map(AnyTensor::from);
        [query, key, value, gradients.table.into(), outer_key, outer_value]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        self.inputs.volumes.iter_mut().for_each(&mut *exchange);
        if let Some((output, _)) = &mut self.output {
            exchange(output);
        }
    }
}
