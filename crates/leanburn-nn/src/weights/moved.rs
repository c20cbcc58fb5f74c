//! A module on another device.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};

/// The module with its values on another device, of whatever kind. What is trained is trained there as well: make the module
/// on a device with autodiff.
///
/// A seed draws other numbers on a GPU than on the CPU. A model that is made on the CPU and moved starts from the same
/// weights everywhere.
#[must_use]
pub fn moved<M: Module>(module: M, device: &Device) -> M {
    module.map(&mut To(device))
}

struct To<'a>(&'a Device);

impl ModuleMapper for To<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, values, _) = param.consume();
        let is_trained = values.is_require_grad();
        let values = Tensor::from_data(values.into_data(), self.0);
        Param::initialized(id, if is_trained { values.require_grad() } else { values })
    }
}
