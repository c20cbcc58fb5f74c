//! Convolutions in half precision in a card's matrix units, with sums in float32.

use burn::tensor::DType;
use burn_cubecl::cubecl::ir::{ElemType, FloatKind};
use burn_cubecl::kernel::cast;
use burn_cubecl::ops::{permute_nchw_to_nhwc, permute_nhwc_to_nchw};
use burn_cubecl::tensor::CubeTensor;
use cubek::convolution::{
    AcceleratedTileKind, ConvAlgorithm, ConvolutionArgs, ConvolutionInputs, Strategy, launch_ref,
};
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::std::InputBinding;
use leanburn_kernels::conv::{ConvSettings, ConvShape};

use crate::cube::kernels::volume::{element, small};

/// The fewest channels, in and out, that fill a matrix unit's tile well enough.
const FEWEST_CHANNELS: usize = 8;

/// `conv3d(x, weight) + bias`, channels last, if the device has matrix units for it.
///
/// One of CubeK's implicit products of matrices, without tuning: on an H100 through Vulkan it is the only one of six that is there.
pub(super) fn forward(x: &CubeTensor, weight: &CubeTensor, bias: &CubeTensor, shape: &ConvShape) -> Option<CubeTensor> {
    let ConvSettings { stride, dilation, padding, groups } = shape.settings();
    let [channels_out, channels_in, ..] = shape.weight_dims();
    let is_filled = channels_in.min(channels_out) >= FEWEST_CHANNELS && shape.output_len() > 0;
    if groups != 1 || !is_filled || !has_matrix_units(x) {
        return None;
    }
    let [batch_size, channels, depth, height, width] = shape.output_dims();
    let y = small(x, &[batch_size, depth, height, width, channels], x.dtype);
    let bound = |tensor: CubeTensor| {
        let element = element(tensor.dtype);
        InputBinding::new(tensor.binding(), element)
    };
    let half = element(x.dtype);
    let inputs = ConvolutionInputs::Forward {
        input: bound(permute_nchw_to_nhwc(x.clone())),
        weight: bound(permute_nchw_to_nhwc(cast(weight.clone(), x.dtype))),
        bias: Some(bound(cast(bias.clone(), x.dtype))),
        out: y.clone().binding(),
    };
    let strategy =
        Strategy::Inferred { algorithm: ConvAlgorithm::SimpleSyncCyclic, tile_kind: AcceleratedTileKind::Cmma };
    let arguments = ConvolutionArgs { stride, padding: padding.map(|[before, _]| before), dilation };
    let elements = MatmulElems::from_globals(&MatmulGlobalElems { lhs: half, rhs: half, out: half });
    launch_ref(&strategy, &x.client, inputs, arguments, elements).ok()?;
    Some(permute_nhwc_to_nchw(y))
}

/// Whether matrix units multiply values of the tensor's dtype and add up in float32.
fn has_matrix_units(x: &CubeTensor) -> bool {
    if !matches!(x.dtype, DType::F16 | DType::BF16) {
        return false;
    }
    let (half, wide) = (element(x.dtype), ElemType::Float(FloatKind::F32));
    let units = &x.client.properties().features.matmul.cmma;
    units.iter().any(|unit| unit.a_type == half && unit.b_type == half && unit.cd_type == wide)
}
