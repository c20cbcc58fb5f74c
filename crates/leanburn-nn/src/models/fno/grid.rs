//! What is added to a field at the entry: positions and ones as channels, zeros around it.

use burn::tensor::{DType, Tensor, TensorData};
use leanburn_ops::numerics::cast_to;

use super::config::FnoPositions;

/// The field with more channels: the positions along the last `axes`, and ones if they are asked for.
pub(super) fn with_channels(x: Tensor<5>, axes: usize, positions: FnoPositions, with_ones: bool) -> Tensor<5> {
    let ([batch_size, _, size @ ..], device, dtype) = (x.dims(), x.device(), x.dtype());
    let channel = |values: Vec<f32>, dims: [usize; 5]| {
        let values = Tensor::<5>::from_data(TensorData::new(values, dims), (&device, DType::F32));
        cast_to(values, dtype).expand([batch_size, 1, size[0], size[1], size[2]])
    };
    let position = |axis: usize| {
        let intervals = match positions {
            FnoPositions::None => return None,
            FnoPositions::ToTheEnd => size[axis].saturating_sub(1).max(1),
            FnoPositions::Periodic => size[axis],
        };
        let values = (0..size[axis]).map(|index| index as f32 / intervals as f32).collect();
        let mut dims = [1; 5];
        dims[axis + 2] = size[axis];
        Some(channel(values, dims))
    };
    let ones = with_ones.then(|| channel(vec![1.0], [1; 5]));
    let added: Vec<Tensor<5>> = (3 - axes..3).filter_map(position).chain(ones).collect();
    if added.is_empty() { x } else { Tensor::cat([x].into_iter().chain(added).collect(), 1) }
}

/// Positions in front of depth, height and width, and behind them.
pub(super) type Margins = [[usize; 2]; 3];

/// Positions in front of each axis and behind it: the shares of its length, an entry for each of the last axes or none.
pub(super) fn margins(size: [usize; 3], shares: &[[f64; 2]]) -> Margins {
    let unused = 3 - shares.len();
    std::array::from_fn(|axis| match axis.checked_sub(unused) {
        Some(index) => shares[index].map(|share| (share * size[axis] as f64).round_ties_even() as usize),
        None => [0; 2],
    })
}

/// The field with zeros around it.
pub(super) fn padded(x: Tensor<5>, margins: Margins) -> Tensor<5> {
    margins.into_iter().enumerate().fold(x, |x, (axis, margins)| {
        let zeros = |count: usize| {
            let mut dims = x.dims();
            dims[axis + 2] = count;
            (count > 0).then(|| Tensor::zeros(dims, (&x.device(), x.dtype())))
        };
        let [before, behind] = margins.map(zeros);
        match margins {
            [0, 0] => x,
            _ => Tensor::cat(before.into_iter().chain([x]).chain(behind).collect(), axis + 2),
        }
    })
}

/// The field without what was put around it.
pub(super) fn cropped(x: Tensor<5>, margins: Margins, size: [usize; 3]) -> Tensor<5> {
    margins.into_iter().enumerate().fold(x, |x, (axis, margins)| match margins {
        [0, 0] => x,
        [before, _] => x.narrow(axis + 2, before, size[axis]),
    })
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn positions_are_those_of_each_axis() {
        let x = Tensor::<5>::zeros([1, 1, 1, 2, 3], &Device::flex());
        let values = |positions, with_ones| {
            let y = with_channels(x.clone(), 2, positions, with_ones).narrow(3, 1, 1);
            y.into_data().try_to_vec::<f32>().unwrap()
        };
        assert_eq!(values(FnoPositions::ToTheEnd, false), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.5, 1.0]);
        let third = 1.0 / 3.0;
        let periodic = [0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.0, third, 2.0 * third, 1.0, 1.0, 1.0];
        assert_eq!(values(FnoPositions::Periodic, true), periodic);
        assert_eq!(values(FnoPositions::None, false), [0.0; 3]);
    }

    #[test]
    fn what_is_put_around_a_field_goes_again() {
        let x = Tensor::<5>::ones([1, 2, 1, 4, 10], &Device::flex());
        let margins = margins([1, 4, 10], &[[0.0, 0.3], [0.15, 0.25]]);
        assert_eq!(margins, [[0, 0], [0, 1], [2, 2]]);
        let y = padded(x.clone(), margins);
        assert_eq!((y.dims(), y.clone().sum().into_scalar::<f32>()), ([1, 2, 1, 5, 14], 80.0));
        assert_eq!(cropped(y, margins, [1, 4, 10]).into_data(), x.into_data());
    }
}
