//! On the recording device a whole step is a list of operations: what is run again can be counted there.

mod common;

use burn::backend::ir::OperationIr;
use burn::module::Module;
use burn::nn::BatchNormConfig;
use burn::prelude::*;
use common::{ResBlock, chain, gradients_of};
use leanburn_ops::{backward, random, recompute};

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

fn gradients_are_recorded(blocks: &Vec<ResBlock>, gradients: &mut leanburn_ops::Gradients) -> bool {
    let parameters = gradients.take_module(blocks);
    parameters.len() == blocks.len() * 8
}

#[test]
fn batch_norm_in_a_segment_records_too() {
    let operations = record(|device| {
        let norm = BatchNormConfig::new(4).init(device);
        let x = Tensor::<5>::zeros([2, 4, 3, 3, 3], device).require_grad();
        let y = (0..2).fold(x.clone(), |x, _| recompute(&norm, x, |norm, x| norm.forward(x)));
        assert!(backward(y.sum()).take(&x).is_some());
        let _ = norm.num_params();
    });
    assert!(!operations.is_empty());
    let _ = gradients_of::<ResBlock>;
}
