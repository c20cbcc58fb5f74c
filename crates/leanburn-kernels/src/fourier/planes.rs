//! A channel of a volume through all axes, forwards and backwards.

use pulp::{Arch, Simd, WithSimd};

use super::product::{Product, padded};
use super::transform::Transform;
use crate::activation::Activation;
use crate::element::Stored;
use crate::parallel;

/// The matrices of a transform in float32, in the order in which products take them.
struct Matrices {
    /// From rows of the volume to rows of the spectrum, `[width, row]`; or backwards, `[2 modes, padded width]`.
    width: Vec<f32>,
    /// `[modes, 2 length]`, or backwards `[length, 2 modes]`: factors of rows, and of the same rows times `-i`.
    height: Vec<f32>,
    depth: Vec<f32>,
}

impl Matrices {
    fn forwards(transform: &Transform) -> Self {
        Self {
            width: Self::width_forwards(transform),
            height: Self::rows_forwards(transform, 1),
            depth: Self::rows_forwards(transform, 0),
        }
    }

    fn backwards(transform: &Transform) -> Self {
        Self {
            width: Self::width_backwards(transform),
            height: Self::rows_backwards(transform, 1),
            depth: Self::rows_backwards(transform, 0),
        }
    }

    fn width_forwards(transform: &Transform) -> Vec<f32> {
        let ([_, _, width], [_, _, modes], row) = (transform.size(), transform.modes(), transform.row());
        let [cos, sin] = transform.matrices(2);
        let mut matrix = vec![0.0; width * row];
        for (n, matrix) in matrix.chunks_exact_mut(row).enumerate() {
            for k in 0..modes {
                matrix[k] = cos[k * width + n] as f32;
                matrix[modes + k] = -sin[k * width + n] as f32;
            }
        }
        matrix
    }

    fn width_backwards(transform: &Transform) -> Vec<f32> {
        let ([_, _, width], [_, _, modes]) = (transform.size(), transform.modes());
        let [cos, sin] = transform.matrices(2);
        let mut matrix = vec![0.0; 2 * modes * padded(width)];
        let values =
            cos.chunks_exact(width).map(|row| (row, 1.0)).chain(sin.chunks_exact(width).map(|row| (row, -1.0)));
        for (matrix, (row, sign)) in matrix.chunks_exact_mut(padded(width)).zip(values) {
            matrix.iter_mut().zip(row).for_each(|(target, value)| *target = (sign * value) as f32);
        }
        matrix
    }

    fn rows_forwards(transform: &Transform, axis: usize) -> Vec<f32> {
        let (len, [cos, sin]) = (transform.size()[axis], transform.matrices(axis));
        let mut matrix = Vec::with_capacity(2 * cos.len());
        for (cos, sin) in cos.chunks_exact(len).zip(sin.chunks_exact(len)) {
            matrix.extend(cos.iter().chain(sin).map(|value| *value as f32));
        }
        matrix
    }

    fn rows_backwards(transform: &Transform, axis: usize) -> Vec<f32> {
        let (len, [cos, sin]) = (transform.size()[axis], transform.matrices(axis));
        let mut matrix = Vec::with_capacity(2 * cos.len());
        for n in 0..len {
            matrix.extend(cos[n..].iter().step_by(len).map(|value| *value as f32));
            matrix.extend(sin[n..].iter().step_by(len).map(|value| -*value as f32));
        }
        matrix
    }

    /// Bytes of them all, and at most while they are made: cosines and sines of an axis are made in float64.
    fn bytes(forwards: bool, transform: &Transform) -> [usize; 2] {
        let ([depth, height, width], [modes_d, modes_h, modes_w]) = (transform.size(), transform.modes());
        let of_width = if forwards { width * transform.row() } else { 2 * modes_w * padded(width) };
        let [of_width, of_height, of_depth] =
            [of_width, 2 * height * modes_h, 2 * depth * modes_d].map(|len| size_of::<f32>() * len);
        let waves = |len: usize, modes: usize| 2 * size_of::<f64>() * len * modes;
        let made = [
            of_width + waves(width, modes_w),
            of_width + of_height + waves(height, modes_h),
            of_width + of_height + of_depth + waves(depth, modes_d),
        ];
        [of_width + of_height + of_depth, made.into_iter().fold(0, usize::max)]
    }
}

