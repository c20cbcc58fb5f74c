//! Which method a gather is computed by: directly, position by position, or with transformed rows or depth where that is faster.

use half::bf16;
use pulp::Arch;

use crate::conv::gather::problem::Gather;
use crate::conv::matrix;
use crate::conv::operands::Input;
use crate::conv::packing::rows::SharedOutput;
use crate::conv::pointwise;
use crate::conv::transforms::depth_transform::DepthTransform;
use crate::conv::transforms::winograd;
use crate::tile_products::Unit;
use crate::{Stored, simd};

/// How a gather is computed best.
enum Method {
    /// By itself at each position.
    Pointwise,
    /// By rows transformed.
    Rows,
    /// With depth transformed: each of its phases.
    Depth(Vec<DepthTransform>),
    /// Directly.
    Direct,
}

impl Method {
    fn of(gather: &Gather) -> Self {
        if pointwise::pays(gather) {
            return Self::Pointwise;
        }
        let depth = DepthTransform::of(gather);
        let near = depth.iter().any(|transform| transform.reads_few_weights(gather));
        match depth.is_empty() {
            _ if winograd::pays(gather) && !near => Self::Rows,
            true => Self::Direct,
            false => Self::Depth(depth),
        }
    }
}

/// Computes a gather by the best method: along the depth or by rows transformed where that pays, else directly.
pub(crate) fn run<E: Stored>(
    gather: &Gather,
    arch: Arch,
    input: Input<'_, E>,
    weight: &[f32],
    output: SharedOutput<'_, E>,
) {
    match Method::of(gather) {
        Method::Pointwise => pointwise::run(gather, arch, input, weight, &output),
        Method::Rows => winograd::run(gather, arch, input, weight, output),
        Method::Direct => gather.run(arch, None, input, weight, &output),
        Method::Depth(phases) => {
            phases.into_iter().for_each(|transform| gather.run(arch, Some(transform), input, weight, &output));
        }
    }
}

/// [`run`] of bfloat16: by [products of tiles](matrix), where there is a unit for them and they pay.
pub(crate) fn run_bf16(
    gather: &Gather,
    arch: Arch,
    input: Input<'_, bf16>,
    weight: &[f32],
    output: SharedOutput<'_, bf16>,
) {
    match unit_of(gather) {
        Some(unit) => matrix::run::run(unit, gather, arch, input, weight, output),
        None => run(gather, arch, input, weight, output),
    }
}

/// Bytes that [`run_bf16`] takes at most, in the current pool.
pub(crate) fn workspace_bf16(gather: &Gather, arch: Arch) -> usize {
    unit_of(gather).map_or_else(|| workspace(gather, arch), |unit| matrix::run::workspace(unit, gather))
}

/// What multiplies tiles of this gather, if that pays.
fn unit_of(gather: &Gather) -> Option<Unit> {
    simd::unit().filter(|unit| matrix::run::pays(*unit, gather))
}

/// Bytes that [`run`] takes at most, in the current pool.
pub(crate) fn workspace(gather: &Gather, arch: Arch) -> usize {
    match Method::of(gather) {
        Method::Pointwise => pointwise::workspace(gather),
        Method::Rows => winograd::workspace(gather, arch),
        Method::Direct => gather.workspace(arch, None),
        Method::Depth(phases) => {
            let each = phases.into_iter().map(|transform| gather.workspace(arch, Some(transform)));
            each.max().unwrap_or(0)
        }
    }
}
