//! What is done to planes, element by element.

use pulp::{Simd, WithSimd};

use super::polynomials::PRODUCTS;
use crate::conv::transforms::minimal_filter;
use crate::simd::{load, load_part_from, store, store_part_to};
use crate::size::reach;

/// Planes that are read for a group where each output reads two.
const FEWER: usize = PRODUCTS - 1;

/// Makes other planes of planes, in place.
pub(crate) struct MixPlanes<'a> {
    mix: Mix<'a>,
    values: &'a mut [f32],
    /// From one of the planes to the next.
    stride: usize,
    /// Runs within a plane, their length, and the distance from one to the next.
    runs: [usize; 3],
    /// Planes that are handed on.
    carried: Carried<'a>,
}

/// What stands in the last planes of a group before they are mixed, which the next group begins with.
#[derive(Default)]
pub(crate) struct Carried<'a> {
    /// How many planes.
    pub count: usize,
    /// Whether those of the group before are there, in place of this one's first.
    pub known: bool,
    /// One after the other.
    pub planes: &'a mut [f32],
}

/// What is made of what.
#[derive(Clone, Copy)]
pub(crate) enum Mix<'a> {
    /// Of [`PRODUCTS`] planes of the input as many, ready for the products.
    Inputs,
    /// Of [`PRODUCTS`] products so many output planes, three or four.
    Outputs(usize),
    /// Of so many planes of the output's gradient, three or four, [`PRODUCTS`] that are ready for the products of a kernel's gradient.
    Gradients(usize),
    /// Of [`FEWER`] planes as many as the matrix has rows, all of whose columns but the last count.
    Fewer(&'a [[f32; PRODUCTS]]),
}

impl<'a> MixPlanes<'a> {
    /// All values of each plane, `stride` from one to the next.
    pub(super) fn packed(mix: Mix<'a>, values: &'a mut [f32], [stride, len]: [usize; 2], carried: Carried<'a>) -> Self {
        Self { mix, values, stride, runs: [1, len, 0], carried }
    }

    /// Some runs of each plane, `stride` from one plane to the next.
    pub(crate) fn runs(mix: Mix<'a>, values: &'a mut [f32], stride: usize, runs: [usize; 3]) -> Self {
        Self { mix, values, stride, runs, carried: Carried::default() }
    }
}

impl Mix<'_> {
    /// Planes that are read.
    pub(super) fn read(&self) -> usize {
        match self {
            Self::Inputs | Self::Outputs(_) => PRODUCTS,
            Self::Gradients(planes) => *planes,
            Self::Fewer(_) => FEWER,
        }
    }
}

/// What is done with planes, given how `FROM` of them become `TO`.
pub(super) trait WithMix {
    fn with<S: Simd, const FROM: usize, const TO: usize>(self, simd: S, mix: impl Fn([S::f32s; FROM]) -> [S::f32s; TO]);
}

impl Mix<'_> {
    #[inline(always)]
    pub(super) fn choose<S: Simd>(self, simd: S, planes: impl WithMix) {
        match self {
            Mix::Inputs => planes.with::<S, PRODUCTS, PRODUCTS>(
                simd,
                #[inline(always)]
                |planes| minimal_filter::input(simd, planes),
            ),
            Mix::Outputs(4) => planes.with::<S, PRODUCTS, 4>(
                simd,
                #[inline(always)]
                |products| minimal_filter::output(simd, products),
            ),
            Mix::Outputs(3) => planes.with::<S, PRODUCTS, 3>(
                simd,
                #[inline(always)]
                |products| minimal_filter::output(simd, products),
            ),
            Mix::Gradients(4) => planes.with::<S, 4, PRODUCTS>(
                simd,
                #[inline(always)]
                |planes| minimal_filter::gradient(simd, planes),
            ),
            Mix::Gradients(3) => planes.with::<S, 3, PRODUCTS>(
                simd,
                #[inline(always)]
                |planes| minimal_filter::gradient(simd, planes),
            ),
            Mix::Fewer(matrix) if matrix.len() == FEWER => planes.with::<S, FEWER, FEWER>(
                simd,
                #[inline(always)]
                |planes| multiplied(simd, matrix, planes),
            ),
            Mix::Fewer(matrix) => planes.with::<S, FEWER, 4>(
                simd,
                #[inline(always)]
                |planes| multiplied(simd, matrix, planes),
            ),
            Mix::Outputs(group) | Mix::Gradients(group) => panic!("{group} planes share no products"),
        }
    }
}

impl WithSimd for MixPlanes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.mix.choose(simd, self);
    }
}

