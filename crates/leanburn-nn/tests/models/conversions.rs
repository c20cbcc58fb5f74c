//! Burn's layers as ours and back: weights are the same bit for bit, outputs of the same layer too.

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn;
use burn::nn::PaddingConfig3d::{self, Explicit, Same, Valid};
use burn::nn::conv;
use burn::prelude::*;
use burn::tensor::{Distribution, Tolerance};
use leanburn_nn::blocks::{BatchNorm, Conv3d, ConvTranspose3d, GroupNorm, Linear};

/// Ids, shapes, bits and need of a gradient of all tensors of a module.
fn contents<M: Module>(module: &M) -> Vec<(u64, Vec<usize>, Vec<u32>, bool)> {
    struct Read(Vec<(u64, Vec<usize>, Vec<u32>, bool)>);
    impl ModuleVisitor for Read {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let (value, data) = (param.val(), param.val().into_data());
            let bits = data.iter::<f32>().map(f32::to_bits).collect();
            self.0.push((param.id.val(), value.dims().to_vec(), bits, value.is_require_grad()));
        }
    }
    let mut read = Read(Vec::new());
    module.visit(&mut read);
    read.0
}

fn bits<const D: usize>(tensor: Tensor<D>) -> Vec<u32> {
    tensor.into_data().iter::<f32>().map(f32::to_bits).collect()
}

fn volume(channels: usize, device: &Device) -> Tensor<5> {
    Tensor::random([2, channels, 5, 6, 7], Distribution::Normal(1.0, 2.0), device)
}

fn assert_close<const D: usize>(ours: Tensor<D>, burns: Tensor<D>) {
    ours.into_data().assert_approx_eq::<f32>(&burns.into_data(), Tolerance::absolute(1e-5).set_relative(1e-5));
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn burns_conv(padding: PaddingConfig3d, stride: usize) -> conv::Conv3d {
    let config = conv::Conv3dConfig::new([4, 6], [3, 1, 5]).with_stride([stride; 3]).with_groups(2);
    config.with_padding(padding).init(&device())
}

#[test]
fn convolutions() {
    let x = volume(4, &device());
    for (padding, stride) in [(Same, 1), (Valid, 2), (Explicit(1, 0, 2), 3)] {
        let burns = burns_conv(padding.clone(), stride);
        let ours = Conv3d::try_from(burns.clone()).unwrap();
        assert_eq!(contents(&ours), contents(&burns));
        assert_close(ours.forward(x.clone()), burns.forward(x.clone()));
        let back = conv::Conv3d::from(ours.clone());
        assert_eq!(contents(&back), contents(&burns));
        assert_eq!(bits(back.forward(x.clone())), bits(burns.forward(x.clone())), "{padding:?}");
        let again = Conv3d::try_from(back).unwrap();
        assert_eq!(bits(again.forward(x.clone())), bits(ours.forward(x.clone())), "{padding:?}");
    }
    let error = Conv3d::try_from(burns_conv(Same, 2)).unwrap_err().to_string();
    assert!(error.contains("Same with a kernel of [3, 1, 5] and strides of [2, 2, 2]"), "{error}");
    assert!(error.contains("make it with `PaddingConfig3d::Explicit`"), "{error}");
}

#[test]
fn transposed_convolutions() {
    let x = volume(4, &device());
    let config = conv::ConvTranspose3dConfig::new([4, 6], [3; 3]);
    let even = config.clone().with_stride([2; 3]).with_padding([2; 3]).with_padding_out([1; 3]);
    let uneven = conv::ConvTranspose3dConfig::new([4, 6], [1, 3, 2]).with_stride([1, 2, 3]).with_padding([0, 1, 0]);
    for config in [even, uneven] {
        let burns = config.init(&device());
        let ours = ConvTranspose3d::try_from(burns.clone()).unwrap();
        assert_eq!(contents(&ours), contents(&burns));
        assert_close(ours.forward(x.clone()), burns.forward(x.clone()));
        let back = conv::ConvTranspose3d::from(ours);
        assert_eq!(contents(&back), contents(&burns));
        assert_eq!(bits(back.forward(x.clone())), bits(burns.forward(x.clone())));
    }
    let groups = ConvTranspose3d::try_from(config.with_groups(2).init(&device())).unwrap_err().to_string();
    assert!(groups.contains("groups: expected 1, found 2"), "{groups}");
}

#[test]
fn group_norms() {
    let x = volume(6, &device());
    let mut burns: nn::GroupNorm = nn::GroupNormConfig::new(3, 6).with_epsilon(1e-3).init(&device());
    burns.gamma = Some(Param::from_tensor(Tensor::random([6], Distribution::Default, &device())));
    let ours = GroupNorm::try_from(burns.clone()).unwrap();
    assert_eq!(contents(&ours), contents(&burns));
    assert_close(ours.forward(x.clone()), burns.forward(x.clone()));
    let back = nn::GroupNorm::from(ours);
    assert_eq!(contents(&back), contents(&burns));
    assert_eq!(bits(back.forward(x.clone())), bits(burns.forward(x)));
    let plain = nn::GroupNormConfig::new(3, 6).with_affine(false).init(&device());
    let error = GroupNorm::try_from(plain).unwrap_err().to_string();
    assert!(error.contains("affine: expected a scale and a shift, found none; call"), "{error}");
}

#[test]
fn batch_norms_give_the_same_bits_in_training_and_after_it() {
    let x = volume(3, &device());
    let mut burns: nn::BatchNorm = nn::BatchNormConfig::new(3).with_momentum(0.3).init(&device());
    burns.gamma = Param::from_tensor(Tensor::random([3], Distribution::Default, &device()));
    burns.forward(x.clone() * 2.0 - 1.0); // statistics of a step
    let burns = burns.valid().train(); // settles them
    let ours = BatchNorm::from(burns.valid().train());
    assert_eq!(contents(&ours), contents(&burns));
    assert_eq!(bits(ours.valid().forward(x.clone().inner())), bits(burns.valid().forward(x.clone().inner())));
    assert_eq!(bits(ours.forward(x.clone())), bits(burns.forward(x.clone())));
    assert_eq!(contents(&nn::BatchNorm::from(ours.clone())), contents(&ours));
    // what ours has learned of the volume goes back to Burn's
    let (ours, back) = (ours.valid(), nn::BatchNorm::from(ours).valid());
    assert_eq!(bits(ours.forward(x.clone().inner())), bits(back.forward(x.inner())));
}

#[test]
fn linear_layers() {
    let burns: nn::Linear = nn::LinearConfig::new(4, 3).init(&device());
    let ours = Linear::from(burns.clone());
    let [(id, dims, ..), _] = &contents(&ours)[..] else { panic!("weight and bias") };
    assert_eq!((*id, &dims[..]), (burns.weight.id.val(), &[3, 4][..]));
    assert!(contents(&ours).iter().all(|(.., takes_gradient)| *takes_gradient));
    let x = volume(4, &device());
    let at_each_voxel = burns.forward(x.clone().permute([0, 2, 3, 4, 1])).permute([0, 4, 1, 2, 3]);
    assert_close(leanburn_ops::conv3d(x, ours.convolution()), at_each_voxel);
    assert_eq!(contents(&nn::Linear::from(ours)), contents(&burns));
    let burns = nn::LinearConfig::new(4, 3).with_bias(false).init(&device());
    assert_eq!(contents(&nn::Linear::from(Linear::from(burns.clone()))), contents(&burns));
}
