//! Tables of what is read for each place along an axis, as the kernels take them.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use leanburn_kernels::{axis_map::AxisMap, max_pool::PoolWindows};

/// A list, and for each place along three axes (one axis after the other) a run of it: first and count.
#[derive(Debug, Default)]
struct Runs {
    runs: Vec<i32>,
    list: Vec<i32>,
}

impl Runs {
    fn push(&mut self, entries: impl Iterator<Item = usize>) {
        let first = self.list.len();
        self.list.extend(entries.map(index));
        self.runs.extend([index(first), index(self.list.len() - first)]);
    }
}

/// A number as the kernels take it.
///
/// # Panics
///
/// Panics if it is too large.
fn index(number: usize) -> i32 {
    i32::try_from(number)
        .unwrap_or_else(|_| panic!("expected an axis with less than 2^31 entries on a GPU, found {number}"))
}

fn integers(values: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), (device, DType::I32))
}

/// The maps of three axes: for each output a run of weights, and the input that the first is on.
pub(super) fn of_maps(maps: &[AxisMap; 3], device: &Device) -> ([Tensor<1, Int>; 2], Tensor<1>) {
    let (mut runs, mut starts, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for map in maps {
        for (start, run) in (0..map.output_len()).map(|output| map.run(output)) {
            runs.extend([index(weights.len()), index(run.len())]);
            starts.push(index(start));
            weights.extend_from_slice(run);
        }
    }
    let length = weights.len();
    let weights = Tensor::from_data(TensorData::new(weights, [length]), (device, DType::F32));
    ([integers(runs, device), integers(starts, device)], weights)
}

/// The inputs of each output's window, along three axes.
pub(super) fn of_windows(windows: &PoolWindows, device: &Device) -> [Tensor<1, Int>; 2] {
    let mut table = Runs::default();
    for axis in 0..3 {
        (0..windows.output()[axis]).for_each(|output| table.push(windows.window(axis, output)));
    }
    [integers(table.runs, device), integers(table.list, device)]
}

/// The outputs whose windows each input is in, along three axes.
pub(super) fn of_inputs(windows: &PoolWindows, device: &Device) -> [Tensor<1, Int>; 2] {
    let mut table = Runs::default();
    for axis in 0..3 {
        let mut outputs = vec![Vec::new(); windows.input()[axis]];
        for output in 0..windows.output()[axis] {
            windows.window(axis, output).for_each(|input| outputs[input].push(output));
        }
        outputs.into_iter().for_each(|outputs| table.push(outputs.into_iter()));
    }
    [integers(table.runs, device), integers(table.list, device)]
}
