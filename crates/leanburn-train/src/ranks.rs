//! The processes that train one model together.

use std::collections::HashSet;
use std::fmt::Debug;
use std::rc::Rc;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};

/// A group of processes that train one model, each on its own micro-batches: what a trainer needs of it.
///
/// A process is a *rank*, counted from 0. Every rank calls the same functions in the same order; each call returns when all
/// have called it. What is added is added in the order of ranks, so that all ranks hold the same bits, on every run.
///
/// A rank that ends without the others is for the group to notice: it ends them too.
pub trait Ranks: Debug {
    /// The rank of this process.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// The rank of this process among those of its machine, and how many those are: they share its memory and its cards.
    fn on_this_machine(&self) -> (usize, usize);

    /// Replaces the values by their sums over all ranks, added in the order of ranks.
    fn sum(&self, values: &mut [f32]);

    /// What every rank gives, in the order of ranks.
    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;
}

/// The group of a process that is on its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Ranks for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn on_this_machine(&self) -> (usize, usize) {
        (0, 1)
    }

    fn sum(&self, _: &mut [f32]) {}

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        vec![bytes.to_vec()]
    }
}

/// A group that is shared by what runs in it.
#[derive(Clone, Debug)]
pub struct Group(Rc<dyn Ranks>);

impl Default for Group {
    fn default() -> Self {
        Self(Rc::new(Alone))
    }
}

impl<R: Ranks + 'static> From<R> for Group {
    fn from(ranks: R) -> Self {
        Self(Rc::new(ranks))
    }
}

impl Group {
    /// The processes.
    pub fn ranks(&self) -> &dyn Ranks {
        &*self.0
    }

    /// Whether this process is on its own.
    pub fn is_alone(&self) -> bool {
        self.0.size() == 1
    }

    /// Whether this process writes what is written once: checkpoints, metrics, pictures.
    pub fn leads(&self) -> bool {
        self.0.rank() == 0
    }

    /// Whether any rank says so.
    pub fn any(&self, here: bool) -> bool {
        match self.is_alone() {
            true => here,
            false => self.0.gather(&[u8::from(here)]).iter().any(|there| there == &[1]),
        }
    }

    /// What the leading rank gives; the others give nothing.
    pub fn from_leader(&self, here: &[u8]) -> Vec<u8> {
        let here = if self.leads() { here } else { &[] };
        self.0.gather(here).swap_remove(0)
    }
}

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
    let mut take = Take { from: gradients.unwrap_or_default(), seen: HashSet::new(), to: Vec::new() };
    module.visit(&mut take);
    let mut gradients = take.to;
    complete(group.ranks(), &mut gradients);
    sum(group.ranks(), &mut gradients);
    let mut put = Put { from: gradients.into_iter(), seen: HashSet::new(), to: GradientsParams::new() };
    module.visit(&mut put);
    (!put.to.is_empty()).then_some(put.to)
}

/// The gradient of a parameter of so many numbers; none where no rank has it.
struct Gradient {
    values: Option<Vec<f32>>,
    len: usize,
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

/// Takes the gradients of a module out, in the order of its parameters; of a parameter that is there twice, once.
struct Take {
    from: GradientsParams,
    seen: HashSet<ParamId>,
    to: Vec<Gradient>,
}

impl ModuleVisitor for Take {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.val().is_require_grad() && self.seen.insert(param.id) {
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
    seen: HashSet<ParamId>,
    to: GradientsParams,
}

impl ModuleVisitor for Put {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weight = param.val();
        if !weight.is_require_grad() || !self.seen.insert(param.id) {
            return;
        }
        let gradient = self.from.next().expect("the module that they were taken of");
        if let Some(values) = gradient.values {
            let data = TensorData::new(values, weight.shape());
            let device = weight.device().inner();
            self.to.register(param.id, Tensor::<D>::from_data(data, (&device, weight.dtype())));
        }
    }
}
