//! Training steps of a chain of residual blocks; the same as `pytorch/residual_chain.py`.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use clap::Args;
use leanburn::nn::blocks::{ResBlock, ResBlockConfig};
use leanburn::ops::{backward, recompute};
use serde_json::json;

use crate::burn_block::BurnBlock;
use crate::measure::{Line, Step, Timing, live_bytes, report};
use crate::values::{digest, fill, gradient_norm, tensor};

#[derive(Args)]
pub struct Arguments {
    /// Voxels along each axis.
    #[arg(long)]
    size: usize,
    #[arg(long)]
    channels: usize,
    /// Groups of the norms.
    #[arg(long)]
    groups: usize,
    #[arg(long)]
    blocks: usize,
    #[command(flatten)]
    timing: Timing,
    /// Keep only each block's input for backward.
    #[arg(long)]
    recompute: bool,
    /// Burn's own layers.
    #[arg(long)]
    burn: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    let Arguments { channels, groups, .. } = *arguments;
    match arguments.burn {
        true => chain(arguments, || BurnBlock::new([channels; 2], groups, &device), BurnBlock::forward),
        false => chain(arguments, || ResBlockConfig::new([channels; 2], groups).init(&device), ResBlock::forward),
    }
    Ok(())
}

fn chain<M: Module + Sync + 'static>(
    arguments: &Arguments,
    block: impl Fn() -> M,
    forward: fn(&M, Tensor<5>) -> Tensor<5>,
) {
    let blocks: Vec<M> = fill((0..arguments.blocks).map(|_| block()).collect());
    let shape = [1, arguments.channels, arguments.size, arguments.size, arguments.size];
    let x = tensor(shape, 7, 1.0, &Device::flex().autodiff()).require_grad();
    let mode = if arguments.recompute { "each block recomputed" } else { "plain" };
    let line = Line { mode, dtype: "f32", burn: arguments.burn, untimed: 2 };
    report(line, &arguments.timing, || {
        let (begin, live) = (Instant::now(), live_bytes());
        let y = blocks.iter().fold(x.clone(), |x, block| match arguments.recompute {
            true => recompute(block, x, forward),
            false => forward(block, x),
        });
        let kept_bytes = live_bytes() - live;
        let loss = y.square().mean();
        let value = loss.clone();
        let mut gradients = backward(loss);
        let seconds = begin.elapsed().as_secs_f64();
        let checks = json!({
            "parameters": blocks.num_params(),
            "loss": value.into_scalar::<f32>(),
            "input gradient": gradients.take(&x).as_ref().map(digest),
            "gradient norm": gradient_norm(&blocks, &gradients.take_module(&blocks)),
        });
        Step { seconds, kept_bytes, checks }
    });
}
