//! Spectra as tensors: `[2, rows, columns, modes]`, real parts and imaginary parts.

use burn::tensor::Tensor;

/// Real and imaginary parts, `[rows, columns, modes]`.
pub(super) fn parts(spectra: &Tensor<4>) -> [Tensor<3>; 2] {
    let [_, rows, columns, modes] = spectra.dims();
    [0, 1].map(|part| spectra.clone().narrow(0, part, 1).reshape([rows, columns, modes]))
}

/// Complex rows `[.., 2 modes]`, turned by `-i`: real parts become imaginary, these real with another sign.
pub(super) fn turned<const D: usize>(rows: Tensor<D>) -> Tensor<D> {
    let modes = rows.dims()[D - 1] / 2;
    let [real, imaginary] = [0, modes].map(|first| rows.clone().narrow(D - 1, first, modes));
    Tensor::cat(vec![imaginary, real.neg()], D - 1)
}
