//! Times single convolutions, one for each line of the input; the same as `pytorch/conv3d.py`, which says how to ask.

use std::hint::black_box;
use std::io::BufRead;
use std::time::{Duration, Instant};

use burn::tensor::{DType, Device, Tensor, module, ops::ConvOptions};
use clap::Args;
use leanburn::ops::{Convolution, Gradients, backward_from, conv3d, peak_bf16_flops, peak_f32_flops};
use serde_json::{Value, json};

use crate::measure::{program, versions};
use crate::values::{digest, tensor};

#[derive(Args)]
pub struct Arguments {
    /// Of the volumes: f32, or bf16.
    #[arg(long, default_value = "f32")]
    dtype: String,
    /// Burn's own convolution.
    #[arg(long)]
    burn: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let threads = rayon::current_num_threads();
    let dtype = match &arguments.dtype[..] {
        "f32" => DType::F32,
        "bf16" => DType::BF16,
        other => return Err(format!("f32 or bf16, not {other}").into()),
    };
    println!("{}", json!({"program": program(arguments.burn), "threads": threads, "versions": versions()}));
    let mut case = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = match (line.split_once(' '), &case) {
            (Some(("open", numbers)), _) => {
                case = None; // the last one's tensors go before the next one's come
                case.insert(Case::new(numbers, dtype, arguments.burn)?).checks()
            }
            (Some(("time", seconds)), Some(case)) => case.time(Duration::from_secs_f64(seconds.parse()?)),
            _ => return Err(format!("open or time, not {line}").into()),
        };
        println!("{answer}");
    }
    Ok(())
}

/// A convolution with its tensors.
struct Case {
    x: Tensor<5>,
    convolution: Convolution,
    burn: bool,
}

impl Case {
    fn new(numbers: &str, dtype: DType, burn: bool) -> Result<Self, Box<dyn std::error::Error>> {
        let numbers = numbers.split(' ').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
        let [batch_size, channels_in, channels_out, rest @ ..] = numbers.as_slice() else {
            return Err("batch size, channels in and channels out are missing".into());
        };
        let axes: &[[usize; 3]; 4] = rest.as_chunks().0.try_into()?;
        let [size, kernel, stride, padding] = *axes;
        let (device, fan_in) = (Device::flex().autodiff(), channels_in * kernel.iter().product::<usize>());
        let volume = |outer: usize, inner: usize, axes: [usize; 3]| [outer, inner, axes[0], axes[1], axes[2]];
        let weight_shape = volume(*channels_out, *channels_in, kernel);
        Ok(Self {
            x: tensor(volume(*batch_size, *channels_in, size), 7, 1.0, &device).cast(dtype).require_grad(),
            convolution: Convolution {
                weight: tensor(weight_shape, 11, (fan_in as f32).sqrt().recip(), &device).require_grad(),
                bias: Some(tensor([*channels_out], 13, 1.0, &device).require_grad()),
                options: ConvOptions::new(stride, padding, [1; 3], 1),
            },
            burn,
        })
    }

    fn forward(&self) -> Tensor<5> {
        let (x, convolution) = (self.x.clone(), self.convolution.clone());
        match self.burn {
            true => module::conv3d(x, convolution.weight, convolution.bias, convolution.options),
            false => conv3d(x, convolution),
        }
    }

    fn checks(&self) -> Value {
        let y = self.forward();
        // a gradient that is another at every position and channel
        let gradient = tensor(y.dims(), 17, 1.0, &y.device()).cast(y.dtype());
        let mut gradients = backward_from(y.clone(), gradient);
        let Convolution { weight, bias, .. } = &self.convolution;
        json!({
            "shape": y.dims(),
            "output": digest(&y.cast(DType::F32).without_autodiff()),
            "input gradient": gradients.take(&self.x).map(|gradient| digest(&gradient.cast(DType::F32))),
            "weight gradient": gradients.take(weight).as_ref().map(digest),
            "bias gradient": bias.as_ref().and_then(|bias| gradients.take(bias)).as_ref().map(digest),
        })
    }

    /// Mean seconds of forward and of backward, from a gradient of ones that is there before, in as many repetitions as take `least`; the
    /// sum of the fastest of both, and what the processor's arithmetic reaches right after. What a processor has for a program may change by
    /// the millisecond, as others share it, so that the share of the peak is that of what was fastest.
    fn time(&self, least: Duration) -> Value {
        let [mut forward, mut backward] = [Duration::ZERO; 2];
        let [mut fastest_forward, mut fastest_backward] = [Duration::MAX; 2];
        let mut repetitions = 0;
        let y = self.forward();
        let gradient = y.ones_like();
        let backward_of = |y| -> Gradients { black_box(backward_from(y, gradient.clone())) };
        drop(backward_of(y));
        while forward + backward < least {
            let begin = Instant::now();
            let y = black_box(self.forward());
            let middle = Instant::now();
            drop(backward_of(y));
            let taken = [middle - begin, middle.elapsed()];
            forward += taken[0];
            backward += taken[1];
            fastest_forward = fastest_forward.min(taken[0]);
            fastest_backward = fastest_backward.min(taken[1]);
            repetitions += 1;
        }
        let mean = |total: Duration| total.as_secs_f64() / f64::from(repetitions);
        let peak = if self.x.dtype() == DType::BF16 { peak_bf16_flops() } else { None };
        json!({
            "forward": mean(forward),
            "backward": mean(backward),
            "fastest": (fastest_forward + fastest_backward).as_secs_f64(),
            "peak_flops": peak.unwrap_or_else(peak_f32_flops),
        })
    }
}
