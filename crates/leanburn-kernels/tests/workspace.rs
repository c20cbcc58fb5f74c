//! The workspace that the kernels report, and the heap that they take.
//!
//! The planner of `leanburn-plan` reckons with these figures. None may be too low, and none is too high by more than a
//! twentieth or 16 KiB, but where there is little to do: there the second of two threads may come too late, so that its
//! scratch is never taken, which is up to half of the figure.

use half::bf16;
use leanburn_kernels::attention::window::{self, WindowGradients, WindowOperands, WindowShape};
use leanburn_kernels::attention::{self, Attended, AttentionShape, Gradients};
use leanburn_kernels::conv::{self, ConvSettings, ConvShape, Input, Output};
use leanburn_kernels::fourier::Transform;
use leanburn_kernels::layer_norm::{LayerNorm, LayerShape, layer_norm_backward_workspace, layer_norm_workspace};
use leanburn_kernels::max_pool::{MaxPoolShape, PoolWindows, max_pool_backward, max_pool_backward_workspace};
use leanburn_kernels::{Activation, CountingAllocator, Element};
use rayon::ThreadPool;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// A figure may be too high by so many bytes.
const FEW_BYTES: usize = 16 << 10;

/// Or by this part of it.
const SMALL_PART: usize = 20;

/// Runs on two threads, of which the highest counts: the second thread may come late.
const RUNS: usize = 10;

/// Reported and measured bytes.
struct Comparison {
    pools: [ThreadPool; 2],
    /// Whether there is enough to do for a thread that comes late.
    long: bool,
    wrong: Vec<String>,
    checked: usize,
}

impl Comparison {
    fn new() -> Self {
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        Self { pools: [pool(1), pool(2)], long: false, wrong: Vec::new(), checked: 0 }
    }

    /// Compares one kernel on one and on two threads.
    fn check(&mut self, name: &str, predicted: impl Fn() -> usize + Sync, mut run: impl FnMut() + Send) {
        for (threads, pool) in [1, 2].into_iter().zip(&self.pools) {
            let predicted = pool.install(&predicted);
            let allowed = FEW_BYTES.max(predicted / SMALL_PART);
            let mut measured = 0;
            for _ in 0..if threads == 1 { 1 } else { RUNS } {
                measured = measured.max(pool.install(|| peak(&mut run)));
                if predicted.saturating_sub(measured) <= allowed {
                    break;
                }
            }
            let late = if threads == 1 || self.long { 0 } else { predicted / 2 };
            if measured > predicted || predicted - measured > allowed + late {
                self.wrong.push(format!("{name}, {threads} threads: {predicted} bytes, took {measured}"));
            }
            self.checked += 1;
        }
    }
}

/// The most that was on the heap while this ran, less what was there before.
fn peak(mut run: impl FnMut()) -> usize {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    run();
    HEAP.peak_usage().saturating_sub(before)
}

fn filled<E: Element>(len: usize) -> Vec<E> {
    (0..len).map(|index| E::from_f32((index % 7) as f32 / 8.0)).collect()
}

/// The workspaces of a convolution: its outputs are there before.
fn check_convolution<E: Element>(comparison: &mut Comparison, shape: &ConvShape) {
    let size = size_of::<E>();
    let name = |kernel: &str| format!("{kernel} of {size} bytes, {shape:?}");
    let (mut input, mut gradient): (Vec<E>, Vec<E>) = (filled(shape.input_len()), filled(shape.output_len()));
    let mut weight: Vec<f32> = filled(shape.weight_len());
    comparison.check(
        &name("forward"),
        || conv::forward_workspace::<E>(shape),
        || conv::forward(shape, Input::plain(&input), &weight, Output::plain(&mut gradient)),
    );
    comparison.check(
        &name("data gradient"),
        || conv::data_gradient_workspace::<E>(shape),
        || conv::data_gradient(shape, Input::plain(&gradient), &weight, Output::plain(&mut input)),
    );
    comparison.check(
        &name("weight gradient"),
        || conv::weight_gradient_workspace::<E>(shape),
        || conv::weight_gradient(shape, Input::plain(&input), Input::plain(&gradient), &mut weight),
    );
}

