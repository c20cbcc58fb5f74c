//! Training steps of Swin UNETR; the same as `pytorch/swin_unetr_step.py`.

use burn::tensor::{Device, Int, Tensor, TensorData};
use clap::Args;
use leanburn::nn::losses::DiceCeLoss;
use leanburn::nn::models::SwinUnetrConfig;

use crate::training_step::{Subject, Training};
use crate::values::tensor;

#[derive(Args)]
pub struct Arguments {
    /// Voxels along depth, height and width.
    #[arg(long, num_args = 3, required = true)]
    shape: Vec<usize>,
    #[arg(long)]
    feature_size: usize,
    #[arg(long)]
    in_channels: usize,
    #[arg(long)]
    classes: usize,
    #[command(flatten)]
    training: Training,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let training = &arguments.training;
    let device = Device::flex().autodiff();
    let config =
        SwinUnetrConfig::new(arguments.in_channels, arguments.classes).with_feature_size(arguments.feature_size);
    let volume = [1, arguments.in_channels, arguments.shape[0], arguments.shape[1], arguments.shape[2]];
    config.check_input(volume)?;
    let (x, labels) = (tensor(volume, 7, 1.0, &device), labels(arguments, &device));
    let model = config.init(&device).with_residency(training.residency());
    let subject = Subject { name: "swin_unetr", model, mode: training.mode(), burn: false };
    training.steps(subject, |model| {
        let logits = model.forward(training.precision().cast(x.clone()));
        DiceCeLoss::new().forward(logits, labels.clone()).into()
    })
}

/// Classes from the same numbers as the volume's.
fn labels(arguments: &Arguments, device: &Device) -> Tensor<4, Int> {
    let shape = [1, arguments.shape[0], arguments.shape[1], arguments.shape[2]];
    let numbers = tensor(shape, 17, 1.0, device).into_data().try_to_vec::<f32>().expect("float32");
    let class = |number: f32| ((number + 1.0) * (arguments.classes as f32 / 2.0)).floor() as i32;
    Tensor::from_data(TensorData::new(numbers.into_iter().map(class).collect(), shape), device)
}
