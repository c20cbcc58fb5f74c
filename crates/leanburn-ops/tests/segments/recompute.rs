//! A recomputed segment gives the results of the plain path, bit for bit.

use std::sync::atomic::{AtomicUsize, Ordering};

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::{DType, Distribution};
use leanburn_ops::{backward, recompute, struct_of_tensors};

use crate::common::{ResBlock, chain, gradients_of, is_complete, lean_chain, outcome};

fn device() -> Device {
    Device::flex().autodiff()
}

fn blocks(count: usize, device: &Device) -> Vec<ResBlock> {
    device.seed(1);
    (0..count).map(|_| ResBlock::new(8, device)).collect()
}

fn volume(device: &Device) -> Tensor<5> {
    Tensor::random([2, 8, 6, 5, 4], Distribution::Normal(0.0, 1.0), device)
}

#[test]
fn a_chain_of_residual_blocks_has_the_same_gradients() {
    let device = device();
    let blocks = blocks(3, &device);
    let x = volume(&device).require_grad();
    let run = |recomputed| outcome(&blocks, &x, chain(&blocks, x.clone(), recomputed).powf_scalar(2.0).mean());
    let plain = run(false);
    assert!(is_complete(&plain));
    assert!(run(true) == plain);
}

/// Of whose segments the second run leaves the last convolution out.
#[test]
fn segments_whose_last_operation_is_left_out_have_the_same_gradients() {
    let device = device();
    let blocks = blocks(3, &device);
    for dtype in [DType::F32, DType::BF16] {
        let x = volume(&device).cast(dtype).detach().require_grad();
        let run = |y: Tensor<5>| outcome(&blocks, &x, y.cast(DType::F32).powf_scalar(2.0).mean());
        let plain = run(lean_chain(&blocks, x.clone(), false));
        assert!(is_complete(&plain));
        let whole = |nested: bool| {
            recompute(&blocks, x.clone(), move |blocks: &Vec<ResBlock>, x| lean_chain(blocks, x, nested))
        };
        for lean in [lean_chain(&blocks, x.clone(), true), whole(false), whole(true)] {
            assert!(run(lean) == plain, "{dtype:?}");
        }
    }
}

/// Whatever else a segment does with the result of its last operation, it is there.
#[test]
fn a_result_that_is_read_again_is_there_in_the_second_run() {
    type Forward = fn(&ResBlock, Tensor<5>) -> (Tensor<5>, Tensor<5>);
    let device = device();
    let block = blocks(1, &device).remove(0);
    let x = volume(&device).require_grad();
    let by_burn: Forward = |block, x| {
        let y = block.first_half(x);
        (y.clone() * y.clone(), y)
    };
    let twice: Forward = |block, x| {
        let y = block.first_half(x);
        (block.second_half(y.clone(), y.clone()), y)
    };
    for forward in [by_burn, twice] {
        let run = |(first, second): (Tensor<5>, Tensor<5>)| {
            outcome(&block, &x, first.mean() + second.powf_scalar(2.0).mean())
        };
        assert!(run(recompute(&block, x.clone(), forward)) == run(forward(&block, x.clone())));
        let only_first = |y: Tensor<5>| outcome(&block, &x, y.powf_scalar(2.0).mean());
        let lean = recompute(&block, x.clone(), move |block: &ResBlock, x| forward(block, x).0);
        assert!(only_first(lean) == only_first(forward(&block, x.clone()).0));
        let only_second = |y: Tensor<5>| outcome(&block, &x, y.powf_scalar(2.0).mean());
        let lean = recompute(&block, x.clone(), move |block: &ResBlock, x| forward(block, x).1);
        assert!(only_second(lean) == only_second(forward(&block, x.clone()).1));
    }
}

/// Runs backward through a segment that ends with a convolution, and that is told which of its runs this is.
fn changing(forward: fn(&ResBlock, Tensor<5>, usize) -> Tensor<5>) {
    let device = device();
    let block = blocks(1, &device).remove(0);
    let runs = AtomicUsize::new(0);
    let y = recompute(&block, volume(&device).require_grad(), move |block: &ResBlock, x| {
        forward(block, x, runs.fetch_add(1, Ordering::Relaxed))
    });
    let _ = backward(y.powf_scalar(2.0).mean());
}

