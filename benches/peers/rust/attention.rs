//! Self-attention, forward and backward; the same as `pytorch/attention.py`.

use std::time::Instant;

use burn::tensor::{Device, Tensor, activation::softmax};
use clap::Args;
use leanburn::ops::{attention3d, backward, backward_from};
use serde_json::{Value, json};

use crate::measure::{Line, Step, Timing, live_bytes, report};
use crate::values::{digest, tensor};

#[derive(Args)]
pub struct Arguments {
    #[arg(long)]
    positions: usize,
    /// Channels of the one head.
    #[arg(long)]
    channels: usize,
    #[command(flatten)]
    timing: Timing,
    /// Burn's own product, softmax and product.
    #[arg(long)]
    burn: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    let Arguments { positions, channels, .. } = *arguments;
    let scale = (channels as f64).powf(-0.5);
    let inputs = [7, 11, 13].map(|salt| tensor([positions, channels], salt, 3.0, &device).without_autodiff());
    let line = |mode| Line { mode, dtype: "f32", burn: arguments.burn, untimed: 2 };
    if arguments.burn {
        let inputs = inputs.map(|input| input.unsqueeze::<3>().autodiff().require_grad());
        let attention =
            |[query, key, value]: [Tensor<3>; 3]| softmax(query.matmul(key.transpose()) * scale, 2).matmul(value);
        report(
            line("product, softmax, product"),
            &arguments.timing,
            step(&inputs, attention, |tensor| tensor.squeeze_dim(0), |rows| rows.unsqueeze()),
        );
    } else {
        let volume = |tensor: Tensor<2>| tensor.transpose().reshape([1, channels, positions, 1, 1]);
        let inputs = inputs.map(|input| volume(input).autodiff().require_grad());
        let attention = |[query, key, value]: [Tensor<5>; 3]| attention3d(query, key, value, 1, scale);
        let rows = |tensor: Tensor<5>| tensor.reshape([channels, positions]).transpose();
        report(line("attention3d, channels first"), &arguments.timing, step(&inputs, attention, rows, volume));
    }
    Ok(())
}

/// One step; `rows` makes `[positions, channels]` of a tensor, and `unrows` the tensor of it.
fn step<const D: usize>(
    inputs: &[Tensor<D>; 3],
    attention: impl Fn([Tensor<D>; 3]) -> Tensor<D>,
    rows: impl Fn(Tensor<D>) -> Tensor<2>,
    unrows: impl Fn(Tensor<2>) -> Tensor<D>,
) -> impl FnMut() -> Step {
    let mut checks = Value::Null;
    move || {
        if checks.is_null() {
            checks = check(inputs, &attention, &rows, &unrows);
        }
        let (begin, live) = (Instant::now(), live_bytes());
        let output = attention(inputs.clone());
        let kept_bytes = live_bytes() - live;
        let ones = output.ones_like();
        drop(backward_from(output, ones));
        let seconds = begin.elapsed().as_secs_f64();
        Step { seconds, kept_bytes, checks: checks.clone() }
    }
}

/// Output and gradients, from a gradient that is another at every position and channel.
fn check<const D: usize>(
    inputs: &[Tensor<D>; 3],
    attention: impl Fn([Tensor<D>; 3]) -> Tensor<D>,
    rows: impl Fn(Tensor<D>) -> Tensor<2>,
    unrows: impl Fn(Tensor<2>) -> Tensor<D>,
) -> Value {
    let output = attention(inputs.clone());
    let values = rows(output.clone().without_autodiff());
    let weights = unrows(tensor(values.dims(), 17, 1.0, &output.device()));
    let mut gradients = backward((output * weights).sum());
    let [query, key, value] = inputs.each_ref().map(|input| rows(gradients.take(input).expect("tracked")));
    json!({
        "shape": values.dims(),
        "output": digest(&values),
        "query gradient": digest(&query),
        "key gradient": digest(&key),
        "value gradient": digest(&value),
    })
}