/// What a convolution is made of.
#[derive(Clone, Copy)]
struct Convolution {
    batch_size: usize,
    channels: [usize; 2],
    groups: usize,
    input: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
    dilation: [usize; 3],
    padding: [[usize; 2]; 3],
}

impl Convolution {
    fn shape(self) -> ConvShape {
        let Self { batch_size, channels: [channels_in, channels_out], groups, stride, dilation, padding, .. } = self;
        let volume = |first, second, [depth, height, width]: [usize; 3]| [first, second, depth, height, width];
        let input = volume(batch_size, channels_in, self.input);
        let weight = volume(channels_out, channels_in / groups, self.kernel);
        ConvShape::new(input, weight, ConvSettings { stride, dilation, padding, groups }).unwrap()
    }
}

/// A volume of equal sides, padded by half of the kernel.
fn cube(channels: [usize; 2], side: usize, kernel: usize, stride: usize) -> Convolution {
    Convolution {
        batch_size: 1,
        channels,
        groups: 1,
        input: [side; 3],
        kernel: [kernel; 3],
        stride: [stride; 3],
        dilation: [1; 3],
        padding: [[(kernel - 1) / 2; 2]; 3],
    }
}

fn convolutions() -> Vec<Convolution> {
    let flat = |shape: Convolution| Convolution { stride: [1, 2, 2], ..shape };
    let mut shapes = vec![
        // The first and the last layers.
        cube([1, 32], 32, 3, 1),
        cube([2, 16], 33, 3, 1),
        cube([4, 32], 24, 3, 1),
        cube([32, 1], 32, 3, 1),
        cube([16, 3], 33, 3, 1),
        cube([32, 3], 24, 1, 1),
        // Blocks of an encoder and a decoder.
        cube([16, 16], 40, 3, 1),
        cube([32, 32], 32, 3, 1),
        cube([48, 40], 19, 3, 1),
        cube([64, 64], 16, 3, 1),
        cube([64, 32], 25, 3, 1),
        cube([128, 128], 8, 3, 1),
        cube([256, 256], 4, 3, 1),
        cube([256, 128], 8, 3, 1),
        cube([96, 250], 5, 3, 1),
        // One element.
        cube([32, 64], 32, 1, 1),
        cube([64, 48], 17, 1, 1),
        cube([256, 256], 8, 1, 1),
        cube([256, 96], 5, 1, 1),
        cube([64, 128], 16, 1, 2),
        // Fewer positions behind than before.
        cube([32, 32], 32, 3, 2),
        cube([16, 32], 33, 3, 2),
        cube([64, 128], 16, 3, 2),
        cube([5, 7], 23, 3, 2),
        flat(cube([32, 48], 24, 3, 1)),
        flat(cube([16, 16], 33, 3, 1)),
        flat(cube([64, 64], 12, 1, 1)),
        cube([16, 24], 26, 4, 2),
        cube([64, 64], 16, 4, 2),
        cube([128, 256], 8, 4, 2),
        flat(cube([16, 24], 26, 4, 1)),
        cube([24, 24], 16, 4, 1),
        cube([16, 32], 24, 2, 2),
        // Many phases of a data gradient.
        cube([8, 8], 37, 1, 12),
        // Groups, dilation, other kernels and volumes.
        Convolution { groups: 4, ..cube([64, 64], 16, 3, 1) },
        Convolution { groups: 48, ..cube([48, 48], 16, 3, 1) },
        Convolution { groups: 2, ..cube([32, 64], 17, 4, 2) },
        Convolution { dilation: [2; 3], padding: [[2; 2]; 3], ..cube([24, 24], 20, 3, 1) },
        Convolution { kernel: [1, 3, 3], padding: [[0; 2], [1; 2], [1; 2]], ..cube([32, 32], 20, 3, 1) },
        Convolution { kernel: [3, 1, 1], padding: [[1; 2], [0; 2], [0; 2]], ..cube([32, 32], 20, 3, 1) },
        Convolution { input: [3, 5, 300], ..cube([32, 16], 1, 3, 1) },
        Convolution { padding: [[0, 1], [2, 0], [1, 2]], ..cube([20, 28], 18, 3, 1) },
    ];
    // Several items.
    let batches = [cube([32, 32], 16, 3, 1), cube([16, 32], 16, 3, 2), cube([64, 64], 9, 1, 1)];
    shapes.extend(batches.map(|shape| Convolution { batch_size: 3, ..shape }));
    shapes
}