/// Turns `[rows, row]` of complex numbers in the first half of the stack by `-i` into its second half: real parts become the imaginary
/// ones, these become the real ones with another sign.
#[inline(always)]
fn turn(stack: &mut [f32], row: usize, modes: usize) {
    let (values, turned) = stack.split_at_mut(stack.len() / 2);
    for (turned, values) in turned.chunks_exact_mut(row).zip(values.chunks_exact(row)) {
        let (real, imaginary) = values[..2 * modes].split_at(modes);
        turned[..modes].copy_from_slice(imaginary);
        turned[modes..2 * modes].iter_mut().zip(real).for_each(|(target, value)| *target = -value);
    }
}

/// Lengths of the scratch of a task.
struct Scratch {
    /// A plane of the volume in float32.
    plane: usize,
    /// Rows of a plane behind the transform of the width, and the same turned.
    rows: usize,
    /// All planes behind the transform of the height, and the same turned.
    planes: usize,
    /// The spectrum.
    spectrum: usize,
}

impl Scratch {
    fn forwards(transform: &Transform) -> Self {
        let ([depth, height, width], [modes_d, modes_h, _]) = (transform.size(), transform.modes());
        let row = transform.row();
        Self {
            plane: height * width,
            rows: 2 * height * row,
            planes: 2 * depth * modes_h * row,
            spectrum: modes_d * modes_h * row,
        }
    }

    fn backwards(transform: &Transform) -> Self {
        let ([depth, height, width], [modes_d, modes_h, _]) = (transform.size(), transform.modes());
        let row = transform.row();
        Self {
            plane: height * padded(width),
            rows: (2 * modes_h + height) * row,
            planes: depth * modes_h * row,
            spectrum: 2 * modes_d * modes_h * row,
        }
    }

    fn bytes(&self) -> usize {
        size_of::<f32>() * (self.plane + self.rows + self.planes + self.spectrum)
    }
}

/// Bytes of workspace of a map forwards or backwards on so many channels of items.
pub(super) fn workspace(transform: &Transform, items: usize, forwards: bool) -> usize {
    let scratch = if forwards { Scratch::forwards(transform) } else { Scratch::backwards(transform) };
    let threads = parallel::threads(items, items.saturating_mul(transform.volume_len()));
    let [matrices, while_made] = Matrices::bytes(forwards, transform);
    let tasks = items * size_of::<[&[f32]; 3]>();
    while_made.max(matrices + tasks + scratch.bytes() * threads)
}

/// [`Transform::to_spectra`] on an instruction set.
pub(crate) fn to_spectra_on<E: Stored>(
    transform: &Transform,
    arch: Arch,
    x: &[E],
    activation: Activation,
    spectra: &mut [f32],
) {
    let (volume, modes) = (transform.volume_len(), transform.spectrum_len());
    let items = x.len() / volume;
    assert!(x.len() == items * volume && spectra.len() == 2 * items * modes, "volumes and spectra go together");
    let matrices = Matrices::forwards(transform);
    let (real, imaginary) = spectra.split_at_mut(items * modes);
    let parts = real.chunks_exact_mut(modes).zip(imaginary.chunks_exact_mut(modes));
    let tasks: Vec<_> = x.chunks_exact(volume).zip(parts).collect();
    parallel::for_each(tasks, x.len(), |(x, (real, imaginary))| {
        arch.dispatch(Forwards { transform, matrices: &matrices, x, activation, parts: [real, imaginary] });
    });
}

/// A channel of an item to its spectrum.
struct Forwards<'a, E> {
    transform: &'a Transform,
    matrices: &'a Matrices,
    x: &'a [E],
    activation: Activation,
    parts: [&'a mut [f32]; 2],
}

impl<E: Stored> WithSimd for Forwards<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { transform, matrices, x, activation, parts } = self;
        let ([depth, height, width], [modes_d, modes_h, modes_w]) = (transform.size(), transform.modes());
        let (row, scratch) = (transform.row(), Scratch::forwards(transform));
        let [mut plane, mut rows] = [scratch.plane, scratch.rows].map(|len| vec![0.0; len]);
        let [mut planes, mut spectrum] = [scratch.planes, scratch.spectrum].map(|len| vec![0.0; len]);
        for (x, target) in x.chunks_exact(height * width).zip(planes.chunks_exact_mut(modes_h * row)) {
            E::widen(x, &mut plane);
            activate(simd, activation, &mut plane);
            let (a, b) = (&plane[..], &matrices.width[..]);
            let c = &mut rows[..height * row];
            simd.vectorize(Product { a, a_stride: width, rows: height, inner: width, columns: row, b, c });
            turn(&mut rows, row, modes_w);
            let (a, inner) = (&matrices.height[..], 2 * height);
            simd.vectorize(Product { a, a_stride: inner, rows: modes_h, inner, columns: row, b: &rows, c: target });
        }
        turn(&mut planes, row, modes_w);
        let (a, inner, c) = (&matrices.depth[..], 2 * depth, &mut spectrum[..]);
        simd.vectorize(Product { a, a_stride: inner, rows: modes_d, inner, columns: modes_h * row, b: &planes, c });
        for (part, target) in parts.into_iter().enumerate() {
            for (target, row) in target.chunks_exact_mut(modes_w).zip(spectrum.chunks_exact(row)) {
                target.copy_from_slice(&row[part * modes_w..][..modes_w]);
            }
        }
    }
}

