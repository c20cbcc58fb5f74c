//! Products of spectra, frequency by frequency: channels of an input, channels of an output, and the weights between them.

use pulp::{Arch, Simd, WithSimd};

use crate::parallel;
use crate::shape_error::{ShapeError, ShapeProblem};
use crate::shared::Shared;
use crate::size::check_volume;

/// Frequencies that are taken at a time: the sums of a few items stay in the first cache.
const CHUNK: usize = 256;

/// Rows of the result that share what is read of the second operand.
const ROWS: usize = 8;

/// Sizes of three sets of spectra: input `[batch_size, channels_in]`, output `[batch_size, channels_out]` and weight
/// `[channels_in, channels_out]`, each of `modes` frequencies; real parts first, then imaginary parts.
///
/// Every value of this type was validated: no size is zero, and all three can be addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixing {
    batch_size: usize,
    channels_in: usize,
    channels_out: usize,
    modes: usize,
}

/// Which of the three is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `output[b, o] = sum_i input[b, i] weight[i, o]`, of input and weight.
    Output,
    /// Its gradient of the input, `sum_o output[b, o] conj(weight[i, o])`, of output and weight.
    Input,
    /// Its gradient of the weight, `sum_b conj(input[b, i]) output[b, o]`, of input and output.
    Weight,
}

impl Mixing {
    /// Sets of spectra of these sizes.
    ///
    /// # Errors
    ///
    /// Where a size is zero, or one of the three takes more than 128 TiB.
    pub fn new([batch_size, channels_in, channels_out, modes]: [usize; 4]) -> Result<Self, ShapeError> {
        let sizes = [("batch", batch_size), ("input channels", channels_in), ("output channels", channels_out)];
        if let Some((name, _)) = sizes.into_iter().chain([("frequencies", modes)]).find(|(_, size)| *size == 0) {
            return Err(ShapeProblem::Zero { name }.into());
        }
        check_volume("the input's spectrum", &[2, batch_size, channels_in, modes])?;
        check_volume("the output's spectrum", &[2, batch_size, channels_out, modes])?;
        check_volume("the weight", &[2, channels_in, channels_out, modes])?;
        Ok(Self { batch_size, channels_in, channels_out, modes })
    }

    /// Values of one of the three: both parts.
    pub fn len(&self, part: Part) -> usize {
        let [rows, columns] = match part {
            Part::Output => [self.batch_size, self.channels_out],
            Part::Input => [self.batch_size, self.channels_in],
            Part::Weight => [self.channels_in, self.channels_out],
        };
        2 * rows * columns * self.modes
    }

    /// Floating-point operations, the same for each of the three.
    pub fn flops(&self) -> u64 {
        let sizes = [self.batch_size, self.channels_in, self.channels_out, self.modes];
        sizes.into_iter().fold(8, |flops, size| flops.saturating_mul(size as u64))
    }

    /// How one of the three is a product of matrices of spectra.
    fn product(&self, part: Part) -> Product {
        let Self { batch_size, channels_in, channels_out, .. } = *self;
        match part {
            Part::Output => Product {
                extent: [batch_size, channels_out, channels_in],
                a: [channels_in, 1],
                b: [1, channels_out],
                signs: [-1.0, 1.0, 1.0],
            },
            Part::Input => Product {
                extent: [batch_size, channels_in, channels_out],
                a: [channels_out, 1],
                b: [channels_out, 1],
                signs: [1.0, -1.0, 1.0],
            },
            Part::Weight => Product {
                extent: [channels_in, channels_out, batch_size],
                a: [1, channels_in],
                b: [1, channels_out],
                signs: [1.0, 1.0, -1.0],
            },
        }
    }

    /// [`compute`](Self::compute) on an instruction set.
    pub(super) fn compute_on(&self, arch: Arch, part: Part, [a, b]: [&[f32]; 2], result: &mut [f32]) {
        let operands = match part {
            Part::Output => [Part::Input, Part::Weight],
            Part::Input => [Part::Output, Part::Weight],
            Part::Weight => [Part::Input, Part::Output],
        };
        let fits = [a.len(), b.len()] == operands.map(|part| self.len(part)) && result.len() == self.len(part);
        assert!(fits, "spectra of {} and {} values for {self:?}", a.len(), b.len());
        let (product, modes) = (self.product(part), self.modes);
        let (real, imaginary) = result.split_at_mut(result.len() / 2);
        let result = [Shared::new(real), Shared::new(imaginary)];
        let operands = [a, b].map(|values| {
            let (real, imaginary) = values.split_at(values.len() / 2);
            [real, imaginary]
        });
        let work = usize::try_from(self.flops()).unwrap_or(usize::MAX);
        parallel::for_each((0..product.extent[1]).collect(), work, |column| {
            arch.dispatch(Column { product: &product, modes, operands, result: &result, column });
        });
    }
}

/// `C[row, column] = sum_term A(row, term) B(term, column)`, each a spectrum.
struct Product {
    /// Rows, columns and terms.
    extent: [usize; 3],
    /// Steps of A from row to row and from term to term, in spectra.
    a: [usize; 2],
    /// Steps of B from column to column and from term to term.
    b: [usize; 2],
    /// Of the products of the imaginary parts, of `a` real and `b` imaginary, and of `a` imaginary and `b` real.
    signs: [f32; 3],
}

/// A column of a product.
struct Column<'a> {
    product: &'a Product,
    modes: usize,
    operands: [[&'a [f32]; 2]; 2],
    result: &'a [Shared<'a, f32>; 2],
    column: usize,
}

impl WithSimd for Column<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { product, modes, operands: [a, b], result, column } = self;
        let Product { extent: [rows, columns, terms], a: [a_row, a_term], b: [b_column, b_term], signs } = *product;
        for (row, first) in (0..rows).step_by(ROWS).flat_map(|row| (0..modes).step_by(CHUNK).map(move |k| (row, k))) {
            let (count, len) = (ROWS.min(rows - row), CHUNK.min(modes - first));
            let mut sums = [[[0.0f32; CHUNK]; 2]; ROWS];
            for term in 0..terms {
                let b = b.map(|part| &part[(column * b_column + term * b_term) * modes + first..][..len]);
                for (index, sums) in sums[..count].iter_mut().enumerate() {
                    let spectrum = (row + index) * a_row + term * a_term;
                    add_products(sums, a.map(|part| &part[spectrum * modes + first..][..len]), b, signs);
                }
            }
            for (index, sums) in sums[..count].iter().enumerate() {
                for (result, sums) in result.iter().zip(sums) {
                    let place = ((row + index) * columns + column) * modes + first;
                    // SAFETY: each row of each column is written by the task of the column, chunk by chunk.
                    unsafe { result.piece(place, len) }.copy_from_slice(&sums[..len]);
                }
            }
        }
    }
}

/// Adds the complex products of a chunk to real and imaginary sums.
#[inline(always)]
fn add_products(sums: &mut [[f32; CHUNK]; 2], a: [&[f32]; 2], b: [&[f32]; 2], signs: [f32; 3]) {
    let [real, imaginary] = sums;
    let values = a[0].iter().zip(a[1]).zip(b[0].iter().zip(b[1]));
    for ((real, imaginary), ((a_real, a_imaginary), (b_real, b_imaginary))) in
        real.iter_mut().zip(imaginary.iter_mut()).zip(values)
    {
        *real += a_real * b_real + signs[0] * a_imaginary * b_imaginary;
        *imaginary += signs[1] * a_real * b_imaginary + signs[2] * a_imaginary * b_real;
    }
}
