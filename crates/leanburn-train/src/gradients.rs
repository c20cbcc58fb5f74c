//! What happens to gradients between backward and optimizer.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::Tensor;
use leanburn_ops::recording::value_or;

/// Sums the gradients of micro-batches.
///
/// Burn's accumulator, and whether anything is in it.
#[derive(Debug)]
pub struct Accumulator<M> {
    sum: Sum<M>,
    micro_batches: usize,
}

struct Sum<M>(GradientsAccumulator<M>);

impl<M> std::fmt::Debug for Sum<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GradientsAccumulator").finish_non_exhaustive()
    }
}

impl<M: Module> Default for Accumulator<M> {
    fn default() -> Self {
        Self { sum: Sum(GradientsAccumulator::new()), micro_batches: 0 }
    }
}

impl<M: Module> Accumulator<M> {
    /// Adds the gradients of one micro-batch.
    pub fn add(&mut self, module: &M, gradients: GradientsParams) {
        self.sum.0.accumulate(module, gradients);
        self.micro_batches += 1;
    }

    /// Takes the sum out; `None` if no micro-batch was added.
    pub fn take(&mut self) -> Option<GradientsParams> {
        (std::mem::take(&mut self.micro_batches) > 0).then(|| self.sum.0.grads())
    }
}

/// Gradients ready for the optimizer.
#[derive(Debug)]
pub struct Prepared {
    /// The gradients, unscaled and clipped.
    pub gradients: GradientsParams,
    /// Their global L2 norm before clipping, in f32; infinite or undefined if any gradient is.
    pub norm: f64,
}

/// Divides gradients by the loss scale and clips them to a global norm.
///
/// Source of the clipping: Pascanu et al., [On the difficulty of training recurrent neural
/// networks](https://arxiv.org/abs/1211.5063). One multiplication a parameter, none where the factor is 1; one number is
/// read back from the device.
///
/// # Memory
///
/// One squared gradient at a time.
pub fn prepare_gradients<M: Module>(
    module: &M,
    gradients: GradientsParams,
    loss_scale: f64,
    max_norm: Option<f64>,
) -> Prepared {
    let squares = sum_of_squares(module, &gradients);
    prepare_of_norm(module, gradients, f64::from(squares).sqrt(), (loss_scale, max_norm))
}

/// The same where the norm of the gradients is known, before the division.
pub(crate) fn prepare_of_norm<M: Module>(
    module: &M,
    gradients: GradientsParams,
    norm: f64,
    (loss_scale, max_norm): (f64, Option<f64>),
) -> Prepared {
    let norm = norm / loss_scale;
    let clip = max_norm.filter(|&max_norm| norm > max_norm).map_or(1.0, |max_norm| max_norm / norm);
    let factor = clip / loss_scale;
    let gradients = match factor == 1.0 || !norm.is_finite() {
        true => gradients,
        false => multiplied(module, gradients, factor),
    };
    Prepared { gradients, norm }
}

/// The square of the norm where there are no values: a recorded step clips if the real one may.
const STAND_IN: f32 = f32::MAX;

fn sum_of_squares<M: Module>(module: &M, gradients: &GradientsParams) -> f32 {
    let mut sum: Option<Tensor<1>> = None;
    each_square(module, gradients, |_, square| {
        sum = Some(match sum.take() {
            Some(sum) => sum + square,
            None => square,
        });
    });
    sum.map_or(0.0, |sum| value_or(sum, STAND_IN))
}

/// The sum of the squares of each gradient, with the place of its parameter in the module.
pub(crate) fn each_square<M: Module>(module: &M, gradients: &GradientsParams, each: impl FnMut(usize, Tensor<1>)) {
    struct Squares<'a, F>(&'a GradientsParams, usize, F);
    impl<F: FnMut(usize, Tensor<1>)> ModuleVisitor for Squares<'_, F> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.get::<D>(param.id) {
                (self.2)(self.1, gradient.powi_scalar(2).sum());
            }
            self.1 += 1;
        }
    }
    module.visit(&mut Squares(gradients, 0, each));
}

fn multiplied<M: Module>(module: &M, gradients: GradientsParams, factor: f64) -> GradientsParams {
    struct Multiply {
        from: GradientsParams,
        to: GradientsParams,
        factor: f64,
    }
    impl ModuleVisitor for Multiply {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.from.remove::<D>(param.id) {
                self.to.register(param.id, gradient.mul_scalar(self.factor));
            }
        }
    }
    let mut multiply = Multiply { from: gradients, to: GradientsParams::new(), factor };
    module.visit(&mut multiply);
    multiply.to
}
