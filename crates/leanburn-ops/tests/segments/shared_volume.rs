//! A volume that several processes hold together: each runs a streamed segment on its planes, and together they compute what one does.

use burn::prelude::*;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{TensorData, Tolerance};
use leanburn_ops::{
    Activation, Convolution, Norm, Stages, StreamKeep, StreamSettings, backward, gather_planes, own_planes, random,
    stream, with_whole_volumes,
};

use crate::level::{Kind, Level, error};
use crate::ranks::on_ranks;

/// Of the deepest volume.
const PLANES: usize = 24;

/// A level and an input, the same on every thread.
fn case(kind: Kind) -> (Level, Tensor<5>) {
    let device = Device::flex().autodiff();
    random::seed(&device, 1);
    let level = Level::new(kind, [8, 4], &device);
    let dims = match kind {
        Kind::Decoder => [2, level.channels_in(), PLANES / 2, 3, 4],
        _ => [2, level.channels_in(), PLANES, 6, 7],
    };
    (level, (random::normal(dims, &device) + 0.5).require_grad())
}

/// The output and the gradient of the input put together, the gradients of parameters summed and made those of the mean over the volume.
fn together(parts: Vec<Vec<Option<TensorData>>>) -> Vec<TensorData> {
    let (device, ranks) = (Device::flex(), parts.len());
    let tensors = |index: usize| parts.iter().map(move |part| part[index].clone().expect("a tensor"));
    let sum = |index: usize| {
        let mut all = tensors(index);
        let first = all.next().unwrap();
        let (dims, mut sums) = (first.shape().clone(), first.iter::<f32>().collect::<Vec<_>>());
        all.for_each(|part| sums.iter_mut().zip(part.iter::<f32>()).for_each(|(sum, value)| *sum += value));
        TensorData::new(sums.into_iter().map(|sum| sum / ranks as f32).collect(), dims)
    };
    let joined =
        |index: usize| Tensor::<5>::cat(tensors(index).map(|part| Tensor::from_data(part, &device)).collect(), 2);
    let (output, gradient) = (joined(0).into_data(), (joined(1) / ranks as f32).into_data());
    [output, gradient].into_iter().chain((2..parts[0].len()).map(sum)).collect()
}

#[test]
fn shares_give_what_the_whole_volume_gives() {
    let mut worst: f64 = 0.0;
    for kind in [Kind::Decoder, Kind::Encoder, Kind::Blocks] {
        let (level, x) = case(kind);
        let whole = level.outcome(&x, None);
        for ranks in [2, 3, 4] {
            for keep in [StreamKeep::Two, StreamKeep::One, StreamKeep::None] {
                let settings = StreamSettings::default().with_slab_planes(5).with_keep(keep);
                let parts = on_ranks(ranks, |_| {
                    let (level, x) = case(kind);
                    let own = own_planes(x.inner()).require_grad_on_autodiff();
                    level.outcome(&own, Some(settings))
                });
                for (index, (found, expected)) in together(parts.0).iter().zip(&whole).enumerate() {
                    let expected = expected.as_ref().unwrap();
                    let error = error(found, expected);
                    let bound = if expected.shape().len() == 1 { 3e-6 } else { 1e-6 };
                    assert!(error < bound, "{kind:?} on {ranks}, {keep:?}: {error} of number {index}");
                    worst = worst.max(error);
                }
            }
        }
    }
    println!("worst error {worst:.1e}");
}

trait OnAutodiff {
    fn require_grad_on_autodiff(self) -> Self;
}

impl OnAutodiff for Tensor<5> {
    fn require_grad_on_autodiff(self) -> Self {
        Tensor::from_data(self.into_data(), &Device::flex().autodiff()).require_grad()
    }
}

/// One norm and convolution: what is exchanged can be counted by hand.
#[test]
fn borders_and_statistics_are_all_that_is_exchanged() {
    let [batch, channels_in, channels_out, plane, num_groups] = [2, 4, 3, 5 * 6, 2];
    let step = |_: usize| {
        let device = Device::flex().autodiff();
        random::seed(&device, 1);
        let x = random::normal([batch, channels_in, 8, 5, 6], &device).require_grad();
        let weight = random::normal([channels_out, channels_in, 3, 3, 3], &device).require_grad();
        let norm = Norm { num_groups, epsilon: 1e-6, weight: None, bias: None };
        let convolution = Convolution { weight, bias: None, options: ConvOptions::new([1; 3], [1; 3], [1; 3], 1) };
        let mut stages = Stages::new();
        let input = stages.input();
        stages.norm_act_conv3d(input, Some(norm), Activation::Silu, convolution, None);
        drop(backward(stream(own_planes(x), stages, StreamSettings::default()).sum()));
    };
    for ranks in [2, 4] {
        let (_, sent) = on_ranks(ranks, step);
        // forward: a plane of the input; backward: a plane of the input and of the gradient for sums and weights, one of the gradient
        // for that of the input
        let planes = 4 * batch * plane * (2 * channels_in + 2 * channels_out);
        let (moments, sums) = (8 * 2 * batch * num_groups, 8 * 2 * batch * channels_in);
        let expected = 2 * (ranks - 1) * planes + ranks * (ranks - 1) * (moments + sums);
        assert_eq!(sent, expected, "{ranks} ranks");
    }
}

#[test]
fn a_gathered_volume_hands_back_the_gradients_of_all() {
    let device = Device::flex();
    let whole =
        Tensor::<5>::from_data(TensorData::new((0..12).map(|value| value as f32).collect(), [1, 2, 6, 1, 1]), &device);
    let (parts, _) = on_ranks(3, |rank| {
        let own = own_planes(whole.clone()).require_grad_on_autodiff();
        let gathered = gather_planes(own.clone());
        let loss = (gathered.clone() * gathered.clone()).sum() * (rank + 1) as f32;
        [gathered.into_data(), backward(loss).take(&own).unwrap().into_data()]
    });
    for (rank, [gathered, gradient]) in parts.into_iter().enumerate() {
        gathered.assert_eq(&whole.to_data(), true);
        // of 1 + 2 + 3 times the squares
        let expected = whole.clone().narrow(2, 2 * rank, 2) * 12.0;
        gradient.assert_approx_eq(&expected.into_data(), Tolerance::<f32>::default());
    }
}

#[test]
fn whole_volumes_are_not_shared() {
    let (level, x) = case(Kind::Blocks);
    let settings = Some(StreamSettings::default().with_slab_planes(5));
    let alone = level.outcome(&x, settings);
    let (there, sent) = on_ranks(2, |_| {
        let (level, x) = case(Kind::Blocks);
        with_whole_volumes(|| level.outcome(&x, settings))
    });
    assert!(there.iter().all(|outcome| *outcome == alone));
    assert_eq!(sent, 0);
}

#[test]
#[should_panic = "5 planes are to be shared out evenly among 2 processes"]
fn planes_that_cannot_be_shared_out_are_rejected() {
    // 5 planes of the input of the encoder are 2 of its result for one process, and 10 are 5 for two
    on_ranks(2, |_| {
        let device = Device::flex().autodiff();
        let level = Level::new(Kind::Encoder, [8, 4], &device);
        stream(Tensor::ones([1, 1, 5, 6, 6], &device), level.stages(), StreamSettings::default())
    });
}
