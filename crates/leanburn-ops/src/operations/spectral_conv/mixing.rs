//! Products of spectra, on every engine.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::fourier::{Mixing, Part};

use super::spectra::parts;
use crate::engine::{Computation, CpuTensor, Engine, Stored};
use crate::numerics::cast_to;
use crate::recording::{Call, Recorder};

/// One of three sets of spectra (input, output, weight) from the other two, in this order.
pub(super) struct Mix<'a> {
    pub(super) part: Part,
    pub(super) operands: [&'a Tensor<4>; 2],
    pub(super) mixing: &'a Mixing,
}

impl Mix<'_> {
    fn output_dims(&self) -> [usize; 4] {
        let [[_, a, b, modes], [_, c, d, _]] = self.operands.map(Tensor::dims);
        match self.part {
            Part::Output => [2, a, d, modes],
            Part::Input => [2, a, c, modes],
            Part::Weight => [2, b, d, modes],
        }
    }
}

impl Computation for Mix<'_> {
    type Output = Tensor<4>;

    /// That of the first operand, which is as wide as the volume, at least float32.
    fn engine(&self) -> Engine {
        Engine::of(self.operands[0])
    }

    fn recorded(self, recorder: Recorder) -> Tensor<4> {
        let copies = self.operands.iter().filter(|operand| operand.dtype() != DType::F32);
        let workspace = copies.map(|operand| 4 * operand.shape().num_elements()).sum();
        let call = Call::new(recorder, "mix_spectra").reads(self.operands[0]).reads(self.operands[1]);
        call.costs(self.mixing.flops(), workspace).record_one(self.output_dims(), DType::F32)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<4> {
        let mut result = CpuTensor::zeros::<f32, 4>(self.output_dims());
        let operands = self.operands.map(|operand| CpuTensor::of(cast_to(operand.clone(), DType::F32)));
        let [a, b] = operands.each_ref().map(|operand| operand.values::<f32>());
        self.mixing.compute(self.part, [a, b], result.values_mut::<f32>());
        result.into_tensor()
    }

    /// Products of matrices, one for each frequency, of real and imaginary parts.
    fn composed(self) -> Tensor<4> {
        let dtype = self.operands[0].dtype();
        let [[a_real, a_imaginary], [b_real, b_imaginary]] =
            self.operands.map(|operand| parts(&cast_to(operand.clone(), dtype)).map(|part| part.permute([2, 0, 1])));
        let (turn_a, turn_b) = match self.part {
            Part::Output => (false, false),
            Part::Input => (false, true),
            Part::Weight => (true, false),
        };
        let transposed = |part: Tensor<3>, turn: bool| if turn { part.swap_dims(1, 2) } else { part };
        let [a_real, a_imaginary] = [a_real, a_imaginary].map(|part| transposed(part, turn_a));
        let [b_real, b_imaginary] = [b_real, b_imaginary].map(|part| transposed(part, turn_b));
        // A transposed operand is conjugated.
        let a_imaginary = if turn_a { a_imaginary.neg() } else { a_imaginary };
        let b_imaginary = if turn_b { b_imaginary.neg() } else { b_imaginary };
        let real = a_real.clone().matmul(b_real.clone()) - a_imaginary.clone().matmul(b_imaginary.clone());
        let imaginary = a_real.matmul(b_imaginary) + a_imaginary.matmul(b_real);
        Tensor::stack::<4>(vec![real, imaginary], 0).permute([0, 2, 3, 1])
    }
}
