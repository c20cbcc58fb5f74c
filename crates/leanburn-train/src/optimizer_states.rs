//! Optimizer states of some parameters: those of a rank out of a checkpoint, those of all ranks into one.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsParams, ModuleOptimizer, OptimizerRecord};
use burn::tensor::{Bytes, Tensor};

use crate::gradient_sums::Trained;
use crate::optimizer::{Moved, OptimizerConfig};

/// The record of an optimizer for a module without the states of the parameters, by index, that `is_kept` leaves out.
pub(crate) fn kept<M: Module>(
    config: &OptimizerConfig,
    record: OptimizerRecord,
    module: &M,
    is_kept: impl Fn(usize) -> bool,
) -> OptimizerRecord {
    let mut from = config.mover(&Moved::default(), false).load_record(record);
    from.step(0.0, module.clone(), chosen(module, |index| !is_kept(index)));
    from.to_record()
}

/// An optimizer with the states that each rank has, as bytes of a record, for the parameters of which it is the owner.
pub(crate) fn joined<M: Module>(
    config: &OptimizerConfig,
    parts: Vec<Vec<u8>>,
    module: &M,
    owner: impl Fn(usize) -> usize,
) -> ModuleOptimizer {
    let moved = Moved::default();
    let mut all = config.mover(&moved, true);
    for (rank, bytes) in parts.into_iter().enumerate() {
        let record = OptimizerRecord::from_bytes(Bytes::from_bytes_vec(bytes)).expect("what another rank wrote");
        let of_rank = || chosen(module, |index| owner(index) == rank);
        config.mover(&moved, false).load_record(record).step(0.0, module.clone(), of_rank());
        all.step(0.0, module.clone(), of_rank());
    }
    all
}

/// The weights of some parameters in place of their gradients.
fn chosen<M: Module>(module: &M, is_chosen: impl Fn(usize) -> bool) -> GradientsParams {
    struct Choose<F>(F, Trained, GradientsParams);
    impl<F: Fn(usize) -> bool> ModuleVisitor for Choose<F> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.1.index(param).is_some_and(&self.0) {
                self.2.register(param.id, param.val().inner());
            }
        }
    }
    let mut choose = Choose(is_chosen, Trained::default(), GradientsParams::new());
    module.visit(&mut choose);
    choose.2
}
