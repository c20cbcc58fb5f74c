//! Models of sequences: what recomputation over time keeps, and that it and truncation change no bit they should not.

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::ir::OperationIr;
use burn::prelude::*;
use burn::tensor::Distribution;
use leanburn_nn::models::{Cnn3dLstmConfig, ConvLstm, ConvLstmConfig};
use leanburn_ops::recording::{Marker, Pass, as_on_cpu};
use leanburn_ops::{Residency, ResidencyPolicy, backward};

use crate::common::{trained_parameters, values};

const STEPS: usize = 64;
const SIDE: usize = 6;
/// Elements of a hidden state of 16 channels.
const STATE: usize = 16 * SIDE * SIDE;

/// Runs of steps are recomputed, and the steps in them as well.
fn steps_too() -> ResidencyPolicy {
    ResidencyPolicy::recompute_all().with_rule("*.step_*", Residency::Recompute)
}

#[test]
fn parameters_are_as_many_as_published() {
    let device = Device::flex().autodiff();
    assert_eq!(trained_parameters(&ConvLstmConfig::new(4).init(&device)), 11_601);
    assert_eq!(trained_parameters(&Cnn3dLstmConfig::original(4).init(&device)), 114_833);
    assert_eq!(trained_parameters(&Cnn3dLstmConfig::lite(4).init(&device)), 8_777);
    assert_eq!(trained_parameters(&Cnn3dLstmConfig::micro(4).init(&device)), 2_617);
}

/// States that are made before backward begins and used in it, and how many convolutions run forward.
fn kept_states_and_convolutions(policy: ResidencyPolicy) -> (usize, usize) {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        as_on_cpu(|| {
            let device = device.clone().autodiff();
            let model = ConvLstmConfig::new(4).init(&device).with_residency(policy);
            let loss = model.forward(Tensor::zeros([1, STEPS, 4, SIDE, SIDE], &device)).mean();
            assert_eq!(backward(loss).take_module(&model).len(), 4);
        });
        scope.complete([], [])
    });
    let operations = captured.expect("a complete recording").graph.operations;
    let begins = |operation: &OperationIr| match operation {
        OperationIr::Custom(operation) => Marker::of(operation) == Some(Marker::PassBegins(Pass::Backward)),
        _ => false,
    };
    let backward = operations.iter().position(begins).expect("a backward pass");
    let (forward, backward) = operations.split_at(backward);
    let made: BTreeMap<_, _> = forward
        .iter()
        .flat_map(|operation| operation.outputs())
        .map(|tensor| (tensor.id, tensor.shape.num_elements()))
        .collect();
    let used: BTreeSet<_> = backward.iter().flat_map(|operation| operation.inputs()).map(|tensor| tensor.id).collect();
    let kept = used.iter().filter(|id| made.get(id) == Some(&STATE)).count();
    let convolutions = crate::common::convolutions(&operations);
    (kept, convolutions)
}

/// Hidden states and cells of the 8 runs, the first of which starts from zeros, and the last hidden state for the head.
#[test]
fn of_64_steps_at_most_20_states_are_kept() {
    let (plain, once) = kept_states_and_convolutions(ResidencyPolicy::keep());
    assert!(plain > 5 * STEPS, "{plain}");
    assert_eq!(once, STEPS + 1, "one for each step and the head");
    let (runs, twice) = kept_states_and_convolutions(ResidencyPolicy::recompute_all());
    assert!(runs <= 20, "{runs} states are kept");
    assert_eq!(twice, once + STEPS, "each step runs once more");
    let (nested, thrice) = kept_states_and_convolutions(steps_too());
    assert_eq!((nested, thrice), (runs, once + 2 * STEPS), "each step runs twice more");
}

fn gradients(model: &ConvLstm, x: &Tensor<5>) -> Vec<Vec<f32>> {
    struct Collect<'a>(&'a burn::tensor::Gradients, Vec<Vec<f32>>);
    impl burn::module::ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
            self.1.push(values(param.val().grad(self.0).expect("every parameter has a gradient")));
        }
    }
    let prediction = model.forward(x.clone());
    let gradients = prediction.clone().square().mean().backward();
    let mut collect = Collect(&gradients, vec![values(prediction), values(x.grad(&gradients).expect("of the input"))]);
    model.visit(&mut collect);
    collect.1
}

fn sequence(steps: usize) -> Tensor<5> {
    let device = Device::flex().autodiff();
    device.seed(3);
    Tensor::random([2, steps, 4, SIDE, SIDE], Distribution::Normal(0.0, 1.0), &device).require_grad()
}

#[test]
fn recomputation_over_64_steps_changes_no_bit() {
    let x = sequence(STEPS);
    let model = ConvLstmConfig::new(4).init(&x.device());
    let plain = gradients(&model, &x);
    assert_eq!(gradients(&model.clone().with_residency(ResidencyPolicy::recompute_all()), &x), plain);
    assert_eq!(gradients(&model.with_residency(steps_too()), &x), plain);
}

#[test]
fn truncated_backpropagation_goes_through_the_last_steps_only() {
    let x = sequence(10);
    let whole = ConvLstmConfig::new(4).init(&x.device());
    let truncate = |steps| {
        let config = ConvLstmConfig::new(4).with_truncate_steps(Some(steps));
        config.init(&x.device()).load_record(whole.clone().into_record())
    };
    let [plain, all] = [gradients(&whole, &x), gradients(&truncate(99), &x)];
    assert_eq!(all, plain, "a sequence shorter than the truncation is not truncated");
    let last = gradients(&truncate(3), &x);
    assert_eq!(last[0], plain[0], "the prediction sees the whole sequence");
    assert_ne!(last[2], plain[2]);
    let image = 4 * SIDE * SIDE;
    let per_step = |gradient: &[f32]| -> Vec<bool> {
        gradient[..10 * image].chunks(image).map(|step| step.iter().any(|value| *value != 0.0)).collect()
    };
    assert_eq!(per_step(&last[1]), [[false; 7].as_slice(), &[true; 3]].concat());
    assert_eq!(per_step(&plain[1]), [true; 10]);
    let lean = truncate(3).with_residency(ResidencyPolicy::recompute_all());
    assert_eq!(gradients(&lean, &x), last);
}

#[test]
fn the_prediction_is_repeated_over_the_days() {
    let x = sequence(3);
    let days = ConvLstmConfig::new(4).with_predict_days(3).init(&x.device()).forward(x.clone());
    assert_eq!(days.dims(), [2, 3, SIDE, SIDE]);
    assert_eq!(values(days.clone().narrow(1, 0, 1)), values(days.narrow(1, 2, 1)));
    let days = Cnn3dLstmConfig::lite(4).with_predict_days(2).init(&x.device()).forward(x);
    assert_eq!(days.dims(), [2, 2, SIDE, SIDE]);
}
