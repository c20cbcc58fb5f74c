//! On the recording device a whole step is a list of operations: what is run again can be counted there.

mod common;

use burn::backend::ir::OperationIr;
use burn::prelude::*;
use common::{ResBlock, chain};
use leanburn_ops::{Gradients, backward, random};

/// Operations of one forward and backward.
fn record(step: impl FnOnce(&Device)) -> Vec<OperationIr> {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        step(&device.clone().autodiff());
        scope.complete([], [])
    });
    captured.expect("a complete recording").graph.operations
}

fn convolutions(operations: &[OperationIr]) -> usize {
    operations.iter().filter(|operation| format!("{operation:?}").contains("Conv3d(")).count()
}

#[test]
fn every_block_runs_its_two_convolutions_once_more() {
    const BLOCKS: usize = 3;
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
    assert!(convolutions(&plain) >= 2 * BLOCKS);
    assert_eq!(convolutions(&lean) - convolutions(&plain), 2 * BLOCKS);
}

fn gradients_are_recorded(blocks: &Vec<ResBlock>, gradients: &mut Gradients) -> bool {
    let parameters = gradients.take_module(blocks);
    parameters.len() == blocks.len() * 8
}
