//! What is done to planes, element by element.

use pulp::{Simd, WithSimd};

use super::depth::DepthTransform;
use super::polynomials::{Matrix, PRODUCTS};
use crate::simd::{load, store};
use crate::size::reach;

/// Multiplies planes by one of a transform's matrices, in place.
pub(crate) struct MixPlanes<'a> {
    /// As many of its columns count as there are planes.
    matrix: &'a [[f32; PRODUCTS]],
    planes: usize,
    values: &'a mut [f32],
    /// From one of the planes to the next.
    stride: usize,
    /// Runs within a plane, their length, and the distance from one to the next.
    runs: [usize; 3],
}

impl<'a> MixPlanes<'a> {
    /// By this matrix: `len` values of each plane, `stride` from one to the next.
    pub(crate) fn by(matrix: &'a Matrix, values: &'a mut [f32], stride: usize, len: usize) -> Self {
        Self { matrix, planes: PRODUCTS, values, stride, runs: [1, len, 0] }
    }

    /// Makes the planes of a group, one after the other in `values`, ready for the products.
    pub(crate) fn inputs(transform: &'a DepthTransform, values: &'a mut [f32]) -> Self {
        let (matrix, planes) = (&transform.planes[..transform.products], transform.products);
        let stride = values.len() / planes;
        Self { matrix, planes, values, stride, runs: [1, stride, 0] }
    }

    /// Makes the sums of a group's products, `stride` from one to the next, its output planes.
    pub(crate) fn outputs(
        transform: &'a DepthTransform,
        values: &'a mut [f32],
        stride: usize,
        runs: [usize; 3],
    ) -> Self {
        Self { matrix: &transform.results, planes: transform.products, values, stride, runs }
    }
}

impl WithSimd for MixPlanes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.planes {
            PRODUCTS => self.mix::<S, PRODUCTS>(simd),
            FEWER => self.mix::<S, FEWER>(simd),
            planes => panic!("{planes} planes are mixed nowhere"),
        }
    }
}

/// Planes that are read for a group where each output reads two.
const FEWER: usize = PRODUCTS - 1;

impl MixPlanes<'_> {
    #[inline(always)]
    fn mix<S: Simd, const PLANES: usize>(self, simd: S) {
        let Self { matrix, values, stride, runs: [runs, len, run_stride], .. } = self;
        let end = reach(runs, run_stride, len);
        assert!(end <= stride && reach(PLANES, stride, end) <= values.len() && matrix.len() <= PLANES);
        let whole = len - len % S::F32_LANES;
        for first in (0..runs).map(|run| run * run_stride) {
            let start = values.as_mut_ptr();
            for place in (first..first + whole).step_by(S::F32_LANES) {
                let mut planes = [simd.splat_f32s(0.0); PLANES];
                for (plane, value) in planes.iter_mut().enumerate() {
                    // SAFETY: the run has a whole vector from here on, and each of the planes has the run.
                    *value = unsafe { load::<S>(start.add(plane * stride + place)) };
                }
                for (plane, factors) in matrix.iter().enumerate() {
                    let mut sum = simd.mul_f32s(simd.splat_f32s(factors[0]), planes[0]);
                    for (factor, value) in factors[1..PLANES].iter().zip(&planes[1..]) {
                        sum = simd.mul_add_e_f32s(simd.splat_f32s(*factor), *value, sum);
                    }
                    // SAFETY: as above; the matrix has no more rows than there are planes.
                    unsafe { store::<S>(start.add(plane * stride + place), sum) };
                }
            }
            for place in first + whole..first + len {
                let planes: [f32; PLANES] = std::array::from_fn(|plane| values[plane * stride + place]);
                for (plane, factors) in matrix.iter().enumerate() {
                    let more = factors[1..PLANES].iter().zip(&planes[1..]);
                    let sum = more.fold(factors[0] * planes[0], |sum, (factor, value)| factor.mul_add(*value, sum));
                    values[plane * stride + place] = sum;
                }
            }
        }
    }
}
