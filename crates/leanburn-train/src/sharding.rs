//! Optimizer states split over the ranks of a group: each rank updates its share of the parameters.
//!
//! Source: Rajbhandari et al., [ZeRO](https://arxiv.org/abs/1910.02054), its first two stages: states, and summed gradients. Whole
//! parameters are dealt out, so that optimizers that take norms of a weight (LAMB, Adafactor) do what they do on one process.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use leanburn_common::Bytes;

use crate::gradient_sums::{Trained, given, taken};
use crate::gradients::each_square;
use crate::optimizer::OptimizerConfig;
use crate::ranks::Group;
use crate::shares::Shares;

/// Which rank updates which parameter, and holds the optimizer's states for it.
#[derive(Debug)]
pub(crate) struct Sharding {
    group: Group,
    /// Whose share this process has; of a plan that of the most loaded rank.
    rank: usize,
    ranks: usize,
    /// The rank of each parameter that takes a gradient, in the order of the module.
    owners: Vec<usize>,
    /// Sum of the squares of all gradients, of all ranks.
    squares: f32,
}

impl Sharding {
    /// The parameters of a module dealt out to the ranks of a group.
    pub fn new<M: Module>(module: &M, group: Group) -> Self {
        let (rank, ranks) = (group.ranks().rank(), group.ranks().size());
        Self { group, rank, ranks, owners: balanced(&sizes(module), ranks), squares: 0.0 }
    }

    /// What the most loaded of so many ranks has, without the others: nothing is exchanged.
    pub fn planned<M: Module>(module: &M, ranks: usize) -> Self {
        let sizes = sizes(module);
        let (owners, mut loads) = (balanced(&sizes, ranks), vec![0; ranks]);
        owners.iter().zip(sizes).for_each(|(&owner, size)| loads[owner] += size);
        let rank = (0..ranks).max_by_key(|&rank| loads[rank]).unwrap_or(0);
        Self { group: Group::default(), rank, ranks, owners, squares: 0.0 }
    }

    /// Whether there are no other ranks: what is planned.
    pub fn is_planned(&self) -> bool {
        self.group.is_alone()
    }

    /// The group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Whether this rank updates the parameter of this index.
    pub fn is_own(&self, index: usize) -> bool {
        self.owners[index] == self.rank
    }

    /// The rank that updates the parameter of this index.
    pub fn owner(&self, index: usize) -> usize {
        self.owners[index]
    }

    /// The sums over all ranks of the gradients of this rank's parameters; `None` if no rank has any.
    pub fn sums<M: Module>(&mut self, module: &M, gradients: Option<GradientsParams>) -> Option<GradientsParams> {
        let mut gradients = taken(self.group.ranks(), module, gradients);
        if gradients.iter().all(|gradient| gradient.values.is_none()) {
            return None;
        }
        let vectors = self.owners.iter().zip(&mut gradients);
        let vectors = vectors.filter_map(|(&owner, gradient)| Some((owner, gradient.values.as_mut()?)));
        Shares::new(self.ranks, vectors).reduce_scatter(self.group.ranks());
        for (index, gradient) in gradients.iter_mut().enumerate() {
            gradient.values.take_if(|_| !self.is_own(index));
        }
        let own = given(module, gradients);
        self.squares = self.sum_of_squares(module, &own);
        Some(own)
    }