#[test]
#[should_panic(expected = "a recomputed segment computed other values in backward than in forward")]
fn other_values_before_the_operation_that_is_left_out_are_noticed() {
    changing(|block, x, run| block.first_half(x.clone() * (x * run as f32 + 1.0)));
}

#[test]
#[should_panic(expected = "a recomputed segment computed other values in backward than in forward")]
fn something_new_behind_the_operation_that_is_left_out_is_noticed() {
    changing(|block, x, run| match run {
        0 => block.first_half(x),
        _ => block.first_half(x) * 1.0,
    });
}

#[test]
#[should_panic(expected = "a recomputed segment computed other values in backward than in forward")]
fn an_operation_more_is_noticed() {
    changing(|block, x, run| match run {
        0 => block.first_half(x),
        _ => block.second_half(block.first_half(x.clone()), x),
    });
}

#[test]
fn balanced_checkpointing_may_be_on_as_well() {
    let device = Device::flex().autodiff().gradient_checkpointing();
    let blocks = blocks(2, &device);
    let x = volume(&device).require_grad();
    let run = |recomputed| outcome(&blocks, &x, chain(&blocks, x.clone(), recomputed).powf_scalar(2.0).mean());
    let plain = run(false);
    assert!(is_complete(&plain));
    assert!(run(true) == plain);
}

#[test]
fn half_precision_has_the_same_gradients_as_the_plain_path_in_it() {
    let device = device();
    let layer: Linear = LinearConfig::new(6, 6).init(&device);
    for dtype in [DType::F16, DType::BF16] {
        let forward = move |layer: &Linear, x: Tensor<2>| {
            let weight = layer.weight.val().cast(dtype);
            x.matmul(weight).cast(DType::F32).tanh()
        };
        let x =
            Tensor::<2>::random([3, 6], Distribution::Normal(0.0, 1.0), &device).cast(dtype).detach().require_grad();
        let run = |y: Tensor<2>| {
            let mut gradients = backward(y.powf_scalar(2.0).sum());
            (gradients.take(&layer.weight.val()).unwrap().into_data(), gradients.take(&x).unwrap().into_data())
        };
        let plain = run(forward(&layer, x.clone()));
        assert_eq!(plain.1.dtype(), dtype);
        assert!(run(recompute(&layer, x.clone(), forward)) == plain);
    }
}

#[test]
fn an_input_without_a_gradient_stays_without_one() {
    let device = device();
    let blocks = blocks(2, &device);
    let x = volume(&device);
    let run = |recomputed| outcome(&blocks, &x, chain(&blocks, x.clone(), recomputed).powf_scalar(2.0).mean());
    let plain = run(false);
    assert!(plain.2.is_none());
    assert!(run(true) == plain);
    let on_plain_device = x.clone().inner();
    let y = recompute(&blocks[0], on_plain_device, ResBlock::forward);
    assert_eq!(y.into_data(), blocks[0].forward(x).into_data());
}

#[test]
fn a_frozen_module_passes_the_gradient_of_its_input_on() {
    let device = device();
    let blocks: Vec<ResBlock> = blocks(2, &device).into_iter().map(Module::no_grad).collect();
    let x = volume(&device).require_grad();
    let run = |recomputed| outcome(&blocks, &x, chain(&blocks, x.clone(), recomputed).powf_scalar(2.0).mean());
    let plain = run(false);
    assert!(plain.1.iter().all(Option::is_none) && plain.2.is_some());
    assert!(run(true) == plain);
}

/// Several inputs and outputs of different ranks, one input and one output that nothing uses.
#[derive(Module, Debug)]
struct Mixer {
    linear: Linear,
}

impl Mixer {
    fn forward(
        &self,
        (x, scale, _unused): (Tensor<3>, Vec<Tensor<1>>, Tensor<2>),
    ) -> (Tensor<2>, (Tensor<1>, Tensor<3>)) {
        let h = self.linear.forward(x.clone() * scale[0].clone().unsqueeze()) + x;
        (h.clone().mean_dim(1).squeeze_dim(1), (scale[1].clone().exp(), h.sin()))
    }
}

