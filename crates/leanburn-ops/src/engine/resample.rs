//! Separable linear maps along the three axes of a volume.

use burn::tensor::{Tensor, TensorData};
use leanburn_kernels::{axis_map::AxisMap, resample};

use crate::cpu::{CpuTensor, with_element};
use crate::cube;
use crate::numerics::cast_to;
use crate::recording::Call;

/// Applies one map to each axis, depth first.
pub(crate) fn resample3d(x: Tensor<5>, maps: &[AxisMap; 3]) -> Tensor<5> {
    let [batch_size, channels, ..] = x.dims();
    let [depth, height, width] = maps.each_ref().map(AxisMap::output_len);
    if let Some(call) = Call::on("resample3d", &x) {
        let (dims, dtype) = ([batch_size, channels, depth, height, width], x.dtype());
        let flops = 8 * dims.iter().product::<usize>().max(x.shape().num_elements()) as u64;
        return call.takes(x).costs(flops, 0).record_one(dims, dtype);
    }
    if cube::holds(&x) {
        return cube::resample3d(x, maps);
    }
    if !CpuTensor::holds(&x) {
        return composed(x, maps);
    }
    let x = CpuTensor::of(x);
    with_element!(x.dtype(), E => {
        let mut y = CpuTensor::zeros::<E, 5>([batch_size, channels, depth, height, width]);
        resample::resample(batch_size * channels, maps.each_ref(), x.values::<E>(), y.values_mut::<E>());
        y.into_tensor()
    })
}

/// One product with a small matrix for each axis.
fn composed(x: Tensor<5>, maps: &[AxisMap; 3]) -> Tensor<5> {
    let dtype = x.dtype();
    maps.iter().enumerate().filter(|(_, map)| !map.is_identity()).fold(x, |x, (axis, map)| {
        let mut dims = x.dims();
        let [before, after] = [&dims[..axis + 2], &dims[axis + 3..]].map(|dims| dims.iter().product::<usize>());
        let matrix = TensorData::new(map.dense(), [1, map.output_len(), map.input_len()]);
        let matrix = cast_to(Tensor::<3>::from_data(matrix, &x.device()), dtype);
        let rows: Tensor<3> = x.reshape([before, map.input_len(), after]);
        dims[axis + 2] = map.output_len();
        matrix.expand([before, map.output_len(), map.input_len()]).matmul(rows).reshape(dims)
    })
}
