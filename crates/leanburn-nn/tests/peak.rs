//! Heap held and peak of a ConvLSTM, plain and recomputed. Alone in its binary: it counts the whole heap.

use burn::prelude::*;
use leanburn_nn::models::{ConvLstm, ConvLstmConfig};
use leanburn_ops::{Residency, ResidencyPolicy, backward};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const STEPS: usize = 64;
const SIDE: usize = 96;
/// Bytes of a hidden state of 16 channels.
const STATE: f64 = (16 * SIDE * SIDE * 4) as f64;

/// States held between forward and backward, and at the peak, above what is there before the step.
fn held_and_peak(model: &ConvLstm, policy: ResidencyPolicy) -> (f64, f64) {
    let device = Device::flex().autodiff();
    let model = model.clone().with_residency(policy);
    let x = Tensor::zeros([1, STEPS, 4, SIDE, SIDE], &device);
    let before = HEAP.current_usage() as f64;
    HEAP.reset_peak_usage();
    let loss = model.forward(x).square().mean();
    let held = HEAP.current_usage() as f64 - before;
    drop(backward(loss));
    (held / STATE, (HEAP.peak_usage() as f64 - before) / STATE)
}

#[test]
fn memory_grows_with_the_square_root_of_time() {
    let device = Device::flex().autodiff();
    let model = ConvLstmConfig::new(4).init(&device);
    model.forward(Tensor::zeros([1, 2, 4, 4, 4], &device)); // initialises the parameters
    let steps = ResidencyPolicy::recompute_all().with_rule("*.step_*", Residency::Recompute);
    let [plain, runs, nested] =
        [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all(), steps].map(|policy| held_and_peak(&model, policy));
    println!("states held and at the peak: plain {plain:.2?}, runs recomputed {runs:.2?}, steps too {nested:.2?}");
    assert!(plain.0 > 10.0 * STEPS as f64, "{plain:.2?}");
    assert!(runs.0 < 20.0 && nested.0 < 20.0, "{runs:.2?} {nested:.2?}");
    assert!(runs.1 < plain.1 / 4.0 && nested.1 < runs.1 * 0.7, "{plain:.2?} {runs:.2?} {nested:.2?}");
}
