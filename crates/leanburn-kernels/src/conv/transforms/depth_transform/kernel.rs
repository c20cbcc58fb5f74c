//! A kernel's gradient of transformed planes.

use super::polynomials::{LEAST_CHANNELS, LEAST_PRODUCTS, Matrix, PRODUCTS, element, group, products, saves};
use crate::conv::shape::ConvShape;

/// Fewest positions whose sums pay for the transforms of a weight gradient.
const LEAST_SUMMED: usize = 1024;

/// How a kernel's elements along the depth come of transformed planes of the input and of the output's gradient: the
/// transpose of [`DepthTransform`](super::DepthTransform), `Gᵀ (A g ⊙ Bᵀ d)`.
///
/// The products of all groups of planes are added up before they make elements.
#[derive(Clone, Debug)]
pub(crate) struct KernelTransform {
    /// Planes of the gradient in a group, which read [`PRODUCTS`] planes of the input.
    pub(crate) group: usize,
    /// `G`: what each product adds to the elements; zeros behind the last one.
    pub(crate) elements: Matrix,
}

impl KernelTransform {
    /// Of a kernel with three or four neighbours along the depth.
    pub(crate) fn of(shape: &ConvShape) -> Option<Self> {
        let kernel = shape.kernel[0];
        let group = group(kernel).filter(|_| products(kernel) == Some(PRODUCTS))?;
        if shape.stride[0] > 1 || shape.dilation[0] > 1 {
            return None;
        }
        Some(Self {
            group,
            elements: std::array::from_fn(|product| {
                let factors = element(product, kernel, PRODUCTS);
                std::array::from_fn(|element| factors.get(element).map_or(0.0, |factor| *factor as f32))
            }),
        })
    }

    /// Whether the weight gradient of a shape is faster with it, by measurements.
    pub(crate) fn pays(shape: &ConvShape) -> bool {
        let least = shape.channels_in.min(shape.channels_out) / shape.groups;
        let [kernel, height, width] = shape.kernel;
        let [depth, rows, columns] = shape.output();
        Self::of(shape).is_some()
            && saves(depth, kernel)
            && least >= LEAST_CHANNELS
            && least * height * width >= LEAST_PRODUCTS
            && shape.batch_size * depth * rows * columns >= LEAST_SUMMED
    }
}
