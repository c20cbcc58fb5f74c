//! Group norm with an activation behind it.

use burn::tensor::{Tensor, activation::gelu};
use leanburn_ops::{Activation, Norm, activate, channel_norm, geglu, group_norm_act};
use proptest::prelude::*;

use crate::case::{Case, Inputs, cases};
use crate::plain;

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn group_norm_act_of_any_shape(
        batch_size in 1usize..4,
        num_groups in 1usize..5,
        per_group in 1usize..5,
        size in [2usize..6, 2usize..6, 2usize..40],
        affine in any::<[bool; 2]>(),
        activation in prop_oneof![
            Just(Activation::None),
            Just(Activation::Silu),
            Just(Activation::Relu),
            Just(Activation::LeakyRelu(0.01)),
        ],
    ) {
        let channels = num_groups * per_group;
        let case = Case {
            volumes: vec![[batch_size, channels, size[0], size[1], size[2]]],
            vectors: affine.into_iter().filter(|there| *there).map(|_| channels).collect(),
            ..Case::default()
        };
        let norm = move |(x, _, vectors): Inputs| {
            let mut vectors = vectors.into_iter();
            let [weight, bias] = affine.map(|there| there.then(|| vectors.next().expect("as many as the case has")));
            (x[0].clone(), Norm { num_groups, epsilon: 1e-5, weight, bias })
        };
        case.check(
            move |inputs| {
                let (x, norm) = norm(inputs);
                group_norm_act(x, norm, activation)
            },
            move |inputs| {
                let (x, norm) = norm(inputs);
                plain::activate(plain::group_norm(x, norm), activation)
            },
        );
    }

    #[test]
    fn activate_any_shape(
        size in [1usize..6, 1usize..6, 1usize..40],
        activation in prop_oneof![
            Just(Activation::None),
            Just(Activation::Silu),
            Just(Activation::Relu),
            Just(Activation::LeakyRelu(0.25)),
        ],
    ) {
        Case { volumes: vec![[2, 3, size[0], size[1], size[2]]], ..Case::default() }.check(
            move |(x, _, _)| activate(x[0].clone(), activation),
            move |(x, _, _)| plain::activate(x[0].clone(), activation),
        );
    }

    #[test]
    fn channel_norm_of_any_shape(size in [1usize..4, 1usize..6, 2usize..30], channels in 3usize..20) {
        let volumes = vec![[2, channels, size[0], size[1], size[2]]];
        // it is the composition whose gradients of quotients have float32 constants
        let case = Case { volumes, vectors: vec![channels; 2], single_precision_constants: true, ..Case::default() };
        case.check(
            |(x, _, vectors)| channel_norm(x[0].clone(), vectors[0].clone(), vectors[1].clone(), 1e-5),
            move |(x, _, vectors)| {
                let mean = |x: Tensor<5>| x.sum_dim(1) / channels as f64;
                let centered = x[0].clone() - mean(x[0].clone());
                let variance = mean(centered.clone() * centered.clone());
                let [weight, bias] = [0, 1].map(|index: usize| vectors[index].clone().reshape([1, -1, 1, 1, 1]));
                centered / (variance + 1e-5).sqrt() * weight + bias
            },
        );
    }

    #[test]
    fn geglu_of_any_shape(size in [1usize..4, 1usize..6, 1usize..30], channels in 1usize..9) {
        Case { volumes: vec![[2, 2 * channels, size[0], size[1], size[2]]], ..Case::default() }.check(
            |(x, _, _)| geglu(x[0].clone()),
            move |(x, _, _)| {
                let [values, gates] = [0, channels].map(|first| x[0].clone().narrow(1, first, channels));
                values * gelu(gates)
            },
        );
    }
}
