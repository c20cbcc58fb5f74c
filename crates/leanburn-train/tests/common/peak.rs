//! The planned peak of a step, and the one on the heap.

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_common::Bytes;
use leanburn_ops::Tensors;
use leanburn_plan::{FlexMemory, Target};
use leanburn_train::{CountingAllocator, TrainError, Trainer, Workload, record_step};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Numbers that are not all alike: of zeros, float16 makes infinite gradients, and a step that is left out has no states.
pub fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|index: usize| (index * 37 % 101) as f32 / 101.0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Has autodiff let go of the graphs of tensors that are gone.
///
/// Each weight has a graph of its own, and autodiff searches for unused ones at the end of the next backward. Those of the
/// case before would count as held before this one, and as let go in it.
fn forget_graphs(device: &Device) {
    drop(Tensor::<1>::ones([1], device).require_grad().backward());
}

/// What a trainer's second step is planned to hold at most, and what it holds.
///
/// The first step is there for the states of the optimizers, whose size is that of the weights: it is taken on small volumes.
pub fn planned_and_measured<W: Workload<Batch: Tensors + Clone>>(
    build: impl Fn(&Device) -> Result<Trainer<W>, TrainError>,
    batch: impl Fn(&Device) -> W::Batch,
    small_batch: impl Fn(&Device) -> W::Batch,
) -> (Bytes, Bytes) {
    let planned = record_step(Target::Cpu, &build, &batch).unwrap().timeline(&FlexMemory).peak();
    let device = Device::flex().autodiff();
    forget_graphs(&device);
    let before = Bytes(HEAP.current_usage() as u64);
    let mut trainer = build(&device).unwrap();
    let mut step = |batch: &dyn Fn(&Device) -> W::Batch| {
        let report = trainer.step(&mut std::iter::from_fn(|| Some(Ok::<_, TrainError>(batch(&device))))).unwrap();
        assert!(report.learners.iter().all(|learner| !learner.skipped), "a step that is left out makes no states");
        report.memory.expect("the heap is counted").peak
    };
    step(&small_batch);
    (planned, step(&batch) - before)
}
