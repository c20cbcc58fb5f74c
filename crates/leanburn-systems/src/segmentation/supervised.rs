//! A model that is trained at several levels of its decoder.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_nn::blocks::{Conv3d, Conv3dConfig};
use leanburn_nn::models::DecoderLevel;
use leanburn_nn::weights::{IntegerBuffer, MonaiWeights};

use super::network::Network;

/// A model with heads for [deep supervision](leanburn_nn::losses::deep_supervision_loss): a convolution of one voxel to the
/// classes at each level of the decoder that has a loss. Without heads it is the model.
///
/// Heads are there for training alone. They are in checkpoints, not in the weights of a run, which are the model's.
///
/// # Memory
///
/// Saved for backward: the gradients of the coarser logits; an eighth of those of the finest for the first head where levels halve.
#[derive(Module, Debug)]
pub struct SupervisedNetwork {
    /// The model.
    pub network: Network,
    heads: Vec<Conv3d>,
}

impl SupervisedNetwork {
    /// A model with heads for these levels of its decoder, the finest first.
    pub fn new(network: Network, levels: &[DecoderLevel], num_classes: usize, device: &Device) -> Self {
        let head = |level: &DecoderLevel| Conv3dConfig::new([level.channels, num_classes], 1).init(device);
        Self { network, heads: levels.iter().map(head).collect() }
    }

    /// The logits of each level, the finest first.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - outputs: `[batch_size, num_classes, ..]`, each axis divided by the `downsampling` of its level
    ///
    /// # Panics
    ///
    /// As [`Network::forward`].
    pub fn forward(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        let mut levels = self.network.forward_levels(x, self.heads.len()).into_iter();
        let logits = levels.next();
        let coarser = self.heads.iter().zip(levels).map(|(head, level)| head.forward(level));
        logits.into_iter().chain(coarser).collect()
    }
}

impl MonaiWeights for SupervisedNetwork {
    /// The model's parameters have the model's names.
    fn monai_name(path: &str) -> String {
        path.strip_prefix("network.").map_or_else(|| path.to_string(), Network::monai_name)
    }

    fn is_spare(name: &str) -> bool {
        Network::is_spare(name)
    }

    fn integer_buffers(&self) -> Vec<IntegerBuffer> {
        self.network.integer_buffers()
    }
}
