//! Enlargement with a convolution and its gradients on every engine: folded on the CPU, one after the other elsewhere.

use burn::tensor::Tensor;

use super::enlargement::{Enlarge, EnlargeGradient};
use super::folding::{Folded, UpsampleConv};
use crate::engine::{Computation, CpuTensor, Engine, Stored, float32_bytes, run, to_f32};
use crate::numerics::cast_to;
use crate::operations::conv3d::{self, Entry};
use crate::recording::{Call, Recorder};

impl UpsampleConv {
    /// `conv3d(nearest(x), weight) + bias`.
    pub(crate) fn forward(&self, x: &Tensor<5>, weight: &Tensor<5>, bias: Option<&Tensor<1>>) -> Tensor<5> {
        match self.folded() {
            Some(folded) => run(Forward { folded, x, weight, bias }),
            None => self.enlarged_forward(x, weight, bias),
        }
    }

    /// The gradient of the small volume.
    pub(crate) fn data_gradient(&self, gradient: &Tensor<5>, weight: &Tensor<5>) -> Tensor<5> {
        match self.folded() {
            Some(folded) => run(DataGradient { folded, gradient, weight }),
            None => self.enlarged_data_gradient(gradient, weight),
        }
    }

    /// The gradient of the weight, in the weight's shape and dtype.
    pub(crate) fn weight_gradient(&self, x: &Tensor<5>, gradient: &Tensor<5>, weight: &Tensor<5>) -> Tensor<5> {
        match self.folded() {
            Some(folded) => run(WeightGradient { folded, x, gradient, weight }),
            None => self.enlarged_weight_gradient(x, gradient, weight),
        }
    }

    fn enlarged_forward(&self, x: &Tensor<5>, weight: &Tensor<5>, bias: Option<&Tensor<1>>) -> Tensor<5> {
        let (x, entry) = (&run(Enlarge { upsample: self, x }), &Entry::plain());
        run(conv3d::Forward { x, entry, weight, bias, residual: None, shape: &self.shape })
    }

    fn enlarged_data_gradient(&self, gradient: &Tensor<5>, weight: &Tensor<5>) -> Tensor<5> {
        let gradient = run(conv3d::DataGradient { gradient, weight, shape: &self.shape });
        run(EnlargeGradient { upsample: self, gradient })
    }

    fn enlarged_weight_gradient(&self, x: &Tensor<5>, gradient: &Tensor<5>, weight: &Tensor<5>) -> Tensor<5> {
        let (x, entry) = (&run(Enlarge { upsample: self, x }), &Entry::plain());
        run(conv3d::WeightGradient { x, entry, gradient, weight, shape: &self.shape })
    }
}

/// `conv3d(nearest(x), weight) + bias`.
struct Forward<'a> {
    folded: Folded<'a>,
    x: &'a Tensor<5>,
    weight: &'a Tensor<5>,
    bias: Option<&'a Tensor<1>>,
}

impl Computation for Forward<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let copies = float32_bytes(self.weight) + self.folded.bytes();
        self.folded.transposed.recorded(Call::new(recorder, "upsample_conv3d"), self.x, self.weight, copies)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let Self { folded, x, weight, bias } = self;
        folded.transposed.forward::<E>(x, &folded.fold(&to_f32(weight)), bias)
    }

    fn composed(self) -> Tensor<5> {
        self.folded.upsample.enlarged_forward(self.x, self.weight, self.bias)
    }
}

/// The gradient of the small volume.
struct DataGradient<'a> {
    folded: Folded<'a>,
    gradient: &'a Tensor<5>,
    weight: &'a Tensor<5>,
}

impl Computation for DataGradient<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(self.gradient)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let copies = float32_bytes(self.weight) + self.folded.bytes();
        let call = Call::new(recorder, "upsample_conv3d_data_gradient");
        self.folded.transposed.recorded_data_gradient(call, self.gradient, self.weight, copies)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let Self { folded, gradient, weight } = self;
        folded.transposed.data_gradient::<E>(gradient, &folded.fold(&to_f32(weight)))
    }

    fn composed(self) -> Tensor<5> {
        self.folded.upsample.enlarged_data_gradient(self.gradient, self.weight)
    }
}

/// The gradient of the weight, in the weight's shape and dtype.
struct WeightGradient<'a> {
    folded: Folded<'a>,
    x: &'a Tensor<5>,
    gradient: &'a Tensor<5>,
    weight: &'a Tensor<5>,
}

impl Computation for WeightGradient<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let Self { folded, x, gradient, weight } = self;
        let call = Call::new(recorder, "upsample_conv3d_weight_gradient");
        folded.transposed.recorded_weight_gradient(call, x, gradient, weight, folded.bytes())
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let sums = self.folded.unfold(&self.folded.transposed.weight_gradient::<E>(self.x, self.gradient));
        cast_to(CpuTensor::from_vec(sums, self.weight.dims()).into_tensor(), self.weight.dtype())
    }

    fn composed(self) -> Tensor<5> {
        self.folded.upsample.enlarged_weight_gradient(self.x, self.gradient, self.weight)
    }
}
