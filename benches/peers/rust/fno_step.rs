//! Training steps of the Fourier neural operator; the same as `pytorch/fno_step.py`.

use burn::tensor::Device;
use clap::Args;
use leanburn::nn::losses::l2_loss;
use leanburn::nn::models::FnoConfig;

use crate::training_step::{Subject, Training};
use crate::values::tensor;

#[derive(Args)]
pub struct Arguments {
    /// Positions of the grid along each axis; one to three axes.
    #[arg(long, num_args = 1..=3, required = true)]
    shape: Vec<usize>,
    /// Fields at a time.
    #[arg(long)]
    batch_size: usize,
    /// Channels of the layers.
    #[arg(long)]
    width: usize,
    /// Frequencies of each sign along each axis.
    #[arg(long)]
    modes: usize,
    #[arg(long)]
    layers: usize,
    #[command(flatten)]
    training: Training,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { shape, batch_size, width, modes, layers, training } = arguments;
    let device = Device::flex().autodiff();
    let config = FnoConfig::new(1, 1, vec![*width; layers + 1], vec![vec![*modes; shape.len()]; *layers]);
    let mut field = [*batch_size, 1, 1, 1, 1];
    field[5 - shape.len()..].copy_from_slice(shape);
    config.check_input(field)?;
    let [x, target] = [7, 17].map(|salt| tensor(field, salt, 1.0, &device));
    let model = config.init(&device).with_residency(training.residency());
    let subject = Subject { name: "operator", model, mode: training.mode(), burn: false };
    training.steps(subject, |model| l2_loss(model.forward(training.precision().cast(x.clone())), target.clone()).into())
}
