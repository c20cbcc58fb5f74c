//! What segments save may live elsewhere until backward: the same gradients, or gradients that are close, in fewer bytes.
//!
//! The three proofs of a saver, and what happens where a file cannot be written or read. Alone in its binary: it counts the whole heap.

mod common;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::prelude::*;
use burn::tensor::{Distribution, TensorData};
use common::{Outcome, ResBlock, is_complete, outcome};
use leanburn_ops::{
    CountingAllocator, MaxPool3d, ResidencyPolicy, Storage, StorageError, activate, backward, max_pool3d,
    or_storage_error, random, with_overlapped_writes,
};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const BLOCKS: usize = 6;
const CHANNELS: usize = 8;
const SIDE: usize = 16;
const ACTIVATION: f64 = (CHANNELS * SIDE * SIDE * SIDE * 4) as f64;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn model(device: &Device) -> (Vec<ResBlock>, Tensor<5>) {
    random::seed(device, 1); // this thread may have a stream already
    let blocks: Vec<_> = (0..BLOCKS).map(|_| ResBlock::new(CHANNELS, device)).collect();
    let x = Tensor::random([1, CHANNELS, SIDE, SIDE, SIDE], Distribution::Normal(0.0, 1.0), device);
    let small = x.clone().slice([0..1, 0..CHANNELS, 0..4, 0..4, 0..4]);
    drop(forward(&ResidencyPolicy::keep(), &blocks, small)); // initialises the parameters
    (blocks, x)
}

/// Segments `block_0`, `block_1`, ...
fn forward(policy: &ResidencyPolicy, blocks: &[ResBlock], x: Tensor<5>) -> Tensor<1> {
    let run = |x, (index, block)| policy.run(&format!("block_{index}"), block, x, ResBlock::forward_lean);
    blocks.iter().enumerate().fold(x, run).powf_scalar(2.0).mean()
}

fn policies(storage: Storage) -> [ResidencyPolicy; 2] {
    [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()].map(|policy| policy.with_storage("*", storage))
}

fn run(policy: &ResidencyPolicy) -> Outcome {
    let device = device();
    let (blocks, x) = model(&device);
    let x = x.require_grad();
    random::seed(&device, 7);
    let outcome = outcome(&blocks, &x, forward(policy, &blocks, x.clone()));
    assert!(is_complete(&outcome));
    outcome
}

/// L2 of the difference over L2, of all gradients of parameters.
fn error(found: &Outcome, expected: &Outcome) -> f64 {
    let values = |data: &Option<TensorData>| data.as_ref().unwrap().iter::<f64>().collect::<Vec<_>>();
    let squares = |(found, expected): (&Option<TensorData>, &Option<TensorData>)| {
        let pairs = values(found).into_iter().zip(values(expected));
        pairs.fold((0.0, 0.0), |(error, norm), (a, b)| (error + (a - b) * (a - b), norm + b * b))
    };
    let sums = found.1.iter().zip(&expected.1).map(squares);
    let (error, norm) = sums.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    f64::sqrt(error / norm)
}

#[test]
fn an_offloaded_step_is_the_plain_one_bit_for_bit() {
    let _alone = alone();
    let plain = run(&ResidencyPolicy::keep());
    for policy in policies(Storage::Offload) {
        assert!(run(&policy) == plain, "{policy:?}");
    }
}

#[test]
fn rounded_activations_leave_the_loss_and_change_gradients_a_little() {
    let _alone = alone();
    let plain = run(&ResidencyPolicy::keep());
    for (storage, most) in [(Storage::Bf16, 0.01), (Storage::Int8, 0.05)] {
        for policy in policies(storage) {
            let found = run(&policy);
            let error = error(&found, &plain);
            println!("{storage:?} {:?}: {error:.5}", policy.default);
            assert_eq!(found.0, plain.0, "forward does not see it");
            assert!(error > 0.0 && error < most, "{policy:?}: {error}");
        }
    }
}

