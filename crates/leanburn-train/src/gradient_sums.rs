//! Gradients of a module as numbers, and their sums over ranks.

use std::collections::HashSet;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};

use crate::ranks::{Group, Ranks};

/// The sums over all ranks of the gradients of a module; `None` if no rank has any. A gradient that a rank lacks counts as zero there.
///
/// # Memory
///
/// The gradients, in the memory of the CPU while they are summed, and 4 MiB to 8 MiB of small ones that are summed at once.
pub(crate) fn summed<M: Module>(
    group: &Group,
    module: &M,
    gradients: Option<GradientsParams>,
) -> Option<GradientsParams> {
    if group.is_alone() {
        return gradients;
    }
    let mut gradients = taken(group.ranks(), module, gradients);
    sum(group.ranks(), &mut gradients);
    let sums = given(module, gradients);
    (!sums.is_empty()).then_some(sums)
}

/// The gradient of a parameter of so many numbers; none where no rank has it.
pub(crate) struct Gradient {
    pub values: Option<Vec<f32>>,
    pub len: usize,
}

/// The gradients of a module on this rank, in the order of its parameters, with zeros for those that only others have.
pub(crate) fn taken<M: Module>(ranks: &dyn Ranks, module: &M, gradients: Option<GradientsParams>) -> Vec<Gradient> {
    let mut take = Take { from: gradients.unwrap_or_default(), trained: Trained::default(), to: Vec::new() };
    module.visit(&mut take);
    complete(ranks, &mut take.to);
    take.to
}

/// Gradients as an optimizer takes them.
pub(crate) fn given<M: Module>(module: &M, gradients: Vec<Gradient>) -> GradientsParams {
    let mut put = Put { from: gradients.into_iter(), trained: Trained::default(), to: GradientsParams::new() };
    module.visit(&mut put);
    put.to
}

/// Gives zeros to this rank for gradients that others have.
fn complete(ranks: &dyn Ranks, gradients: &mut [Gradient]) {
    let here: Vec<u8> = gradients.iter().map(|gradient| u8::from(gradient.values.is_some())).collect();
    let there = ranks.gather(&here);
    for (index, gradient) in gradients.iter_mut().enumerate() {
        if gradient.values.is_none() && there.iter().any(|rank| rank.get(index) == Some(&1)) {
            gradient.values = Some(vec![0.0; gradient.len]);
        }
    }
}

/// Sums large gradients one by one, and small ones together, so that a message is worth its way.
fn sum(ranks: &dyn Ranks, gradients: &mut [Gradient]) {
    const BUCKET: usize = 1 << 20;
    let mut together: Vec<&mut Vec<f32>> = Vec::new();
    for values in gradients.iter_mut().filter_map(|gradient| gradient.values.as_mut()) {
        match values.len() >= BUCKET {
            true => ranks.sum(values),
            false => together.push(values),
        }
        if together.iter().map(|values| values.len()).sum::<usize>() >= BUCKET {
            sum_together(ranks, &mut together);
        }
    }
    sum_together(ranks, &mut together);
}

fn sum_together(ranks: &dyn Ranks, gradients: &mut Vec<&mut Vec<f32>>) {
    let mut bucket: Vec<f32> = gradients.iter().flat_map(|values| values.iter().copied()).collect();
    ranks.sum(&mut bucket);
    let mut sums = bucket.as_slice();
    for values in gradients.drain(..) {
        let (first, rest) = sums.split_at(values.len());
        values.copy_from_slice(first);
        sums = rest;
    }
}

/// Counts the parameters of a module that take gradients, in its order; one that is there twice, once.
#[derive(Default)]
pub(crate) struct Trained(HashSet<ParamId>);

impl Trained {
    /// The index of a parameter, where it takes a gradient and is there for the first time.
    pub fn index<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> Option<usize> {
        let index = self.0.len();
        (param.val().is_require_grad() && self.0.insert(param.id)).then_some(index)
    }
}

/// Takes the gradients of a module out, in the order of its parameters; of a parameter that is there twice, once.
struct Take {
    from: GradientsParams,
    trained: Trained,
    to: Vec<Gradient>,
}

impl ModuleVisitor for Take {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.trained.index(param).is_some() {
            let values = self
                .from
                .remove::<D>(param.id)
                .map(|gradient| gradient.into_data().convert::<f32>().try_into_vec().expect("converted to f32"));
            self.to.push(Gradient { values, len: param.val().shape().num_elements() });
        }
    }
}

/// Puts them back, in the same order.
struct Put {
    from: std::vec::IntoIter<Gradient>,
    trained: Trained,
    to: GradientsParams,
}

impl ModuleVisitor for Put {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.trained.index(param).is_none() {
            return;
        }
        let weight = param.val();
        let gradient = self.from.next().expect("the module that they were taken of");
        if let Some(values) = gradient.values {
            let data = TensorData::new(values, weight.shape());
            let device = weight.device().inner();
            self.to.register(param.id, Tensor::<D>::from_data(data, (&device, weight.dtype())));
        }
    }
}
