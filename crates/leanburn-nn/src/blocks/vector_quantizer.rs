//! A codebook: each position of a latent becomes the nearest of a few vectors.

use burn::config::Config;
use burn::module::{Flag, Module, Param, RunningState};
use burn::tensor::{Device, Int, Tensor, assert_shape};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::numerics::{cast_to, widen};
use leanburn_ops::{random, sum_over_ranks};

use super::batch_norm::on;
use crate::validation::Rules;

/// Distances, or assignments, that are there at one time.
const BLOCK: usize = 1 << 18;

/// Configuration of [`VectorQuantizer`].
#[derive(Config, Debug, PartialEq)]
pub struct VectorQuantizerConfig {
    /// Vectors of the codebook.
    pub num_embeddings: usize,
    /// Channels of each of them, and of the latent.
    pub embedding_dim: usize,
    /// Weight of the commitment loss.
    #[config(default = 0.25)]
    pub commitment_cost: f64,
    /// How much of the codebook's averages stays in a step.
    #[config(default = 0.5)]
    pub decay: f64,
    /// Added to the use of each vector, so that none is divided by zero.
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Vectors used less than this share of the average are put where the latent is; `None` for never.
    #[config(default = "None")]
    pub restart_below: Option<f64>,
}

impl VectorQuantizerConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("num_embeddings", self.num_embeddings), ("embedding_dim", self.embedding_dim)]);
        validation.weight("commitment_cost", self.commitment_cost);
        validation.below_one("decay", self.decay);
        validation.positive("epsilon", self.epsilon, "use 1e-5");
        validation.below_one("restart_below", self.restart_below.unwrap_or(0.0));
        validation.errors()
    }

    /// Makes the layer, the codebook standard normal.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> VectorQuantizer {
        panic_if_invalid("VectorQuantizer", &self.validate());
        let embedding = random::normal([self.num_embeddings, self.embedding_dim], device);
        VectorQuantizer {
            ema_cluster_size: RunningState::new(Tensor::zeros([self.num_embeddings], device)),
            ema_w: RunningState::new(embedding.clone()),
            embedding: RunningState::new(embedding),
            training: Param::from_bool(true),
            config: self.clone(),
        }
    }
}

/// Replaces the latent at each position by the nearest vector of a codebook.
///
/// Source: [Neural Discrete Representation Learning](https://arxiv.org/abs/1711.00937). The gradient goes straight through
/// to the latent, and the commitment loss keeps the latent near the codebook. The codebook has no gradient: in training
/// each vector moves to a running average of what it was nearest to (appendix A.1 there), equal to MONAI's
/// `EMAQuantizer`. Vectors that nothing is near to can be put where the latent is, as in
/// [Jukebox](https://arxiv.org/abs/2005.00341).
///
/// As with batch norm, training is on an autodiff device unless frozen, and a recomputed segment moves the codebook once.
/// Restarts draw under a key of their segment ([`random`]), the same with every residency.
///
/// # Several processes
///
/// The codebook moves to the averages of this process's latent, or of those of all, where they [are summed](leanburn_ops::with_rank_sums):
/// the same as of one batch with the items of all, to 1e-6. Restarts draw from this process's latent.
///
/// # Memory
///
/// Saved for backward: the difference of latent and codebook, in float32. The distances, `positions * num_embeddings` of
/// them, stand block by block, 1 MiB at a time.
///
/// # Numerics
///
/// In float32 regardless of the dtype of the latent.
#[derive(Module, Debug)]
pub struct VectorQuantizer {
    embedding: RunningState<Tensor<2>>,
    ema_cluster_size: RunningState<Tensor<1>>,
    ema_w: RunningState<Tensor<2>>,
    training: Param<Flag>,
    #[module(skip)]
    config: VectorQuantizerConfig,
}

impl VectorQuantizer {
    /// What the layer was made from.
    pub fn config(&self) -> &VectorQuantizerConfig {
        &self.config
    }

