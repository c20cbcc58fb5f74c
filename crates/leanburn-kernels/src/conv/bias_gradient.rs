//! Gradient of a convolution's bias.

use pulp::{Arch, Simd, WithSimd};

use crate::Stored;
use crate::parallel::for_each;
use crate::size::product;

/// Values that one task adds up.
const PIECE: usize = 1 << 16;
/// Values that are added up in float32.
const CHUNK: usize = 1024;

/// [`bias_gradient`](crate::conv::bias_gradient()) by these instructions.
pub(crate) fn bias_gradient_on<E: Stored>(
    arch: Arch,
    batch_size: usize,
    channels: usize,
    gradient: &[E],
    target: &mut [f32],
) {
    assert_eq!(target.len(), channels, "target: [channels]");
    let rows = product(&[batch_size, channels]);
    assert!(
        gradient.len().checked_rem(rows).unwrap_or(gradient.len()) == 0,
        "gradient: [batch_size, channels, positions..], not {} values for {batch_size} items of {channels} channels",
        gradient.len()
    );
    if gradient.is_empty() {
        return target.fill(0.0);
    }
    let positions = gradient.len() / rows;
    let pieces = positions.div_ceil(PIECE);
    let mut sums = vec![0.0; rows * pieces];
    for_each(sums.iter_mut().enumerate().collect(), gradient.len(), |(index, sum): (usize, &mut f64)| {
        let (row, start) = (index / pieces, index % pieces * PIECE);
        let values = &gradient[row * positions..][start..positions.min(start + PIECE)];
        *sum = arch.dispatch(Sum { values });
    });
    for (channel, target) in target.iter_mut().enumerate() {
        let items = sums.chunks_exact(channels * pieces);
        *target = items.flat_map(|item| &item[channel * pieces..][..pieces]).sum::<f64>() as f32;
    }
}

/// The sum of all values.
struct Sum<'a, E> {
    values: &'a [E],
}

impl<E: Stored> WithSimd for Sum<'_, E> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let mut widened = [0.0; CHUNK];
        let mut total = 0.0;
        for values in self.values.chunks(CHUNK) {
            let widened = &mut widened[..values.len()];
            E::widen(values, widened);
            let (vectors, rest) = S::as_simd_f32s(widened);
            let mut sums = [simd.splat_f32s(0.0); 4];
            let quads = vectors.chunks_exact(4);
            for (index, vector) in quads.remainder().iter().enumerate() {
                sums[index] = *vector;
            }
            for quad in quads {
                for index in 0..4 {
                    sums[index] = simd.add_f32s(sums[index], quad[index]);
                }
            }
            sums[3] = simd.add_f32s(sums[3], simd.partial_load_f32s(rest));
            let pairs = [simd.add_f32s(sums[0], sums[1]), simd.add_f32s(sums[2], sums[3])];
            total += f64::from(simd.reduce_sum_f32s(simd.add_f32s(pairs[0], pairs[1])));
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;
    use crate::conv::entry::bias_gradient;
    use crate::simd;

    /// Compares with a plain sum in float64, for every instruction set.
    fn compare<E: Stored>(batch_size: usize, channels: usize, positions: usize, shift: f32) {
        let mut random = SmallRng::seed_from_u64(positions as u64);
        let len = batch_size * channels * positions;
        let gradient: Vec<E> = (0..len).map(|_| E::from_f32(random.random_range(-1.0..1.0) + shift)).collect();
        for arch in simd::available() {
            let mut target = vec![f32::NAN; channels];
            bias_gradient_on(arch, batch_size, channels, &gradient, &mut target);
            for (channel, found) in target.iter().enumerate() {
                let rows =
                    (0..batch_size).map(|item| &gradient[(item * channels + channel) * positions..][..positions]);
                let values: Vec<f64> = rows.flatten().map(|value| f64::from(value.to_f32())).collect();
                let (exact, size): (f64, f64) = (values.iter().sum(), values.iter().map(|value| value.abs()).sum());
                assert!((f64::from(*found) - exact).abs() <= 2e-7 * size + 1e-30, "{arch:?} {found} {exact}");
            }
        }
    }

    #[test]
    fn sums_of_all_lengths() {
        for positions in [1, 2, 3, 15, 16, 17, 63, 64, 65, 130, 1023, 1024, 1025, 3000] {
            compare::<f32>(2, 3, positions, 0.0);
            compare::<f32>(1, 1, positions, 2.0);
            compare::<bf16>(3, 2, positions, 0.0);
            compare::<f16>(1, 5, positions, 0.0);
        }
    }

    #[test]
    fn sums_of_many_values_stay_exact() {
        compare::<f32>(2, 1, 3 * PIECE + 7, 1.5);
        compare::<f32>(1, 2, PIECE, 0.0);
    }

    #[test]
    fn nothing_sums_to_zero() {
        for (batch_size, channels) in [(0, 2), (3, 2)] {
            let mut target = vec![f32::NAN; channels];
            bias_gradient::<f32>(batch_size, channels, &[], &mut target);
            assert_eq!(target, vec![0.0; channels]);
        }
    }

    #[test]
    #[should_panic(expected = "7 values for 2 items of 3 channels")]
    fn a_length_that_does_not_divide_is_rejected() {
        bias_gradient(2, 3, &[0.0; 7], &mut [0.0; 3]);
    }
}
