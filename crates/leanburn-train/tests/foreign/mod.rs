//! Models of Burn's layers, as somebody writes them who has never heard of this library, and their training.

mod images;
mod loops;
mod sequences;
mod vectors;
mod volumes;

use burn::module::Module;
use burn::prelude::*;
use leanburn_ops::Tensors;
use leanburn_train::{
    AnyLearner, Learner, LearnerConfig, Losses, StepPosition, TrainError, Trainer, TrainerConfig, Workload,
};

pub use crate::peak::numbers;
pub use images::{Autoencoder, Classifier, VisionTransformer};
pub use loops::{DeepEnsemble, Refiner};
pub use sequences::{Dilated, Language, Recurrent, Sequence, Transformer};
pub use vectors::{Half, Perceptron, WholeNumbers};
pub use volumes::UNet;

/// A model, its batches and its loss.
pub trait Foreign: Module {
    type Batch: Tensors + Clone;

    /// Items of a small batch, and of one whose step takes more than 10 MiB.
    const SIZES: [usize; 2];

    fn new(device: &Device) -> Self;

    fn batch(size: usize, device: &Device) -> Self::Batch;

    fn loss(&self, batch: Self::Batch) -> Tensor<1>;
}

/// The training of such a model.
pub struct Training<M: Foreign>(Learner<M>);

impl<M: Foreign> Training<M> {
    pub fn trainer(device: &Device) -> Result<Trainer<Self>, TrainError> {
        let learner = Learner::new("model", M::new(device), LearnerConfig::default())?;
        Ok(Trainer::new(Self(learner), TrainerConfig::default(), device))
    }
}

impl<M: Foreign> Workload for Training<M> {
    type Batch = M::Batch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, batch: &M::Batch, _position: StepPosition) -> Option<Losses> {
        Some(Losses::of(self.0.module().loss(batch.clone()), Vec::new()))
    }
}

/// Classes, or tokens, below `count`.
pub fn classes<const D: usize>(dims: [usize; D], count: usize, device: &Device) -> Tensor<D, Int> {
    let values: Vec<i64> = (0..dims.iter().product()).map(|index: usize| (index * 37 % count) as i64).collect();
    Tensor::from_data(TensorData::new(values, dims), device)
}
