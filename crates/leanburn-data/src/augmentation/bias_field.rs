//! A smooth field that multiplies the values, as the inhomogeneity of a coil does
//! ([van Leemput et al. 1999](https://doi.org/10.1109/42.811268)).

/// The largest degree of the polynomial.
const DEGREE: usize = 3;
/// Its coefficients, those with `i + j + k` up to the degree.
const COEFFICIENTS: usize = 20;

/// The exponential of a polynomial in products of Legendre polynomials over the sample, whose sides run from -1 to 1. As MONAI's
/// `RandBiasField`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BiasField {
    /// Of `i`, `j`, `k`, the last fastest.
    pub(super) coefficients: [f64; COEFFICIENTS],
}

impl BiasField {
    pub(crate) fn draw(mut draw: impl FnMut() -> f64) -> Self {
        Self { coefficients: [0; COEFFICIENTS].map(|_| draw()) }
    }

    /// Multiplies the values `[x, y, z]` in place.
    pub(crate) fn multiply(&self, values: &mut [f32], extent: [usize; 3]) {
        let [x, y, z] =
            extent.map(|length| (0..length).map(|index| legendre(place(index, length))).collect::<Vec<_>>());
        for (row, values) in values.chunks_exact_mut(z.len()).enumerate() {
            let along = self.row(&x[row / y.len()], &y[row % y.len()]);
            for (value, z) in values.iter_mut().zip(&z) {
                let field: f64 = along.iter().zip(z).map(|(coefficient, z)| coefficient * z).sum();
                *value *= field.exp() as f32;
            }
        }
    }

    /// The coefficients along a row, whose voxels have the same x and y.
    fn row(&self, x: &[f64; DEGREE + 1], y: &[f64; DEGREE + 1]) -> [f64; DEGREE + 1] {
        let orders = (0..=DEGREE).flat_map(|i| (0..=DEGREE - i).map(move |j| (i, j)));
        let orders = orders.flat_map(|(i, j)| (0..=DEGREE - i - j).map(move |k| [i, j, k]));
        let mut along = [0.0; DEGREE + 1];
        orders.zip(self.coefficients).for_each(|([i, j, k], coefficient)| along[k] += coefficient * x[i] * y[j]);
        along
    }
}

/// Where a voxel is, from -1 to 1.
fn place(index: usize, length: usize) -> f64 {
    if length < 2 { -1.0 } else { 2.0 * index as f64 / (length - 1) as f64 - 1.0 }
}

/// The first Legendre polynomials.
fn legendre(x: f64) -> [f64; DEGREE + 1] {
    [1.0, x, (3.0 * x * x - 1.0) / 2.0, (5.0 * x * x - 3.0) * x / 2.0]
}
