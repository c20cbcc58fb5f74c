//! On the recording device a whole step is a list of operations: what is run again can be counted there.

use burn::backend::ir::OperationIr;
use burn::module::Module;
use burn::prelude::*;
use leanburn_ops::recording::{Marker, as_on_cpu};
use leanburn_ops::{Gradients, backward, random, recompute};

use crate::common::{ResBlock, chain, lean_chain};

const BLOCKS: usize = 3;

/// Operations of one forward and backward.
fn record(step: impl FnOnce(&Device)) -> Vec<OperationIr> {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        step(&device.clone().autodiff());
        scope.complete([], [])
    });
    captured.expect("a complete recording").graph.operations
}

/// How many operations of a kind there are.
fn count(operations: &[OperationIr], kind: &str) -> usize {
    operations.iter().filter(|operation| format!("{operation:?}").contains(&format!("({kind}("))).count()
}

#[test]
fn every_block_runs_its_two_convolutions_once_more() {
    let run = |recomputed| {
        record(move |device| {
            random::seed(device, 1);
            let blocks: Vec<_> = (0..BLOCKS).map(|_| ResBlock::new(8, device)).collect();
            let x = Tensor::<5>::zeros([1, 8, 16, 16, 16], device);
            let mut gradients = backward(chain(&blocks, x, recomputed).powf_scalar(2.0).mean());
            assert!(gradients_are_recorded(&blocks, &mut gradients));
        })
    };
    let (plain, lean) = (run(false), run(true));
    assert!(count(&plain, "Conv3d") >= 2 * BLOCKS);
    assert_eq!(count(&lean, "Conv3d") - count(&plain, "Conv3d"), 2 * BLOCKS);
    for gradient in ["Conv3dXBackward", "Conv3dWeightBackward"] {
        assert_eq!((count(&plain, gradient), count(&lean, gradient)), (2 * BLOCKS, 2 * BLOCKS), "{gradient}");
    }
}

/// Convolutions of forward that one step of a chain runs on the CPU, in segments as `forward` says.
fn convolutions(forward: impl FnOnce(&[ResBlock], Tensor<5>) -> Tensor<5>) -> usize {
    let operations = record(|device| {
        as_on_cpu(|| {
            random::seed(device, 1);
            let blocks: Vec<_> = (0..BLOCKS).map(|_| ResBlock::new(8, device)).collect();
            let x = Tensor::<5>::zeros([1, 8, 16, 16, 16], device);
            let mut gradients = backward(forward(&blocks, x).powf_scalar(2.0).mean());
            assert!(gradients_are_recorded(&blocks, &mut gradients));
        });
    });
    let markers = operations.iter().filter_map(|operation| match operation {
        OperationIr::Custom(marker) => Marker::of(marker),
        _ => None,
    });
    markers.filter(|marker| matches!(marker, Marker::Kernel { name: "conv3d", .. })).count()
}

#[test]
fn the_convolution_that_makes_a_segments_output_is_not_run_again() {
    let kept = convolutions(|blocks, x| lean_chain(blocks, x, false));
    assert_eq!(kept, 2 * BLOCKS);
    assert_eq!(convolutions(|blocks, x| lean_chain(blocks, x, true)), kept + BLOCKS);
    // one segment of all: its last convolution alone
    let together = |blocks: &[ResBlock], x: Tensor<5>| {
        recompute(&blocks.to_vec(), x, |blocks: &Vec<ResBlock>, x| lean_chain(blocks, x, false))
    };
    assert_eq!(convolutions(together), kept + 2 * BLOCKS - 1);
    // segments in a segment: in its second run each but the last runs whole; then half of each again
    let nested = |blocks: &[ResBlock], x: Tensor<5>| {
        recompute(&blocks.to_vec(), x, |blocks: &Vec<ResBlock>, x| lean_chain(blocks, x, true))
    };
    assert_eq!(convolutions(nested), kept + (2 * BLOCKS - 1) + BLOCKS);
    // of segments of one convolution nothing
    let alone = |blocks: &[ResBlock], x: Tensor<5>| {
        blocks.iter().fold(x, |x, block| {
            let h = recompute(block, x.clone(), ResBlock::first_half);
            recompute(block, (h, x), |block: &ResBlock, (h, x)| block.second_half(h, x))
        })
    };
    assert_eq!(convolutions(alone), kept);
}

fn gradients_are_recorded(blocks: &Vec<ResBlock>, gradients: &mut Gradients) -> bool {
    let parameters = gradients.take_module(blocks);
    parameters.len() == blocks.len() * 8
}

#[test]
fn what_needs_no_gradient_gets_none() {
    let operations = record(|device| {
        let blocks: Vec<_> = (0..2).map(|_| ResBlock::new(8, device).no_grad()).collect();
        let x = Tensor::<5>::zeros([1, 8, 16, 16, 16], device).require_grad();
        assert!(backward(chain(&blocks, x.clone(), true).sum()).take(&x).is_some());
    });
    assert_eq!(count(&operations, "Conv3dXBackward"), 4);
    assert_eq!(count(&operations, "Conv3dWeightBackward"), 0, "the weights are frozen");
}