    /// The quantised latent and the commitment loss, `commitment_cost * mean (codebook - latent)^2`.
    ///
    /// # Shapes
    ///
    /// - input and first output: `[batch_size, embedding_dim, depth, height, width]`
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `embedding_dim` channels.
    pub fn forward(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<1>) {
        let (dtype, is_training) = (x.dtype(), x.device().is_autodiff() && self.training.is_enabled());
        let x = widen(x);
        let codes = self.codes(x.clone());
        let quantized = self.embed(codes.clone());
        if is_training {
            self.update(rows(x.clone().detach()), codes.reshape([-1]));
        }
        let loss = (quantized.clone() - x.clone()).square().mean() * self.config.commitment_cost;
        let quantized = x.clone() + (quantized - x).detach();
        (cast_to(quantized, dtype), loss)
    }

    /// The index of the nearest vector.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, embedding_dim, depth, height, width]`
    /// - output: `[batch_size, depth, height, width]`
    pub fn codes(&self, x: Tensor<5>) -> Tensor<4, Int> {
        let embedding_dim = self.config.embedding_dim;
        assert_shape!(x, [_, embedding_dim, ..]);
        let [batch_size, _, depth, height, width] = x.dims();
        let codebook = on(&x.device(), self.embedding.value_sync());
        let rows = rows(widen(x).detach());
        // |x - e|^2 less |x|^2, which is the same for all vectors.
        let lengths: Tensor<2> = codebook.clone().square().sum_dim(1).transpose();
        let towards = codebook.transpose() * -2.0;
        let nearest = self.blocks(rows.dims()[0]).map(|(start, length)| {
            let distances = rows.clone().narrow(0, start, length).matmul(towards.clone()) + lengths.clone();
            distances.argmin(1)
        });
        Tensor::cat(nearest.collect(), 0).reshape([batch_size, depth, height, width])
    }

    /// The vectors of a codebook by their indices.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, depth, height, width]`
    /// - output: `[batch_size, embedding_dim, depth, height, width]`
    pub fn embed(&self, codes: Tensor<4, Int>) -> Tensor<5> {
        let [batch_size, depth, height, width] = codes.dims();
        let codebook = on(&codes.device(), self.embedding.value_sync());
        let vectors = codebook.select(0, codes.reshape([-1]));
        vectors.reshape([batch_size, depth, height, width, self.config.embedding_dim]).permute([0, 4, 1, 2, 3])
    }

    /// How many vectors are in use: `exp(-sum p log p)` of their running use `p`, of shape `[1]`.
    pub fn perplexity(&self) -> Tensor<1> {
        let uses = self.ema_cluster_size.value_sync();
        let shares = uses.clone() / uses.sum().clamp_min(self.config.epsilon);
        (shares.clone() * (shares + 1e-10).log()).sum().neg().exp()
    }

    /// Runs of positions whose distances are small enough to be there at one time.
    fn blocks(&self, positions: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let length = (BLOCK / self.config.num_embeddings).max(1);
        (0..positions).step_by(length).map(move |start| (start, length.min(positions - start)))
    }

    /// Moves the codebook to the running averages of what it was nearest to.
    fn update(&self, rows: Tensor<2>, codes: Tensor<1, Int>) {
        let device = rows.device();
        let VectorQuantizerConfig { num_embeddings, decay, epsilon, .. } = self.config;
        let (uses, sums) = self.assigned(&rows, codes);
        let (uses, sums) = (sum_over_ranks(uses), sum_over_ranks(sums));
        let mut uses = on(&device, self.ema_cluster_size.value_sync()) * decay + uses * (1.0 - decay);
        let mut sums = on(&device, self.ema_w.value_sync()) * decay + sums * (1.0 - decay);
        let total = uses.clone().sum();
        let smoothed = (uses.clone() + epsilon) / (total.clone() + num_embeddings as f64 * epsilon) * total.clone();
        let mut codebook = sums.clone() / smoothed.unsqueeze_dim(1);
        if let Some(share) = self.config.restart_below {
            let average = total / num_embeddings as f64;
            let unused = uses.clone().lower(average.clone() * share);
            let start = self.drawn(rows);
            let each = unused.clone().unsqueeze_dim::<2>(1).expand(codebook.dims());
            sums = sums.mask_where(each.clone(), start.clone() * average.clone().unsqueeze());
            codebook = codebook.mask_where(each, start);
            uses = uses.mask_where(unused, average.expand([num_embeddings]));
        }
        settle(&self.ema_cluster_size, uses);
        settle(&self.ema_w, sums);
        settle(&self.embedding, codebook);
    }