fn check_attention<E: Element>(comparison: &mut Comparison, shape: &AttentionShape) {
    let name = |kernel: &str| format!("attention {kernel} of {} bytes, {shape:?}", size_of::<E>());
    let (query, key): (Vec<E>, Vec<E>) = (filled(shape.query_len()), filled(shape.key_len()));
    let mut output = query.clone();
    // What forward returns is an output.
    let returned = shape.log_sum_exp_len() * size_of::<f32>();
    comparison.check(
        &name("forward"),
        || returned + attention::forward_workspace(shape),
        || drop(attention::forward(shape, &query, &key, &key, &mut output)),
    );
    let log_sum_exp = attention::forward(shape, &query, &key, &key, &mut output);
    let (mut query_gradient, mut key_gradient, mut value_gradient) = (query.clone(), key.clone(), key.clone());
    comparison.check(
        &name("backward"),
        || attention::backward_workspace(shape),
        || {
            let attended =
                Attended { query: &query, key: &key, value: &key, output: &output, log_sum_exp: &log_sum_exp };
            let gradients =
                Gradients { query: &mut query_gradient, key: &mut key_gradient, value: &mut value_gradient };
            attention::backward(shape, attended, &query, gradients);
        },
    );
}

fn check_windows<E: Element>(comparison: &mut Comparison, shape: &WindowShape) {
    let name = |kernel: &str| format!("attention in windows {kernel} of {} bytes, {shape:?}", size_of::<E>());
    let volume: Vec<E> = filled(shape.volume_len());
    let (table, padding) = (vec![0.5; shape.table_len()], vec![0.5; shape.channels()]);
    let operands =
        WindowOperands { query: &volume, key: &volume, value: &volume, table: &table, padding: [&padding; 2] };
    let mut output = volume.clone();
    // What is returned is an output.
    let returned = shape.log_sum_exp_len() * size_of::<f32>();
    comparison.check(
        &name("forward"),
        || returned + window::forward_workspace(shape),
        || drop(window::forward(shape, operands, &mut output)),
    );
    let log_sum_exp = window::forward(shape, operands, &mut output);
    let [mut query, mut key, mut value] = [0; 3].map(|_| volume.clone());
    let returned = (shape.table_len() + 2 * shape.channels()) * size_of::<f32>();
    comparison.check(
        &name("backward"),
        || returned + window::backward_workspace(shape),
        || {
            let gradients = WindowGradients { query: &mut query, key: &mut key, value: &mut value };
            drop(window::backward(shape, operands, (&output, &log_sum_exp), &volume, gradients));
        },
    );
}

fn check_layer_norm<E: Element>(comparison: &mut Comparison, shape: &LayerShape) {
    let name = |kernel: &str| format!("layer norm {kernel} of {} bytes, {shape:?}", size_of::<E>());
    let x: Vec<E> = filled(shape.volume_len());
    let mut y = x.clone();
    let norm = LayerNorm { shape: *shape, epsilon: 1e-5, weight: None, bias: None };
    comparison.check(&name("forward"), || layer_norm_workspace(shape), || norm.forward(&x, &mut y));
    let returned = 2 * shape.channels() * size_of::<f32>();
    comparison.check(
        &name("backward"),
        || returned + layer_norm_backward_workspace(shape),
        || drop(norm.backward(&x, &mut y)),
    );
}

fn check_transform<E: Element>(
    comparison: &mut Comparison,
    items: usize,
    size: [usize; 3],
    frequencies: &[Vec<i32>; 3],
) {
    let transform = Transform::of_waves(size, frequencies).unwrap();
    let name = |kernel: &str| format!("Fourier transform {kernel} of {} bytes, {items} of {size:?}", size_of::<E>());
    let mut x: Vec<E> = filled(items * size.iter().product::<usize>());
    let mut spectra: Vec<f32> = vec![0.5; 2 * items * transform.modes().iter().product::<usize>()];
    comparison.check(
        &name("forward"),
        || transform.to_spectra_workspace(items),
        || transform.to_spectra(&x, Activation::Gelu, &mut spectra),
    );
    comparison.check(
        &name("transposed"),
        || transform.add_volumes_workspace(items),
        || transform.add_volumes(&spectra, &mut x),
    );
}