/// The planes times a matrix of so many rows.
#[inline(always)]
fn multiplied<S: Simd, const ROWS: usize>(
    simd: S,
    matrix: &[[f32; PRODUCTS]],
    planes: [S::f32s; FEWER],
) -> [S::f32s; ROWS] {
    let mut sums = [simd.splat_f32s(0.0); ROWS];
    for (sum, factors) in sums.iter_mut().zip(matrix) {
        *sum = simd.mul_f32s(simd.splat_f32s(factors[0]), planes[0]);
        for (factor, value) in factors[1..FEWER].iter().zip(&planes[1..]) {
            *sum = simd.mul_add_e_f32s(simd.splat_f32s(*factor), *value, *sum);
        }
    }
    sums
}

impl WithMix for MixPlanes<'_> {
    #[inline(always)]
    fn with<S: Simd, const FROM: usize, const TO: usize>(
        self,
        simd: S,
        mix: impl Fn([S::f32s; FROM]) -> [S::f32s; TO],
    ) {
        let Self { values, stride, runs: [runs, len, run_stride], carried, .. } = self;
        let end = reach(runs, run_stride, len);
        assert!(end <= stride && reach(FROM.max(TO), stride, end) <= values.len());
        let Carried { count, known, planes: shared } = carried;
        assert!(count <= FROM && count * end <= shared.len());
        let (start, shared) = (values.as_mut_ptr(), shared.as_mut_ptr());
        for first in (0..runs).map(|run| run * run_stride) {
            let run = Run {
                from: std::array::from_fn(|plane| {
                    let carried = known && plane < count;
                    let from =
                        if carried { shared.wrapping_add(plane * end) } else { start.wrapping_add(plane * stride) };
                    from.wrapping_add(first).cast_const()
                }),
                handed_on: handed_on(shared.wrapping_add(first), end, count),
                to: start.wrapping_add(first),
                stride,
                len,
            };
            // SAFETY: the run has so many values, and each of the planes has the run, as was checked.
            unsafe { run.mix(simd, &mix) };
        }
    }
}

/// Where each plane of a group is written before it is mixed: the last `count`, one after the other, `stride` apart.
#[inline(always)]
pub(super) fn handed_on<const FROM: usize>(first: *mut f32, stride: usize, count: usize) -> [Option<*mut f32>; FROM] {
    std::array::from_fn(|plane| {
        let plane = (plane + count).checked_sub(FROM)?;
        Some(first.wrapping_add(plane * stride))
    })
}

/// Values that follow each other in each of some planes.
pub(super) struct Run<const FROM: usize> {
    /// Where each plane is read.
    pub from: [*const f32; FROM],
    /// Where it is written before it is mixed.
    pub handed_on: [Option<*mut f32>; FROM],
    /// Where the first of the new planes is written.
    pub to: *mut f32,
    /// From one of the new planes to the next.
    pub stride: usize,
    /// How many values.
    pub len: usize,
}

impl<const FROM: usize> Run<FROM> {
    /// Makes `TO` planes of `FROM`.
    ///
    /// # Safety
    ///
    /// Each place must be readable, or writable, for all values of the run; each vector is read in all planes before it is written in any, so they may be the same.
    #[inline(always)]
    pub(super) unsafe fn mix<S: Simd, const TO: usize>(self, simd: S, mix: &impl Fn([S::f32s; FROM]) -> [S::f32s; TO]) {
        let Self { from, handed_on, to, stride, len } = self;
        let whole = len - len % S::F32_LANES;
        for place in (0..len).step_by(S::F32_LANES) {
            let lanes = S::F32_LANES.min(len - place);
            let mut planes = [simd.splat_f32s(0.0); FROM];
            // SAFETY: the caller says that the places hold so many values.
            unsafe {
                if place < whole {
                    for (value, from) in planes.iter_mut().zip(from) {
                        *value = load::<S>(from.add(place));
                    }
                    for (value, to) in planes.iter().zip(handed_on) {
                        if let Some(to) = to {
                            store::<S>(to.add(place), *value);
                        }
                    }
                    for (plane, value) in mix(planes).into_iter().enumerate() {
                        store::<S>(to.add(plane * stride + place), value);
                    }
                } else {
                    for (value, from) in planes.iter_mut().zip(from) {
                        *value = load_part_from(simd, from.add(place), lanes);
                    }
                    for (value, to) in planes.iter().zip(handed_on) {
                        if let Some(to) = to {
                            store_part_to(simd, to.add(place), lanes, *value);
                        }
                    }
                    for (plane, value) in mix(planes).into_iter().enumerate() {
                        store_part_to(simd, to.add(plane * stride + place), lanes, value);
                    }
                }
            }
        }
    }
}
