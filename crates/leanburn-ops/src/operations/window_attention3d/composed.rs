//! Attention in windows as a composition of Burn's operations, in blocks of windows.

use burn::tensor::{DType, Int, Tensor, activation::softmax};

use super::geometry::{Geometry, on_device};
use super::inputs::{InputGradients, Inputs};
use crate::numerics::cast_to;

/// The most scores that are held at a time, in elements.
const SCORES_AT_A_TIME: usize = 1 << 22;

/// What the reference implementation adds to the scores of positions that do not attend to each other.
const MASK: f64 = -100.0;

/// The windows of a volume on a device.
struct Windows {
    geometry: Geometry,
    /// Place of each position of each window.
    places: Vec<usize>,
    /// Region of each position of each window.
    regions: Option<Vec<usize>>,
    /// The bias of each query and key, `[1, num_heads, 1, tokens, tokens]`, in the dtype of scores.
    bias: Tensor<5>,
}

/// First window and number of windows of a block.
type Block = (usize, usize);

impl Windows {
    fn of(inputs: &Inputs) -> Self {
        let geometry = inputs.geometry;
        let (tokens, heads) = (geometry.tokens(), geometry.num_heads);
        let rows = on_device(&geometry.rows(), &inputs.table.device());
        let table = cast_to(inputs.table.clone(), dtype_of_scores(inputs.volumes[0].dtype()));
        let bias = table.select(0, rows).swap_dims(0, 1).reshape([1, heads, 1, tokens, tokens]);
        Self { geometry, places: geometry.places(), regions: geometry.regions(), bias }
    }

    fn blocks(&self) -> impl Iterator<Item = Block> {
        let (tokens, windows) = (self.geometry.tokens(), self.geometry.windows());
        let heads = self.geometry.dims[0] * self.geometry.num_heads;
        let scores = heads.saturating_mul(tokens).saturating_mul(tokens);
        let length = (SCORES_AT_A_TIME / scores.max(1)).clamp(1, windows);
        (0..windows).step_by(length).map(move |first| (first, length.min(windows - first)))
    }

    /// The positions of a block out of a volume `[batch_size, channels, positions]` that ends with a position outside, as
    /// `[batch_size, num_heads, windows, head_channels, tokens]`.
    fn gather(&self, volume: &Tensor<3>, (first, length): Block) -> Tensor<5> {
        let ([batch_size, channels, ..], tokens) = (self.geometry.dims, self.geometry.tokens());
        let heads = self.geometry.num_heads;
        let places = on_device(&self.places[first * tokens..(first + length) * tokens], &volume.device());
        let dims = [batch_size, heads, channels / heads, length, tokens];
        volume.clone().select(2, places).reshape(dims).swap_dims(2, 3)
    }

    /// `softmax(scale query^T key + bias + mask)` of a block, `[batch_size, num_heads, windows, queries, keys]`.
    fn weights(&self, query: Tensor<5>, key: Tensor<5>, block: Block) -> Tensor<5> {
        let scores = query.swap_dims(3, 4).matmul(key);
        let dtype = dtype_of_scores(scores.dtype());
        let scores = cast_to(scores, dtype) * self.geometry.scale + self.bias.clone();
        softmax(self.masked(scores, block), 4)
    }

    fn masked(&self, scores: Tensor<5>, (first, length): Block) -> Tensor<5> {
        let Some(regions) = &self.regions else { return scores };
        let tokens = self.geometry.tokens();
        let regions = on_device(&regions[first * tokens..(first + length) * tokens], &scores.device());
        let dims = [1, 1, length, tokens, tokens];
        let queries: Tensor<5, Int> = regions.clone().reshape([1, 1, length, tokens, 1]).expand(dims);
        let keys: Tensor<5, Int> = regions.reshape([1, 1, length, 1, tokens]).expand(dims);
        let mask = Tensor::<5>::zeros(dims, (&scores.device(), scores.dtype()));
        scores + mask.mask_fill(queries.not_equal(keys), MASK)
    }

    /// Blocks `[batch_size, num_heads, windows, head_channels, tokens]` as a volume.
    fn scatter(&self, blocks: Vec<Tensor<5>>) -> Tensor<5> {
        let (dims, positions) = (self.geometry.dims, self.geometry.positions());
        let mut inverse = vec![0; positions];
        let inside = self.places.iter().enumerate().filter(|(_, place)| **place < positions);
        inside.for_each(|(index, place)| inverse[*place] = index);
        let windows = Self::in_order(blocks, dims);
        windows.clone().select(2, on_device(&inverse, &windows.device())).reshape(dims)
    }

    /// The sum of what blocks have outside of the volume, for each channel.
    fn outside(&self, blocks: Vec<Tensor<5>>) -> Tensor<1> {
        let (dims, positions) = (self.geometry.dims, self.geometry.positions());
        let outside: Vec<usize> = (0..self.places.len()).filter(|index| self.places[*index] == positions).collect();
        let windows = Self::in_order(blocks, dims);
        if outside.is_empty() {
            return Tensor::zeros([dims[1]], (&windows.device(), windows.dtype()));
        }
        let places = on_device(&outside, &windows.device());
        windows.select(2, places).sum_dim(2).sum_dim(0).reshape([dims[1]])
    }

