//! A module's parameters and flags, taken out by visiting it and put into a copy of it by mapping.

use std::vec::IntoIter;

use burn::backend::DispatchTensor;
use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// The float tensors of a module, buffers included, in visiting order.
pub(super) fn tensors_of<M: Module>(module: &M) -> Vec<DispatchTensor> {
    struct Take(Vec<DispatchTensor>);
    impl ModuleVisitor for Take {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().into_dispatch());
        }
    }
    let mut take = Take(Vec::new());
    module.visit(&mut take);
    take.0
}

/// The training flags of a module (dropout, batch norm), in visiting order.
pub(super) fn flags_of<M: Module>(module: &M) -> Vec<bool> {
    struct Take(Vec<bool>);
    impl ModuleVisitor for Take {
        fn visit_flag(&mut self, flag: &Param<Flag>) {
            self.0.push(flag.val().is_enabled());
        }
    }
    let mut take = Take(Vec::new());
    module.visit(&mut take);
    take.0
}

/// The module with other tensors and flags, both in visiting order.
pub(super) fn with_tensors<M: Module>(module: M, tensors: Vec<DispatchTensor>, flags: Vec<bool>) -> M {
    struct Put(IntoIter<DispatchTensor>, IntoIter<bool>);
    impl ModuleMapper for Put {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let tensor = self.0.next().expect("as many tensors as the module has");
            Param::initialized(param.id, Tensor::from_dispatch(tensor))
        }

        fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
            let enabled = self.1.next().expect("as many flags as the module has");
            flag.with_value(enabled)
        }
    }
    module.map(&mut Put(tensors.into_iter(), flags.into_iter()))
}
