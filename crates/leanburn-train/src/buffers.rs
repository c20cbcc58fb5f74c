//! The state of a module that is not trained: running statistics.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData, kind::BridgeTensor};
use leanburn_ops::recording::is_recording;

use crate::ranks::Group;

/// Values of a module's tensors that no gradient reaches, at one time.
///
/// Forward moves running statistics, on infinite activations too. A step that is left out puts them back.
///
/// # Memory
///
/// Of running statistics only: the tensors are shared with the module, and weights are not held.
#[derive(Debug)]
pub(crate) struct Buffers(Vec<BridgeTensor>);

impl Buffers {
    /// The buffers as they are now.
    pub fn of<M: Module>(module: &M) -> Self {
        struct Take(Vec<BridgeTensor>);
        impl ModuleVisitor for Take {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let tensor = param.val();
                if !tensor.is_require_grad() {
                    self.0.push(tensor.into_bridge());
                }
            }
        }
        settle(module);
        let mut take = Take(Vec::new());
        module.visit(&mut take);
        Self(take.0)
    }

    /// The module with the buffers as they were.
    pub fn restore<M: Module>(&self, module: M) -> M {
        struct Put<'a>(std::slice::Iter<'a, BridgeTensor>);
        impl ModuleMapper for Put<'_> {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                match param.val().is_require_grad() {
                    true => param,
                    false => {
                        let buffer = self.0.next().expect("the module that the buffers are of");
                        param.map(|_| Tensor::from_bridge(buffer.clone()))
                    }
                }
            }
        }
        settle(&module);
        module.map(&mut Put(self.0.iter()))
    }

    /// The module with the buffers that it has on the leading rank.
    pub fn of_leader<M: Module>(group: &Group, module: M) -> M {
        struct Lead<'a>(&'a Group);
        impl ModuleMapper for Lead<'_> {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                if param.val().is_require_grad() {
                    return param;
                }
                let here = param.val().into_data();
                let there = self.0.from_leader(here.as_bytes());
                let there = TensorData::from_bytes_vec(there, here.shape(), here.dtype());
                param.map(|tensor| Tensor::from_data(there, (&tensor.device(), tensor.dtype())))
            }
        }
        settle(&module);
        module.map(&mut Lead(group))
    }
}

/// Makes running statistics take up what forward left for later.
///
/// A recording device rejects the detour, and has no values to settle.
fn settle<M: Module>(module: &M) {
    if !module.devices().iter().any(is_recording) {
        drop(module.valid());
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNorm, BatchNormConfig};
    use burn::tensor::Device;

    use super::*;

    /// Burn's own layer leaves the last update for later.
    fn values(module: &BatchNorm) -> Vec<TensorData> {
        struct Read(Vec<TensorData>);
        impl ModuleVisitor for Read {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.0.push(param.val().into_data());
            }
        }
        let mut read = Read(Vec::new());
        module.valid().visit(&mut read);
        read.0
    }

    #[test]
    fn statistics_go_back_to_where_they_were() {
        let device = Device::flex().autodiff();
        let norm = BatchNormConfig::new(2).init(&device);
        norm.forward(Tensor::<5>::ones([1, 2, 2, 2, 2], &device));
        let (buffers, before) = (Buffers::of(&norm), values(&norm));
        assert_eq!(before.len(), 4);
        assert_eq!(buffers.0.len(), 2);
        for _ in 0..2 {
            norm.forward(Tensor::<5>::full([1, 2, 2, 2, 2], f32::NAN, &device));
        }
        assert_ne!(values(&norm), before);
        norm.forward(Tensor::<5>::full([1, 2, 2, 2, 2], 9.0, &device));
        let norm = buffers.restore(norm);
        assert_eq!(values(&norm), before);
        norm.forward(Tensor::<5>::ones([1, 2, 2, 2, 2], &device));
        assert!(values(&norm).iter().all(|data| data.iter::<f32>().all(f32::is_finite)));
    }
}
