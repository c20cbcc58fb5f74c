//! Volumes whose channels lie one behind the other and need not be copied into one, and shifts that need no pass of their own: what
//! the residual blocks of diffusion models are made of.

use burn::tensor::Tensor;
use leanburn_ops::numerics::cast_to;
use leanburn_ops::{Activation, Convolution, Norm, norm_act_conv3d};

/// What a convolution gives, plus `shift` `[batch_size, channels, 1, 1, 1]`. For one item the shift is part of the bias: no pass over the
/// volume.
pub(crate) fn with_shift(
    mut convolution: Convolution,
    shift: Tensor<5>,
    convolve: impl FnOnce(Convolution) -> (Tensor<5>, Tensor<5>),
) -> (Tensor<5>, Tensor<5>) {
    let [batch_size, channels, ..] = shift.dims();
    if batch_size > 1 {
        let (h, skip) = convolve(convolution);
        return (h + shift, skip);
    }
    let dtype = convolution.weight.dtype();
    convolution.bias = convolution.bias.map(|bias| bias + cast_to(shift.reshape([channels]), dtype));
    convolve(convolution)
}

/// The channels of all parts.
pub(crate) fn as_one(mut parts: Vec<Tensor<5>>) -> Tensor<5> {
    if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 1) }
}

/// The parts as they are where each has whole groups of the norm, and as one volume elsewhere.
pub(crate) fn joined(parts: Vec<Tensor<5>>, norm: &Norm) -> Vec<Tensor<5>> {
    let channels: usize = parts.iter().map(|part| part.dims()[1]).sum();
    let per_group = channels / norm.num_groups;
    match parts.len() == 1 || parts.iter().all(|part| part.dims()[1].is_multiple_of(per_group)) {
        true => parts,
        false => vec![as_one(parts)],
    }
}

/// Norm, activation and convolution of volumes as if they were one, their channels one behind the other: the sum of convolutions with
/// parts of the weight.
pub(crate) fn convolve(
    parts: &[Tensor<5>],
    norm: Option<&Norm>,
    activation: Activation,
    convolution: Convolution,
) -> Tensor<5> {
    if let [x] = parts {
        return norm_act_conv3d(x.clone(), norm.cloned(), activation, convolution, None);
    }
    let channels: Vec<usize> = parts.iter().map(|part| part.dims()[1]).collect();
    let (mut first, all) = (0, channels.iter().sum());
    let sum = parts.iter().zip(of_parts(convolution, &channels)).fold(None, |sum, (part, convolution)| {
        let channels = part.dims()[1];
        let norm = norm.map(|norm| of_channels(norm, first, channels, all));
        first += channels;
        Some(norm_act_conv3d(part.clone(), norm, activation, convolution, sum))
    });
    sum.expect("there is a part")
}

/// A convolution of volumes as if they were one: what it is of each, with so many channels, where the results are added up. The bias is
/// that of the first.
pub(crate) fn of_parts(convolution: Convolution, channels: &[usize]) -> Vec<Convolution> {
    if channels.len() == 1 {
        return vec![convolution];
    }
    let Convolution { weight, mut bias, options } = convolution;
    let mut first = 0;
    let part = |channels: &usize| {
        let weight = weight.clone().narrow(1, first, *channels);
        first += channels;
        Convolution { weight, bias: bias.take(), options: options.clone() }
    };
    channels.iter().map(part).collect()
}

/// The norm of some of the channels, which are whole groups.
fn of_channels(norm: &Norm, first: usize, channels: usize, all: usize) -> Norm {
    let part = |vector: &Option<Tensor<1>>| vector.clone().map(|vector| vector.narrow(0, first, channels));
    Norm {
        num_groups: channels * norm.num_groups / all,
        epsilon: norm.epsilon,
        weight: part(&norm.weight),
        bias: part(&norm.bias),
    }
}