/// The gradient of a weight is linear in the saved input of its convolution: its mean over draws is that of the plain path.
#[test]
fn gradients_of_int8_have_no_bias_where_they_are_linear() {
    const DRAWS: u64 = 64;
    let _alone = alone();
    let device = device();
    device.seed(3);
    let linear = burn::nn::conv::Conv3dConfig::new([4, 4], [3; 3]).init(&device);
    let x: Tensor<5> = Tensor::random([1, 4, 12, 12, 12], Distribution::Normal(0.0, 1.0), &device);
    let target: Tensor<5> = Tensor::random([1, 4, 10, 10, 10], Distribution::Normal(0.0, 1.0), &device);
    let gradient = |policy: &ResidencyPolicy, seed: u64| {
        random::seed(&device, seed);
        let forward = |layer: &burn::nn::conv::Conv3d, x: Tensor<5>| {
            let options = burn::tensor::ops::ConvOptions::new([1; 3], [0; 3], [1; 3], 1);
            let bias = layer.bias.as_ref().map(|bias| bias.val());
            leanburn_ops::conv3d(x, leanburn_ops::Convolution { weight: layer.weight.val(), bias, options })
        };
        let y = policy.run("layer", &linear, x.clone() + 0.0, forward);
        let mut gradients = backward((y * target.clone()).sum());
        gradients.take(&linear.weight.val()).unwrap().into_data().iter::<f64>().collect::<Vec<_>>()
    };
    let plain = gradient(&ResidencyPolicy::keep(), 0);
    let policy = ResidencyPolicy::keep().with_storage("*", Storage::Int8);
    let draws: Vec<Vec<f64>> = (0..DRAWS).map(|seed| gradient(&policy, seed)).collect();
    let distance = |found: &[f64]| found.iter().zip(&plain).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
    let single = draws.iter().map(|draw| distance(draw)).sum::<f64>() / DRAWS as f64;
    let mean: Vec<f64> =
        (0..plain.len()).map(|index| draws.iter().map(|draw| draw[index]).sum::<f64>() / DRAWS as f64).collect();
    let ratio = distance(&mean) / single;
    println!("error of one draw {single:.4}, of the mean of {DRAWS} {:.4}", distance(&mean));
    assert!(single > 0.0 && ratio < 1.5 / (DRAWS as f64).sqrt(), "{ratio}");
}

/// Activations held between forward and backward, and at the peak, above what is there before the step.
fn held_and_peak(policy: &ResidencyPolicy) -> (f64, f64) {
    let device = device();
    let (blocks, x) = model(&device);
    random::seed(&device, 7);
    drop(backward(forward(policy, &blocks, x.clone()))); // the thread, and what is initialised once
    let before = HEAP.current_usage() as f64;
    HEAP.reset_peak_usage();
    let loss = forward(policy, &blocks, x);
    let held = HEAP.current_usage() as f64 - before;
    drop(backward(loss));
    (held / ACTIVATION, (HEAP.peak_usage() as f64 - before) / ACTIVATION)
}

/// An activation belongs to the loss; the first block's input is the batch, which stays.
#[test]
fn what_is_held_shrinks_to_a_half_a_quarter_and_nothing() {
    let _alone = alone();
    for (residency, saved) in [(ResidencyPolicy::keep(), 2 * BLOCKS), (ResidencyPolicy::recompute_all(), BLOCKS - 1)] {
        let (plain, plain_peak) = held_and_peak(&residency);
        let in_memory = plain - 1.0;
        println!("{:?}: held {plain:.2}, peak {plain_peak:.2}", residency.default);
        assert!((in_memory - saved as f64).abs() < 1.5, "{in_memory} of {saved} volumes");
        for (storage, most) in [(Storage::Bf16, 0.52), (Storage::Int8, 0.27), (Storage::Offload, 0.05)] {
            let (held, peak) = held_and_peak(&residency.clone().with_storage("*", storage));
            // Graphs and weights' handles, which are a few tenths of these small volumes, are left out by a difference.
            let (heavy, _) = held_and_peak(&residency.clone().with_storage("*", Storage::Memory));
            let share = 1.0 - (heavy - held) / saved as f64;
            println!("{storage:?}: held {held:.2}, peak {peak:.2}, share {share:.3}");
            assert!(share <= most, "{storage:?}: {share:.3} of what is saved");
            assert!(peak < plain_peak - 0.5 * (1.0 - most) * saved as f64 + 2.0, "{storage:?}: {peak} of {plain_peak}");
        }
    }
}

#[test]
fn maximum_pooling_keeps_the_very_values() {
    let _alone = alone();
    let device = device();
    let x: Tensor<5> = Tensor::random([1, 4, 16, 16, 16], Distribution::Normal(0.0, 1.0), &device).require_grad();
    let gradient = |policy: ResidencyPolicy| {
        let nothing = Vec::<ResBlock>::new();
        let y = policy.run("pool", &nothing, x.clone(), |_, x| max_pool3d(x, MaxPool3d::new([2; 3])));
        backward(y.powf_scalar(2.0).sum()).take(&x).unwrap().into_data()
    };
    let plain = gradient(ResidencyPolicy::keep());
    for storage in [Storage::Bf16, Storage::Int8, Storage::Offload] {
        assert_eq!(gradient(ResidencyPolicy::keep().with_storage("*", storage)), plain, "{storage:?}");
    }
}