    /// How many rows each vector is nearest to, and their sum; products, so that it is the same on every run.
    fn assigned(&self, rows: &Tensor<2>, codes: Tensor<1, Int>) -> (Tensor<1>, Tensor<2>) {
        let vectors = Tensor::<1, Int>::arange(0..self.config.num_embeddings as i64, &rows.device()).unsqueeze::<2>();
        let parts = self.blocks(rows.dims()[0]).map(|(start, length)| {
            let codes: Tensor<2, Int> = codes.clone().narrow(0, start, length).unsqueeze_dim(1);
            let shape = [length, self.config.num_embeddings];
            let assignments = codes.expand(shape).equal(vectors.clone().expand(shape)).float();
            let uses: Tensor<1> = assignments.clone().sum_dim(0).reshape([-1]);
            (uses, assignments.transpose().matmul(rows.clone().narrow(0, start, length)))
        });
        parts
            .reduce(|(uses, sums), (more_uses, more_sums)| (uses + more_uses, sums + more_sums))
            .expect("some positions")
    }

    /// A row drawn at random for each vector.
    fn drawn(&self, rows: Tensor<2>) -> Tensor<2> {
        let last = rows.dims()[0] - 1;
        let uniform = random::uniform([self.config.num_embeddings], &rows.device());
        let positions = (uniform * (last + 1) as f64).int().clamp(0, last as i64);
        rows.select(0, positions)
    }
}

/// One row for each position.
fn rows(x: Tensor<5>) -> Tensor<2> {
    let channels = x.dims()[1];
    x.permute([0, 2, 3, 4, 1]).reshape([-1, channels as i64])
}

