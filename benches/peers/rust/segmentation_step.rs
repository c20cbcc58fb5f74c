//! Training steps of nnU-Net's U-Net and of Swin UNETR; the same as `pytorch/segmentation_step.py`.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use clap::{Args, ValueEnum};
use leanburn::nn::losses::DiceCeLoss;
use leanburn::nn::models::{DynUnet, DynUnetConfig, SwinUnetr, SwinUnetrConfig};

use crate::training_step::{Subject, Training};
use crate::values::tensor;

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Model {
    DynUnet,
    SwinUnetr,
}

#[derive(Args)]
pub struct Arguments {
    /// Voxels along depth, height and width.
    #[arg(long, num_args = 3, required = true)]
    shape: Vec<usize>,
    #[arg(long)]
    model: Model,
    #[arg(long)]
    feature_size: usize,
    #[arg(long, num_args = 1.., required = true)]
    filters: Vec<usize>,
    #[arg(long)]
    in_channels: usize,
    #[arg(long)]
    classes: usize,
    #[command(flatten)]
    training: Training,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let (channels, classes, residency) = (arguments.in_channels, arguments.classes, arguments.training.residency());
    let (device, volume) = (Device::flex().autodiff(), arguments.volume());
    match arguments.model {
        Model::DynUnet => {
            let levels = arguments.filters.len();
            let strides = (0..levels).map(|level| if level == 0 { [1; 3] } else { [2; 3] }).collect();
            let kernels = vec![[3; 3]; levels];
            let config = DynUnetConfig::new(channels, classes, arguments.filters.clone(), kernels, strides);
            config.check_input(volume)?;
            let model = config.init(&device).with_residency(residency);
            steps(arguments, ("dyn_unet", model), DynUnet::forward, &device)
        }
        Model::SwinUnetr => {
            let config = SwinUnetrConfig::new(channels, classes).with_feature_size(arguments.feature_size);
            config.check_input(volume)?;
            let model = config.init(&device).with_residency(residency);
            steps(arguments, ("swin_unetr", model), SwinUnetr::forward, &device)
        }
    }
}

fn steps<M: Module>(
    arguments: &Arguments,
    (name, model): (&'static str, M),
    forward: fn(&M, Tensor<5>) -> Tensor<5>,
    device: &Device,
) -> Result<(), Box<dyn std::error::Error>> {
    let training = &arguments.training;
    let (x, labels) = (tensor(arguments.volume(), 7, 1.0, device), labels(arguments, device));
    let subject = Subject { name, model, mode: training.mode(), burn: false };
    training.steps(subject, |model| {
        let logits = forward(model, training.precision().cast(x.clone()));
        DiceCeLoss::new().forward(logits, labels.clone()).into()
    })
}

impl Arguments {
    fn volume(&self) -> [usize; 5] {
        [1, self.in_channels, self.shape[0], self.shape[1], self.shape[2]]
    }
}

/// Classes from the same numbers as the volume's.
fn labels(arguments: &Arguments, device: &Device) -> Tensor<4, Int> {
    let shape = [1, arguments.shape[0], arguments.shape[1], arguments.shape[2]];
    let numbers = tensor(shape, 17, 1.0, device).into_data().try_to_vec::<f32>().expect("float32");
    let class = |number: f32| ((number + 1.0) * (arguments.classes as f32 / 2.0)).floor() as i32;
    Tensor::from_data(TensorData::new(numbers.into_iter().map(class).collect(), shape), device)
}