    /// Added as one process adds them: parameter by parameter, in the order of the module.
    fn sum_of_squares<M: Module>(&self, module: &M, own: &GradientsParams) -> f32 {
        let (mut places, mut squares) = (Vec::new(), Vec::new());
        each_square(module, own, |place, square| {
            places.push(place);
            squares.push(square);
        });
        let squares: Vec<f32> =
            if squares.is_empty() { Vec::new() } else { Tensor::cat(squares, 0).into_data().iter().collect() };
        let here: Vec<(usize, u32)> = places.into_iter().zip(squares.into_iter().map(f32::to_bits)).collect();
        let there = self.group.ranks().gather(&serde_json::to_vec(&here).expect("numbers serialise"));
        let read =
            |said: &Vec<u8>| -> Vec<(usize, u32)> { serde_json::from_slice(said).expect("what another rank wrote") };
        let mut all: Vec<(usize, u32)> = there.iter().flat_map(read).collect();
        all.sort_unstable_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, bits)| f32::from_bits(bits)).reduce(|sum, square| sum + square).unwrap_or(0.0)
    }

    /// Sum of the squares of the gradients that [`sums`](Self::sums) has summed, those of all ranks.
    pub fn squares(&self) -> f32 {
        self.squares
    }

    /// Of gradients those of this rank's parameters, where there are no other ranks.
    pub fn own<M: Module>(&self, module: &M, gradients: GradientsParams) -> GradientsParams {
        struct Own<'a>(&'a Sharding, Trained, GradientsParams, GradientsParams);
        impl ModuleVisitor for Own<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let Some(index) = self.1.index(param) else { return };
                if let Some(gradient) = self.2.remove::<D>(param.id).filter(|_| self.0.is_own(index)) {
                    self.3.register(param.id, gradient);
                }
            }
        }
        let mut own = Own(self, Trained::default(), gradients, GradientsParams::new());
        module.visit(&mut own);
        own.3
    }

    /// The module with the weights that each rank has for its parameters.
    ///
    /// # Memory
    ///
    /// The weights once more, in the memory of the CPU, and two windows of the exchange.
    pub fn gathered<M: Module>(&self, module: M) -> M {
        struct Read<'a>(&'a Sharding, Trained, Vec<(ParamId, Vec<f32>)>);
        impl ModuleVisitor for Read<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let Some(index) = self.1.index(param) else { return };
                let values = match self.0.is_own(index) {
                    true => param.val().into_data().convert::<f32>().try_into_vec().expect("converted to f32"),
                    false => vec![0.0; param.val().shape().num_elements()],
                };
                self.2.push((param.id, values));
            }
        }
        struct Write(HashMap<ParamId, Vec<f32>>);
        impl ModuleMapper for Write {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let Some(values) = self.0.remove(&param.id) else { return param };
                let (id, weight, mapper) = param.consume();
                let data = TensorData::new(values, weight.shape());
                let weight = Tensor::<D>::from_data(data, (&weight.device(), weight.dtype()));
                Param::from_mapped_value(id, weight.require_grad(), mapper)
            }
        }
        let mut read = Read(self, Trained::default(), Vec::new());
        module.visit(&mut read);
        let mut weights = read.2;
        let vectors = self.owners.iter().zip(&mut weights).map(|(&owner, (_, values))| (owner, values));
        Shares::new(self.ranks, vectors).all_gather(self.group.ranks());
        let others = weights.into_iter().enumerate().filter(|(index, _)| !self.is_own(*index));
        module.map(&mut Write(others.map(|(_, weight)| weight).collect()))
    }

    /// Bytes of an optimizer's states for this rank's parameters.
    pub fn state_bytes<M: Module>(&self, optimizer: &OptimizerConfig, module: &M) -> Bytes {
        struct Count<'a>(&'a Sharding, &'a OptimizerConfig, Trained, usize);
        impl ModuleVisitor for Count<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                if self.2.index(param).is_some_and(|index| self.0.is_own(index)) {
                    let weight = param.val();
                    self.3 += self.1.state_values(&weight.dims()) * weight.dtype().size();
                }
            }
        }
        let mut count = Count(self, optimizer, Trained::default(), 0);
        module.visit(&mut count);
        Bytes(count.3 as u64)
    }
}

/// Numbers of each parameter that takes a gradient.
fn sizes<M: Module>(module: &M) -> Vec<usize> {
    struct Sizes(Trained, Vec<usize>);
    impl ModuleVisitor for Sizes {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.0.index(param).is_some() {
                self.1.push(param.val().shape().num_elements());
            }
        }
    }
    let mut sizes = Sizes(Trained::default(), Vec::new());
    module.visit(&mut sizes);
    sizes.1
}

/// The rank that each parameter goes to: the largest first, each to the rank that has the least so far. No rank has more than its even
/// share and `1 - 1 / ranks` of the largest parameter (Graham, [Bounds on Multiprocessing Timing Anomalies](https://doi.org/10.1137/0117039)).
fn balanced(sizes: &[usize], ranks: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(sizes[index]));
    let (mut loads, mut owners) = (vec![0; ranks], vec![0; sizes.len()]);
    for index in order {
        let least = (0..ranks).min_by_key(|&rank| loads[rank]).unwrap_or(0);
        loads[least] += sizes[index];
        owners[index] = least;
    }
    owners
}

/// The module with the ids of its parameters on the leading rank: what optimizers know states by.
pub(crate) fn with_ids_of_leader<M: Module>(group: &Group, module: M) -> M {
    struct Read(Vec<u64>);
    impl ModuleVisitor for Read {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.id.val());
        }
    }
    struct Write(std::vec::IntoIter<u64>);
    impl ModuleMapper for Write {
        fn map_float<const D: usize>(&mut self, mut param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.id = ParamId::from(self.0.next().expect("all ranks have the same module"));
            param
        }
    }
    let mut read = Read(Vec::new());
    module.visit(&mut read);
    let ids = group.from_leader(&serde_json::to_vec(&read.0).expect("numbers serialise"));
    let ids: Vec<u64> = serde_json::from_slice(&ids).expect("what the leading rank wrote");
    module.map(&mut Write(ids.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_up_to_a_part_of_the_largest_parameter() {
        assert_eq!(balanced(&[5, 1, 3, 3], 2), [0, 0, 1, 1]);
        assert_eq!(balanced(&[1], 3), [0]);
        let mut sizes: Vec<usize> = (0..200).map(|index| (index * 7919 + 13) % 1009 * (1 + index % 5)).collect();
        for ranks in 1..12 {
            let mut loads = vec![0; ranks];
            balanced(&sizes, ranks).into_iter().zip(&sizes).for_each(|(owner, size)| loads[owner] += size);
            let (total, largest) = (sizes.iter().sum::<usize>(), sizes.iter().max().unwrap());
            let most = *loads.iter().max().unwrap();
            assert!(ranks * most <= total + (ranks - 1) * largest, "{ranks}: {loads:?}");
            sizes.reverse();
        }
    }
}