#[test]
fn segments_inside_a_kept_one_have_its_storage() {
    let _alone = alone();
    let device = device();
    let inner = ResidencyPolicy::keep().with_storage("exact", Storage::Memory);
    let outer = inner.clone().with_storage("outer", Storage::Bf16);
    let x: Tensor<5> = Tensor::random([1, 4, 16, 16, 16], Distribution::Normal(0.0, 1.0), &device).require_grad();
    let gradient = |name: &'static str| {
        let (nothing, inner) = (Vec::<ResBlock>::new(), inner.clone());
        let silu = |_: &Vec<ResBlock>, x| activate(x, leanburn_ops::Activation::Silu);
        let y = outer.run("outer", &nothing, x.clone(), move |_, x| inner.run(name, &Vec::new(), x, silu));
        backward(y.sum()).take(&x).unwrap().into_data()
    };
    assert_ne!(gradient("inner"), gradient("exact"));
}

/// Runs a step with files in `folder`, with something done between forward and backward.
fn offloaded(folder: &Path, between: impl FnOnce()) -> Result<Outcome, StorageError> {
    let device = device();
    let (blocks, x) = model(&device);
    let x = x.require_grad();
    let policy = ResidencyPolicy::recompute_all().with_storage("*", Storage::Offload).with_offload_folder(folder);
    or_storage_error(|| {
        let loss = forward(&policy, &blocks, x.clone());
        between();
        outcome(&blocks, &x, loss)
    })
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_a_panic_elsewhere() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for wrong in [folder.path().join("missing"), std::env::current_exe().unwrap()] {
        let error = offloaded(&wrong, || ()).unwrap_err();
        assert_eq!((error.action, &error.folder), ("write", &wrong));
        let message = error.to_string();
        assert!(message.starts_with("cannot write 128.0 KiB of saved activations in a file in "), "{message}");
        assert!(message.ends_with("as `offload_folder`, or offload fewer segments"), "{message}");
    }
    assert!(offloaded(folder.path(), || ()).is_ok(), "the thread goes on after an error");
    let panic = std::panic::catch_unwind(|| {
        let (blocks, x) = model(&device());
        let policy = ResidencyPolicy::keep().with_storage("*", Storage::Offload).with_offload_folder("/missing");
        forward(&policy, &blocks, x);
    });
    assert!(panic.unwrap_err().downcast_ref::<String>().unwrap().contains("/missing"));
}

/// The files of a folder that this process has open, as they can be opened again.
#[cfg(target_os = "linux")]
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    open.filter(|path| fs::read_link(path).is_ok_and(|link| link.starts_with(folder))).collect()
}

/// Nothing is to be seen of the files, so that a killed process leaves nothing. One that is cut short does not come back as zeros.
#[test]
#[cfg(target_os = "linux")]
fn files_have_no_names_and_one_that_is_cut_short_is_an_error() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let files = || files_in(folder.path());
    let outcome = offloaded(folder.path(), || {
        assert_eq!(files().len(), BLOCKS - 1);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    });
    assert!(is_complete(&outcome.unwrap()));
    assert!(files().is_empty());
    let cut = || {
        let file = OpenOptions::new().write(true).open(&files()[0]).unwrap();
        file.set_len(1000).unwrap();
    };
    let error = offloaded(folder.path(), cut).unwrap_err();
    assert_eq!(error.action, "read");
    assert!(error.reason.contains("fill whole buffer"), "{error}");
    assert!(files().is_empty(), "what is left of the step is gone");
}

/// Burn frees a graph that nobody went through when the next backward ends.
#[test]
#[cfg(target_os = "linux")]
fn a_graph_that_is_dropped_leaves_no_file() {
    let _alone = alone();
    let (blocks, x) = model(&device());
    let folder = tempfile::tempdir().unwrap();
    for policy in policies(Storage::Offload) {
        let policy = policy.with_offload_folder(folder.path());
        (0..3).for_each(|_| drop(forward(&policy, &blocks, x.clone())));
        drop(backward(forward(&policy, &blocks, x.clone())));
        assert!(files_in(folder.path()).is_empty(), "{:?}", policy.default);
    }
}

/// Two operations that save the same tensor one behind the other, in two segments: one file, and the gradients of memory.
#[test]
#[cfg(target_os = "linux")]
fn a_tensor_that_two_operations_save_is_written_once() {
    let _alone = alone();
    let (folder, device) = (tempfile::tempdir().unwrap(), device());
    let (blocks, x) = model(&device);
    let x = x.require_grad();
    let run = |policy: &ResidencyPolicy, files: usize| {
        let loss = with_overlapped_writes(|| {
            let first = policy.run("first", &blocks[0], x.clone(), ResBlock::first_half);
            policy.run("second", &blocks[1], x.clone(), ResBlock::first_half).mul(first).mean()
        });
        assert_eq!(files_in(folder.path()).len(), files);
        outcome(&blocks, &x, loss)
    };
    let offload = ResidencyPolicy::keep().with_storage("*", Storage::Offload).with_offload_folder(folder.path());
    assert!(run(&offload, 1) == run(&ResidencyPolicy::keep(), 0));
}
