//! Saved tensors in fewer bytes, on every engine. Tensors are flat: `[elements]`.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::compress;
use leanburn_kernels::compress::Quantized;

use crate::engine::{Computation, CpuTensor, Engine, Stored, run};
use crate::random;
use crate::recording::{Call, Recorder};

/// Float32 in half of its bytes.
pub(super) fn narrow(x: Tensor<1>) -> Tensor<1> {
    run(Convert { x, dtype: DType::BF16 })
}

/// Bfloat16 in float32.
pub(super) fn widen(x: Tensor<1>) -> Tensor<1> {
    run(Convert { x, dtype: DType::F32 })
}

/// Between float32 and bfloat16.
struct Convert {
    x: Tensor<1>,
    dtype: DType,
}

impl Computation for Convert {
    type Output = Tensor<1>;

    fn engine(&self) -> Engine {
        Engine::of(&self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<1> {
        let [count] = self.x.dims();
        Call::new(recorder, "convert").takes(self.x).costs(count as u64, 0).record_one([count], self.dtype)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<1> {
        let dims = self.x.dims();
        let x = CpuTensor::of(self.x);
        let converted = match self.dtype {
            DType::BF16 => CpuTensor::from_vec(compress::narrow(x.values()), dims),
            _ => CpuTensor::from_vec(compress::widen(x.values()), dims),
        };
        converted.into_tensor()
    }

    fn composed(self) -> Tensor<1> {
        self.x.cast(self.dtype)
    }
}

/// A tensor as 8-bit codes.
pub(super) enum Codes {
    Cpu(Quantized, DType),
    /// Codes, and two numbers for each block; what they stand for.
    Recorded {
        recorded: Box<[Tensor<1>; 2]>,
        count: usize,
        dtype: DType,
    },
}

impl Codes {
    /// Quantises channels of `channel` values each.
    ///
    /// # Panics
    ///
    /// Panics on a GPU.
    pub(super) fn of(x: Tensor<1>, channel: usize) -> Self {
        let (device, dtype) = (x.device(), x.dtype());
        let codes = run(Quantize { x, channel, key: random::rounding_key(&device) });
        codes.unwrap_or_else(|| {
            panic!("Storage::Int8 is for the CPU and {dtype:?} is on {device:?}: use Storage::Bf16 or Storage::Offload there")
        })
    }

    /// The values of the codes.
    pub(super) fn values(self) -> Tensor<1> {
        match self {
            Self::Cpu(quantized, dtype) => crate::engine::with_element!(dtype, E => {
                let values: Vec<E> = quantized.values();
                let count = values.len();
                CpuTensor::from_vec(values, [count]).into_tensor()
            }),
            Self::Recorded { recorded, count, dtype } => {
                let [codes, lines] = *recorded;
                let recorder = Recorder::of(&codes.device()).expect("recorded before");
                let call = Call::new(recorder, "dequantize").takes(codes).takes(lines);
                call.costs(2 * count as u64, 0).record_one([count], dtype)
            }
        }
    }
}

/// To codes; `None` on a GPU.
struct Quantize {
    x: Tensor<1>,
    channel: usize,
    key: u64,
}

impl Computation for Quantize {
    type Output = Option<Codes>;

    fn engine(&self) -> Engine {
        Engine::of(&self.x)
    }

    fn recorded(self, recorder: Recorder) -> Option<Codes> {
        let ([count], dtype) = (self.x.dims(), self.x.dtype());
        let lines = 2 * Quantized::blocks(count, self.channel);
        let call = Call::new(recorder, "quantize").takes(self.x).costs(8 * count as u64, 0);
        // Burn has no float of one byte: half as many of two.
        let mut outputs = call.gives([count.div_ceil(2)], DType::BF16).gives([lines], DType::F32).record();
        let recorded = Box::new([(); 2].map(|()| outputs.next_tensor()));
        Some(Codes::Recorded { recorded, count, dtype })
    }

    fn on_cpu<E: Stored>(self) -> Option<Codes> {
        let (x, dtype) = (CpuTensor::of(self.x.clone()), self.x.dtype());
        Some(Codes::Cpu(Quantized::of(x.values::<E>(), self.channel, self.key), dtype))
    }

    fn composed(self) -> Option<Codes> {
        None
    }
}