    /// Blocks one behind the other, `[batch_size, channels, positions of all windows]`.
    fn in_order(blocks: Vec<Tensor<5>>, [batch_size, channels, ..]: [usize; 5]) -> Tensor<3> {
        let windows = Tensor::cat(blocks, 2).swap_dims(2, 3);
        windows.reshape([batch_size as i64, channels as i64, -1])
    }

    /// The gradient of the table, `[rows, num_heads]`, from that of the biases, `[num_heads, queries * keys]`.
    ///
    /// Each row takes the pairs of queries and keys that it is the bias of, in their order, and adds them up.
    fn table_gradient(&self, biases: Tensor<2>, rows: usize) -> Tensor<2> {
        let (heads, device) = (self.geometry.num_heads, biases.device());
        let mut pairs = vec![Vec::new(); rows];
        self.geometry.rows().into_iter().enumerate().for_each(|(pair, row)| pairs[row].push(pair));
        let most = pairs.iter().map(Vec::len).max().unwrap_or(0);
        let nothing = biases.dims()[1];
        let padded = pairs.into_iter().flat_map(|mut pairs| {
            pairs.resize(most, nothing);
            pairs
        });
        let places = on_device(&padded.collect::<Vec<_>>(), &device);
        let zero = Tensor::zeros([heads, 1], (&device, biases.dtype()));
        let taken = Tensor::cat(vec![biases, zero], 1).select(1, places);
        let sums: Tensor<3> = taken.reshape([heads, rows, most]).sum_dim(2);
        sums.reshape([heads, rows]).swap_dims(0, 1)
    }
}

fn dtype_of_scores(dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { DType::F32 }
}

/// A volume as `[batch_size, channels, positions]`, with the value of positions outside behind them.
fn with_outside(volume: Tensor<5>, outside: Option<Tensor<1>>) -> Tensor<3> {
    let [batch_size, channels, ..] = volume.dims();
    let (device, dtype) = (volume.device(), volume.dtype());
    let flat: Tensor<3> = volume.reshape([batch_size as i64, channels as i64, -1]);
    let outside = match outside {
        Some(outside) => cast_to(outside, dtype).reshape([1, channels, 1]).expand([batch_size, channels, 1]),
        None => Tensor::zeros([batch_size, channels, 1], (&device, dtype)),
    };
    Tensor::cat(vec![flat, outside], 2)
}

/// Queries, keys and values with the positions outside.
fn all_with_outside(
    [query, key, value]: [Tensor<5>; 3],
    [outer_key, outer_value]: [Option<Tensor<1>>; 2],
) -> [Tensor<3>; 3] {
    [with_outside(query, None), with_outside(key, outer_key), with_outside(value, outer_value)]
}

/// The output.
pub(super) fn forward(inputs: Inputs) -> Tensor<5> {
    let windows = Windows::of(&inputs);
    let volumes = all_with_outside(inputs.volumes, inputs.padding);
    let attend = |block: Block| {
        let [query, key, value] = volumes.each_ref().map(|volume| windows.gather(volume, block));
        let weights = cast_to(windows.weights(query, key, block), value.dtype());
        value.matmul(weights.swap_dims(3, 4))
    };
    windows.scatter(windows.blocks().map(attend).collect())
}

/// The gradients.
pub(super) fn backward(inputs: Inputs, gradient: Tensor<5>) -> InputGradients {
    let windows = Windows::of(&inputs);
    let (geometry, dtype) = (windows.geometry, gradient.dtype());
    let (rows, table_dtype) = (inputs.table.dims()[0], inputs.table.dtype());
    let dtypes = inputs.padding.each_ref().map(|vector| vector.as_ref().map(|vector| vector.dtype()));
    let volumes = all_with_outside(inputs.volumes, inputs.padding);
    let gradient = with_outside(gradient, None);
    let (mut gathered, mut biases) = ([const { Vec::new() }; 3], None);
    for block in windows.blocks() {
        let [query, key, value] = volumes.each_ref().map(|volume| windows.gather(volume, block));
        let gradient = windows.gather(&gradient, block);
        let weights = windows.weights(query.clone(), key.clone(), block);
        gathered[2].push(gradient.clone().matmul(cast_to(weights.clone(), dtype)));
        let along = cast_to(gradient.swap_dims(3, 4).matmul(value), weights.dtype());
        let mean = (along.clone() * weights.clone()).sum_dim(4);
        let scores = (along - mean) * weights;
        let bias = scores.clone().sum_dim(2).sum_dim(0);
        biases = Some(match biases.take() {
            None => bias,
            Some(biases) => biases + bias,
        });
        let scores = cast_to(scores * geometry.scale, dtype);
        gathered[0].push(key.matmul(scores.clone().swap_dims(3, 4)));
        gathered[1].push(query.matmul(scores));
    }
    let biases: Tensor<5> = biases.expect("a volume has a window");
    let biases = biases.reshape([geometry.num_heads as i64, -1]);
    let outside = [1, 2]
        .map(|index: usize| dtypes[index - 1].map(|dtype| cast_to(windows.outside(gathered[index].clone()), dtype)));
    InputGradients {
        volumes: gathered.map(|blocks| windows.scatter(blocks)),
        table: cast_to(windows.table_gradient(biases, rows), table_dtype),
        padding: outside,
    }
}