/// Applies the activation to every value.
#[inline(always)]
fn activate<S: Simd>(simd: S, activation: Activation, values: &mut [f32]) {
    if activation == Activation::None {
        return;
    }
    let (vectors, rest) = S::as_mut_simd_f32s(values);
    vectors.iter_mut().for_each(|vector| *vector = activation.apply(simd, *vector));
    let last = activation.apply(simd, simd.partial_load_f32s(rest));
    simd.partial_store_f32s(rest, last);
}

/// [`Transform::add_volumes`] on an instruction set.
pub(crate) fn add_volumes_on<E: Stored>(transform: &Transform, arch: Arch, spectra: &[f32], y: &mut [E]) {
    let (volume, modes) = (transform.volume_len(), transform.spectrum_len());
    let items = y.len() / volume;
    assert!(y.len() == items * volume && spectra.len() == 2 * items * modes, "volumes and spectra go together");
    let matrices = Matrices::backwards(transform);
    let (real, imaginary) = spectra.split_at(items * modes);
    let parts = real.chunks_exact(modes).zip(imaginary.chunks_exact(modes));
    let work = y.len();
    let tasks: Vec<_> = y.chunks_exact_mut(volume).zip(parts).collect();
    parallel::for_each(tasks, work, |(y, (real, imaginary))| {
        arch.dispatch(Backwards { transform, matrices: &matrices, parts: [real, imaginary], y });
    });
}

/// The transpose: from a spectrum to a channel of an item, to which it is added.
struct Backwards<'a, E> {
    transform: &'a Transform,
    matrices: &'a Matrices,
    parts: [&'a [f32]; 2],
    y: &'a mut [E],
}

impl<E: Stored> WithSimd for Backwards<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { transform, matrices, parts, y } = self;
        let ([depth, height, width], [modes_d, modes_h, modes_w]) = (transform.size(), transform.modes());
        let (row, scratch) = (transform.row(), Scratch::backwards(transform));
        let [mut plane, mut rows] = [scratch.plane, scratch.rows].map(|len| vec![0.0; len]);
        let [mut planes, mut spectrum] = [scratch.planes, scratch.spectrum].map(|len| vec![0.0; len]);
        for (part, source) in parts.into_iter().enumerate() {
            for (row, source) in spectrum.chunks_exact_mut(row).zip(source.chunks_exact(modes_w)) {
                row[part * modes_w..][..modes_w].copy_from_slice(source);
            }
        }
        turn(&mut spectrum, row, modes_w);
        let (a, inner, c) = (&matrices.depth[..], 2 * modes_d, &mut planes[..]);
        simd.vectorize(Product { a, a_stride: inner, rows: depth, inner, columns: modes_h * row, b: &spectrum, c });
        let (stack, rows) = rows.split_at_mut(2 * modes_h * row);
        let columns = padded(width);
        for (y, source) in y.chunks_exact_mut(height * width).zip(planes.chunks_exact(modes_h * row)) {
            stack[..modes_h * row].copy_from_slice(source);
            turn(stack, row, modes_w);
            let (a, inner) = (&matrices.height[..], 2 * modes_h);
            simd.vectorize(Product { a, a_stride: inner, rows: height, inner, columns: row, b: stack, c: rows });
            let (b, inner) = (&matrices.width[..], 2 * modes_w);
            simd.vectorize(Product { a: rows, a_stride: row, rows: height, inner, columns, b, c: &mut plane });
            for (y, values) in y.chunks_exact_mut(width).zip(plane.chunks_exact(columns)) {
                y.iter_mut().zip(values).for_each(|(y, value)| *y = E::from_f32(y.to_f32() + value));
            }
        }
    }
}