/// Sets a running state at once; else the update stays pending until the next forward.
fn settle<const D: usize>(state: &RunningState<Tensor<D>>, value: Tensor<D>) {
    state.update(value.detach());
    state.value_sync();
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;
    use crate::validation::keys;

    fn quantizer(device: &Device, restart_below: Option<f64>) -> VectorQuantizer {
        let config = VectorQuantizerConfig::new(3, 1).with_restart_below(restart_below);
        let mut quantizer = config.init(device);
        let codebook = Tensor::<2>::from_floats([[0.0], [1.0], [50.0]], device);
        quantizer.embedding = RunningState::new(codebook.clone());
        quantizer.ema_w = RunningState::new(codebook);
        quantizer
    }

    fn latent(values: [f32; 4], device: &Device) -> Tensor<5> {
        Tensor::<1>::from_floats(values, device).reshape([2, 1, 1, 1, 2])
    }

    fn vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_to_vec().unwrap()
    }

    #[test]
    fn each_position_becomes_the_nearest_vector() {
        let device = Device::flex();
        let quantizer = quantizer(&device, None);
        let (y, loss) = quantizer.forward(latent([0.25, 0.75, -3.0, 1.5], &device));
        assert_eq!(vec(y), [0.0, 1.0, 0.0, 1.0]);
        assert_eq!(loss.into_scalar::<f32>(), 0.25 * (0.0625 + 0.0625 + 9.0 + 0.25) / 4.0);
        let codes = quantizer.codes(latent([0.25, 0.75, -3.0, 40.0], &device));
        assert_eq!(codes.dims(), [2, 1, 1, 2]);
        assert_eq!(codes.into_data().convert::<i32>().try_to_vec::<i32>().unwrap(), [0, 1, 0, 2]);
        assert_eq!(vec(quantizer.embedding.value()), [0.0, 1.0, 50.0], "without autodiff nothing moves");
    }

    #[test]
    fn the_gradient_goes_straight_through() {
        let device = Device::flex().autodiff();
        let x = latent([0.25, 0.75, -3.0, 1.5], &device).require_grad();
        let (y, loss) = quantizer(&device, None).forward(x.clone());
        let factor = latent([1.0, 2.0, 3.0, 4.0], &device);
        let gradient = vec(x.grad(&((y * factor).sum() + loss).backward()).unwrap());
        let commitment = [0.25, -0.25, -3.0, 0.5].map(|difference| 0.25 * 2.0 * difference / 4.0);
        let expected: Vec<f32> = [1.0, 2.0, 3.0, 4.0].iter().zip(commitment).map(|(a, b)| a + b).collect();
        assert_eq!(gradient, expected);
    }

    #[test]
    fn what_nothing_is_near_to_is_put_where_the_latent_is() {
        let device = Device::flex().autodiff();
        let values = [0.25, 0.75, -3.0, 1.5];
        for (restart_below, restarts) in [(None, false), (Some(0.1), true)] {
            let quantizer = quantizer(&device, restart_below);
            quantizer.forward(latent(values, &device));
            let codebook = vec(quantizer.embedding.value());
            assert_eq!(values.contains(&codebook[2]), restarts, "{codebook:?}");
            assert!(!values.contains(&codebook[0]), "a vector in use is the average of what it is nearest to");
            let uses = vec(quantizer.ema_cluster_size.value());
            assert_eq!(uses, [1.0, 1.0, if restarts { 2.0 / 3.0 } else { 0.0 }]);
        }
    }

    #[test]
    fn blocks_change_nothing_but_the_memory() {
        let device = Device::flex().autodiff();
        let config = VectorQuantizerConfig::new(BLOCK / 7, 2);
        let quantizer = config.init(&device);
        assert_eq!(quantizer.blocks(16).collect::<Vec<_>>(), [(0, 7), (7, 7), (14, 2)]);
        let x = Tensor::<5>::random([1, 2, 4, 2, 2], Distribution::Normal(0.0, 1.0), &device);
        let codes = quantizer.codes(x.clone());
        for position in 0..4 {
            let one = quantizer.codes(x.clone().narrow(2, position, 1)).into_data();
            assert_eq!(codes.clone().narrow(1, position, 1).into_data(), one);
        }
        quantizer.forward(x);
        assert_eq!(quantizer.ema_cluster_size.value().sum().into_scalar::<f32>(), 8.0);
    }

    #[test]
    fn perplexity_counts_the_vectors_in_use() {
        let device = Device::flex().autodiff();
        let quantizer = quantizer(&device, None);
        quantizer.forward(latent([0.25, 0.75, -3.0, 1.5], &device));
        assert!((quantizer.perplexity().into_scalar::<f32>() - 2.0).abs() < 1e-5);
    }

    #[test]
    fn each_error_is_found() {
        let valid = || VectorQuantizerConfig::new(8, 4);
        let fields = |config: VectorQuantizerConfig| keys(config.validate());
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(VectorQuantizerConfig::new(0, 0)), ["num_embeddings", "embedding_dim"]);
        assert_eq!(fields(valid().with_commitment_cost(f64::NAN)), ["commitment_cost"]);
        assert_eq!(fields(valid().with_decay(1.0)), ["decay"]);
        assert_eq!(fields(valid().with_epsilon(0.0)), ["epsilon"]);
        assert_eq!(fields(valid().with_restart_below(Some(1.0))), ["restart_below"]);
    }
}
