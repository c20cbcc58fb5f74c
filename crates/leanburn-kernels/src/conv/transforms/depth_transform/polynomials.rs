//! The polynomials whose product a group of planes is, as matrices, and where they pay.

use crate::conv::transforms::minimal_filter::POINTS;
/// Most planes that are read for a group of output planes, and the products that they take.
pub(crate) use crate::conv::transforms::minimal_filter::PRODUCTS;

/// A matrix that planes are multiplied by.
pub(crate) type Matrix = [[f32; PRODUCTS]; PRODUCTS];

/// Fewest channels, in and out, for which the transforms pay.
pub(super) const LEAST_CHANNELS: usize = 6;

/// Fewest products, with a transformed value or into one, for which the transforms pay.
pub(super) const LEAST_PRODUCTS: usize = 48;

/// The products of a group of output planes, for so many neighbours along the depth.
pub(super) fn products(kernel: usize) -> Option<usize> {
    match kernel {
        2 => Some(PRODUCTS - 1),
        3 | 4 => Some(PRODUCTS),
        _ => None,
    }
}

/// Output planes that share their products.
pub(super) fn group(kernel: usize) -> Option<usize> {
    products(kernel).map(|products| products + 1 - kernel)
}

/// Whether a quarter of the products is saved (of two neighbours a fifth), where the last group of planes is not a whole one.
pub(super) fn saves(planes: usize, kernel: usize) -> bool {
    let most = if kernel == 2 { [4, 5] } else { [3, 4] };
    let transformed = products(kernel).zip(group(kernel)).map(|(products, group)| planes.div_ceil(group) * products);
    transformed.is_some_and(|transformed| most[1] * transformed <= most[0] * planes * kernel)
}

/// The finite points of so many products but one.
fn others(but: usize, products: usize) -> impl Iterator<Item = f64> {
    let points = POINTS.into_iter().take(products - 1).enumerate();
    points.filter(move |(index, _)| *index != but).map(|(_, point)| point)
}

/// A row of `Bᵀ`: the coefficients, the lowest first, of the product of `x - point` over the other points; zeros behind the last product.
pub(super) fn plane(product: usize, products: usize) -> [f32; PRODUCTS] {
    let mut factors = [0.0; PRODUCTS];
    if product >= products {
        return [0.0; PRODUCTS];
    }
    factors[0] = 1.0;
    for point in others(product, products) {
        for power in (0..PRODUCTS).rev() {
            let lower = if power > 0 { factors[power - 1] } else { 0.0 };
            factors[power] = lower - point * factors[power];
        }
    }
    factors.map(|factor| factor as f32)
}

/// A row of `G`: the factors of a kernel's elements in its polynomial at a point.
pub(super) fn element(product: usize, kernel: usize, products: usize) -> Vec<f64> {
    let Some(point) = POINTS[..products - 1].get(product) else {
        return (1..=kernel).map(|power| if power == kernel { 1.0 } else { 0.0 }).collect();
    };
    let scale: f64 = others(product, products).map(|other| point - other).product();
    (0..kernel).map(|power| point.powi(power as i32) / scale).collect()
}

/// A row of `Aᵀ`; zeros behind the last product.
pub(super) fn result(output: usize, outputs: usize, products: usize) -> [f32; PRODUCTS] {
    std::array::from_fn(|product| match POINTS[..products - 1].get(product) {
        Some(point) => point.powi(output as i32) as f32,
        None => {
            if product + 1 == products && output + 1 == outputs {
                1.0
            } else {
                0.0
            }
        }
    })
}