#[test]
fn several_inputs_and_outputs_of_any_rank() {
    let device = device();
    let mixer = Mixer { linear: LinearConfig::new(4, 4).init(&device) };
    let tensor = |seed: u64| {
        device.seed(seed);
        Tensor::<3>::random([2, 3, 4], Distribution::Normal(0.0, 1.0), &device)
    };
    let x = tensor(1).require_grad();
    let scale = tensor(2).slice([0..1, 0..1, 0..4]).reshape([4]).detach().require_grad();
    let run = |recomputed: bool| {
        // not leaves: their gradients go through gates
        let inputs =
            (x.clone() * 2.0, vec![scale.clone() * 3.0, scale.clone() * 0.5], x.clone().mean_dim(0).squeeze_dim(0));
        let (a, (b, _unused)) = match recomputed {
            true => recompute(&mixer, inputs, Mixer::forward),
            false => mixer.forward(inputs),
        };
        let loss = a.powf_scalar(2.0).sum() + b.sum();
        let mut gradients = backward(loss);
        let parameters = gradients_of(&mixer, &mut gradients);
        (parameters, gradients.take(&x).unwrap().into_data(), gradients.take(&scale).unwrap().into_data())
    };
    let plain = run(false);
    assert!(plain.0.iter().all(Option::is_some));
    assert!(run(true) == plain);
}

#[test]
#[should_panic(expected = "hand it over among the inputs")]
fn a_captured_tensor_with_a_gradient_is_rejected() {
    let device = device();
    let x = volume(&device).require_grad();
    let captured = x.clone() * 2.0;
    let _ = recompute(&Vec::<Linear>::new(), x, move |_, x: Tensor<5>| x * captured.clone());
}

/// As a constant it may be.
#[test]
fn a_captured_tensor_without_a_gradient_is_a_constant() {
    let device = device();
    let x = volume(&device).require_grad();
    let captured = (x.clone() * 2.0).detach(); // of a leaf it would be another leaf
    let expected = captured.clone().into_data();
    let y = recompute(&Vec::<Linear>::new(), x.clone(), move |_, x: Tensor<5>| x * captured.clone());
    let gradient = backward(y.sum()).take(&x).unwrap();
    assert_eq!(gradient.into_data(), expected);
}

#[test]
fn integer_inputs_go_through_without_a_gradient() {
    let device = device();
    let layer: Linear = LinearConfig::new(3, 3).init(&device);
    let x = Tensor::<2>::random([4, 3], Distribution::Default, &device).require_grad();
    let places = Tensor::<1, Int>::from_data([2, 0], &device);
    let forward =
        |layer: &Linear, (x, places): (Tensor<2>, Tensor<1, Int>)| layer.forward(x).select(0, places).powf_scalar(2.0);
    let gradients = |y: Tensor<2>| {
        let mut gradients = backward(y.sum());
        let of_weight = layer.weight.val();
        [gradients.take(&x), gradients.take(&of_weight)].map(|gradient| gradient.unwrap().into_data())
    };
    let plain = gradients(forward(&layer, (x.clone(), places.clone())));
    assert_eq!(gradients(recompute(&layer, (x.clone(), places.clone()), forward)), plain);
}

struct_of_tensors! {
    /// Features, the rows to take, and where they count.
    #[derive(Clone)]
    struct Rows {
        x: Tensor<2>,
        places: Tensor<1, Int>,
        counts: Option<Tensor<2, Bool>>,
    }
}

#[test]
fn a_struct_of_tensors_goes_through_a_segment() {
    let device = Device::flex().autodiff();
    let layer: Linear = LinearConfig::new(3, 3).init(&device);
    let x = Tensor::<2>::from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], &device).require_grad();
    let forward = |layer: &Linear, Rows { x, places, counts }: Rows| {
        let rows = layer.forward(x).select(0, places);
        let y = counts.map_or(rows.clone(), |counts| rows.mask_fill(counts.bool_not(), 0.5)).powf_scalar(2.0);
        (y, None::<Tensor<1, Bool>>)
    };
    for counts in [None, Some(Tensor::<2, Bool>::from_data([[true, false, true], [false, true, true]], &device))] {
        let rows = Rows { x: x.clone(), places: Tensor::from_data([2, 0], &device), counts };
        let gradient = |y: Tensor<2>| backward(y.sum()).take(&x).unwrap().into_data();
        let (lean, _) = recompute(&layer, rows.clone(), forward);
        assert_eq!(gradient(lean), gradient(forward(&layer, rows).0));
    }
}