fn check_max_pool<E: Element>(comparison: &mut Comparison, windows: &PoolWindows) {
    let len = |size: [usize; 3]| windows.items() * size.iter().product::<usize>();
    let input: Vec<E> = filled(len(windows.input()));
    let gradient: Vec<E> = filled(len(windows.output()));
    let mut input_gradient = input.clone();
    comparison.check(
        &format!("max pool backward of {} bytes, {:?} to {:?}", size_of::<E>(), windows.input(), windows.output()),
        || max_pool_backward_workspace(windows),
        || max_pool_backward(windows, &input, &gradient, &mut input_gradient),
    );
}

/// All in one test: two at a time would see each other's memory.
#[test]
fn no_kernel_takes_more_than_it_says_and_none_says_much_more() {
    let mut comparison = Comparison::new();
    for shape in convolutions().into_iter().map(Convolution::shape) {
        check_convolution::<f32>(&mut comparison, &shape);
        check_convolution::<bf16>(&mut comparison, &shape);
    }
    for (heads, head_channels, query_positions, key_positions) in
        [(1, 64, 512, 512), (4, 32, 1000, 1000), (1, 512, 343, 343), (2, 16, 77, 1500), (8, 8, 2048, 100), (1, 3, 5, 7)]
    {
        for block in [None, Some(100)] {
            let shape = AttentionShape::new([2, heads, head_channels], [query_positions, key_positions], 0.1).unwrap();
            let shape = shape.with_block(block);
            check_attention::<f32>(&mut comparison, &shape);
            check_attention::<bf16>(&mut comparison, &shape);
        }
    }
    for (heads, head_channels, volume) in
        [(3, 8, [14, 15, 16]), (12, 16, [6, 6, 6]), (1, 32, [1, 30, 30]), (2, 3, [9, 5, 2])]
    {
        let shape = WindowShape::new([2, heads, head_channels], volume, [[7; 3], [3; 3]], 0.1).unwrap();
        check_windows::<f32>(&mut comparison, &shape);
        check_windows::<bf16>(&mut comparison, &shape);
    }
    for dims in [[1, 24, 20_000], [3, 768, 100], [2, 5, 7]] {
        check_layer_norm::<f32>(&mut comparison, &LayerShape::new(dims).unwrap());
        check_layer_norm::<bf16>(&mut comparison, &LayerShape::new(dims).unwrap());
    }
    let signed = |modes: i32| (0..modes).chain(-modes..0).collect::<Vec<_>>();
    for (items, size, modes) in
        [(32, [24, 32, 40], [6, 8, 9]), (60, [1, 100, 64], [0, 12, 12]), (3, [5, 6, 7], [2, 2, 2])]
    {
        let [depth, height, width] = modes;
        let depth = if depth == 0 { vec![0] } else { signed(depth) };
        let frequencies = [depth, signed(height), (0..width).collect()];
        check_transform::<f32>(&mut comparison, items, size, &frequencies);
        check_transform::<bf16>(&mut comparison, items, size, &frequencies);
    }
    for (items, side) in [(32, 32), (3, 65), (16, 9)] {
        let pool = MaxPoolShape {
            items,
            input: [side; 3],
            kernel: [2; 3],
            stride: [2; 3],
            padding: [0; 3],
            dilation: [1; 3],
            ceil_mode: false,
        };
        check_max_pool::<f32>(&mut comparison, &pool.windows().unwrap());
        check_max_pool::<bf16>(&mut comparison, &pool.windows().unwrap());
    }
    comparison.long = true;
    for shape in
        [cube([32, 32], 64, 3, 1), cube([32, 64], 64, 4, 2), cube([32, 24], 96, 1, 1), cube([128, 128], 24, 3, 1)]
    {
        check_convolution::<f32>(&mut comparison, &shape.shape());
    }
    let Comparison { wrong, checked, .. } = comparison;
    assert!(wrong.is_empty(), "{} of {checked} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
