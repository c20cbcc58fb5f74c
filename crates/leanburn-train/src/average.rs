//! Exponential moving average of weights.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, kind::BridgeTensor};
use leanburn_ops::recording::valid;

/// A module whose weights follow another's: `average = decay * average + (1 - decay) * weights`.
///
/// Source: Polyak and Juditsky, [Acceleration of Stochastic Approximation by Averaging](https://doi.org/10.1137/0330046).
///
/// # Memory
///
/// One more copy of the weights.
#[derive(Clone, Debug)]
pub struct WeightAverage<M> {
    decay: f64,
    average: Option<M>,
}

impl<M: Module> WeightAverage<M> {
    /// Starts at the module's weights. `decay` is in [0, 1).
    pub fn new(module: &M, decay: f64) -> Self {
        Self { decay, average: Some(valid(module)) }
    }

    /// The module with averaged weights, without autodiff.
    pub fn module(&self) -> &M {
        self.average.as_ref().expect("only absent during an update")
    }

    /// Starts again at the module's weights.
    pub fn restart(&mut self, module: &M) {
        self.average = Some(valid(module));
    }

    /// Changes how much of the average stays.
    pub fn set_decay(&mut self, decay: f64) {
        self.decay = decay;
    }

    /// Replaces the average, for instance by a checkpoint's.
    pub fn set(&mut self, module: M) {
        self.average = Some(module);
    }

    /// Moves the average towards the module's weights and buffers.
    pub fn update(&mut self, module: &M) {
        struct Take(Vec<BridgeTensor>);
        impl ModuleVisitor for Take {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.0.push(param.val().into_bridge());
            }
        }
        struct Move(std::vec::IntoIter<BridgeTensor>, f64);
        impl ModuleMapper for Move {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let towards = Tensor::<D>::from_bridge(self.0.next().expect("two modules of one shape"));
                let decay = self.1;
                param.map(|average| average.mul_scalar(decay) + towards.mul_scalar(1.0 - decay))
            }
        }
        let mut take = Take(Vec::new());
        valid(module).visit(&mut take); // with its running statistics settled
        let average = self.average.take().expect("only absent during an update");
        self.average = Some(average.map(&mut Move(take.0.into_iter(), self.decay)));
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNormConfig, Linear, LinearConfig};
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn follows_the_weights() {
        let device = Device::flex().autodiff();
        let fill = |value: f64| -> Linear {
            struct Fill(f64);
            impl ModuleMapper for Fill {
                fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                    param.map(|tensor| tensor.zeros_like().add_scalar(self.0))
                }
            }
            LinearConfig::new(2, 2).init(&device).map(&mut Fill(value))
        };
        let mut average = WeightAverage::new(&fill(0.0), 0.75);
        average.update(&fill(1.0));
        average.update(&fill(1.0));
        let expected = 1.0 - 0.75f32 * 0.75;
        let found = average.module().weight.val().into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(found, vec![expected; 4]);
    }

    #[test]
    fn follows_running_statistics_without_delay() {
        let device = Device::flex().autodiff();
        let norm = BatchNormConfig::new(1).with_momentum(1.0).init(&device);
        let mut average = WeightAverage::new(&norm, 0.5);
        norm.forward(Tensor::<5>::full([1, 1, 2, 2, 2], 8.0, &device));
        average.update(&norm);
        struct Read(Vec<f32>);
        impl ModuleVisitor for Read {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.0.push(param.val().into_scalar());
            }
        }
        let mut read = Read(Vec::new());
        average.module().visit(&mut read);
        assert_eq!(read.0, [1.0, 0.0, 4.0, 0.5], "scale, shift, mean, variance");
    }
}
