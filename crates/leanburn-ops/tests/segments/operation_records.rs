//! Every operation on the recording device: forward and backward are recorded, and what lives in between is little.

use std::collections::HashMap;
use std::sync::Arc;

use burn::backend::ir::OperationIr;
use burn::prelude::*;
use burn::tensor::{DType, ops::ConvOptions, ops::ConvTransposeOptions};
use leanburn_ops::{
    Activation, AvgPool3d, BevCells, Convolution, Interpolation, Norm, Pointwise, SpectralWeights, WindowAttention,
    adaptive_avg_pool3d, attention3d, avg_pool3d, backward, bev_pool, conv_transpose3d, conv3d, dropout, dropout3d,
    group_norm_act, interpolate3d, layer_norm3d, norm_act_conv3d, recording, spectral_conv, upsample_conv3d,
    window_attention3d,
};

use crate::common::{ResBlock, lean_chain};

fn record(step: impl FnOnce(&Device)) -> Vec<OperationIr> {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        step(&device.clone().autodiff());
        scope.complete([], [])
    });
    captured.expect("a complete recording").graph.operations
}

/// Bytes of the tensors that the first `forward` operations make and the others read.
fn held(operations: &[OperationIr], forward: usize) -> usize {
    let mut made = HashMap::new();
    for operation in &operations[..forward] {
        made.extend(operation.outputs().map(|tensor| (tensor.id, tensor.shape.num_elements() * tensor.dtype.size())));
    }
    let read = operations[forward..].iter().flat_map(OperationIr::inputs);
    read.filter_map(|tensor| made.remove(&tensor.id)).sum()
}

#[test]
fn a_residual_block_holds_two_activations_plain_and_one_recomputed() {
    const DIMS: [usize; 5] = [1, 16, 24, 24, 24];
    const BLOCKS: usize = 4;
    let step = |recomputed: bool, with_backward: bool| {
        record(move |device| {
            let blocks: Vec<_> = (0..BLOCKS).map(|_| ResBlock::new(DIMS[1], device)).collect();
            // The result of an operation, as inside a model.
            let x = Tensor::<5>::zeros(DIMS, device) + 1.0;
            let loss = lean_chain(&blocks, x, recomputed).sum();
            if with_backward {
                assert_eq!(backward(loss).take_module(&blocks).len(), 8 * BLOCKS);
            }
        })
    };
    for (recomputed, most) in [(false, 2.1), (true, 1.1)] {
        let (forward, whole) = (step(recomputed, false).len(), step(recomputed, true));
        let activations = held(&whole, forward) as f64 / (4 * DIMS.iter().product::<usize>()) as f64;
        println!("recomputed {recomputed}: {activations:.2} activations");
        let per_block = activations / BLOCKS as f64;
        assert!(per_block <= most, "{per_block:.2} activations a block");
        assert!(per_block >= most - 0.2, "{per_block:.2} activations a block: fewer than are needed");
    }
}

/// Records `operation` on a volume `[2, 8, 6, 6, 6]` in a dtype, with parameters in float32.
fn records(name: &str, operation: impl Fn(Tensor<5>, &Device) -> (Tensor<5>, Vec<Tensor<5>>, Vec<Tensor<1>>)) {
    for dtype in [DType::F32, DType::BF16] {
        let operations = record(|device| {
            let x = Tensor::<5>::zeros([2, 8, 6, 6, 6], (device, dtype)).require_grad();
            let (y, kernels, vectors) = operation(x.clone(), device);
            assert_eq!(y.dtype(), dtype, "{name}");
            let mut gradients = backward(y.sum());
            let gradient = gradients.take(&x).unwrap_or_else(|| panic!("{name}: gradient of the input"));
            assert_eq!((gradient.dims(), gradient.dtype()), (x.dims(), dtype), "{name}");
            for kernel in kernels {
                let gradient = gradients.take(&kernel).unwrap_or_else(|| panic!("{name}: gradient of the weight"));
                assert_eq!((gradient.dims(), gradient.dtype()), (kernel.dims(), DType::F32), "{name}");
            }
            for vector in vectors {
                let gradient = gradients.take(&vector).unwrap_or_else(|| panic!("{name}: gradient of a vector"));
                assert_eq!((gradient.dims(), gradient.dtype()), (vector.dims(), DType::F32), "{name}");
            }
        });
        assert!(!operations.is_empty(), "{name}");
    }
}

fn kernel(dims: [usize; 5], device: &Device) -> Tensor<5> {
    Tensor::zeros(dims, device).require_grad()
}

fn vector(device: &Device) -> Tensor<1> {
    Tensor::zeros([8], device).require_grad()
}

fn norm(device: &Device) -> Norm {
    Norm { num_groups: 4, epsilon: 1e-5, weight: Some(vector(device)), bias: Some(vector(device)) }
}

#[test]
fn convolutions_record() {
    let options = || {
        let mut options = ConvOptions::new([2, 1, 2], [0; 3], [1; 3], 2);
        options.padding = [(0, 1), (2, 1), (1, 1)];
        options
    };
    records("conv3d", |x, device| {
        let (weight, bias) = (kernel([8, 4, 3, 3, 3], device), vector(device));
        let convolution = Convolution { weight: weight.clone(), bias: Some(bias.clone()), options: options() };
        (conv3d(x, convolution), vec![weight], vec![bias])
    });
    for activation in [Activation::None, Activation::Silu, Activation::Relu, Activation::LeakyRelu(0.1)] {
        records("norm_act_conv3d", |x, device| {
            let (weight, bias, norm) = (kernel([8, 8, 3, 3, 3], device), vector(device), norm(device));
            let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
            let convolution = Convolution { weight: weight.clone(), bias: Some(bias.clone()), options };
            let vectors = vec![bias, norm.weight.clone().unwrap(), norm.bias.clone().unwrap()];
            (norm_act_conv3d(x.clone(), Some(norm), activation, convolution, Some(x)), vec![weight], vectors)
        });
    }
    records("conv_transpose3d", |x, device| {
        let (weight, bias) = (kernel([8, 4, 4, 4, 4], device), vector(device));
        let options = ConvTransposeOptions::new([2; 3], [1; 3], [1; 3], [1; 3], 2);
        (conv_transpose3d(x, weight.clone(), Some(bias.clone()), options), vec![weight], vec![bias])
    });
    records("upsample_conv3d", |x, device| {
        let (weight, bias) = (kernel([8, 8, 3, 3, 3], device), vector(device));
        let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
        let convolution = Convolution { weight: weight.clone(), bias: Some(bias.clone()), options };
        (upsample_conv3d(x, [2, 1, 3], convolution), vec![weight], vec![bias])
    });
}

#[test]
fn norm_and_attention_record() {
    records("group_norm_act", |x, device| {
        let norm = norm(device);
        let vectors = vec![norm.weight.clone().unwrap(), norm.bias.clone().unwrap()];
        (group_norm_act(x, norm, Activation::Silu), Vec::new(), vectors)
    });
    records("attention3d", |x, _| (attention3d(x.clone(), x.clone(), x, 2, 0.5), Vec::new(), Vec::new()));
}

fn windows(x: [Tensor<5>; 3], table: Tensor<2>, padding: [Option<Tensor<1>>; 2]) -> Tensor<5> {
    let [query, key, value] = x;
    let attention = WindowAttention { num_heads: 2, window: [4; 3], shift: [2; 3], scale: 0.5, table, padding };
    window_attention3d(query, key, value, attention)
}

#[test]
fn windows_and_layer_norm_record() {
    for on_cpu in [true, false] {
        let records_all = || {
            records("window_attention3d", |x, device| {
                let table = Tensor::<1>::zeros([7 * 7 * 7 * 2], device).require_grad();
                let padding = [0; 2].map(|_| vector(device));
                let outer = padding.clone().map(Some);
                let y = windows([x.clone(), x.clone(), x], table.clone().reshape([343, 2]), outer);
                (y, Vec::new(), [vec![table], padding.to_vec()].concat())
            });
            records("layer_norm3d", |x, device| {
                let vectors = vec![vector(device), vector(device)];
                let [weight, bias] = [0, 1].map(|index: usize| Some(vectors[index].clone()));
                (layer_norm3d(x, weight, bias, 1e-5), Vec::new(), vectors)
            });
        };
        if on_cpu { recording::as_on_cpu(records_all) } else { records_all() }
    }
}

/// Queries, keys, values, the output and a number for each query of each head; with a layer norm before them one input.
#[test]
fn window_attention_holds_four_volumes_and_a_statistic() {
    const DIMS: [usize; 5] = [1, 8, 6, 6, 6];
    let step = |with_backward: bool| {
        record(move |device| {
            let x = Tensor::<5>::zeros(DIMS, device).require_grad() * 2.0;
            let x = layer_norm3d(x, None, None, 1e-5);
            let table = Tensor::<2>::zeros([343, 2], device).require_grad();
            let volumes = [1.0, 2.0, 3.0].map(|factor| x.clone() * factor);
            let loss = windows(volumes, table, [None, None]).sum();
            if with_backward {
                drop(backward(loss));
            }
        })
    };
    let (forward, whole) = recording::as_on_cpu(|| (step(false), step(true)));
    let volume = 4 * DIMS.iter().product::<usize>();
    // The table is a leaf, made in forward as well.
    assert_eq!(held(&whole, forward.len()), 5 * volume + volume / 4 + 4 * 686);
}

fn operator_layer(x: Tensor<5>, values: Tensor<6>, weight: Tensor<5>, bias: Option<Tensor<1>>) -> Tensor<5> {
    let [_, _, size @ ..] = x.dims();
    let frequencies = [vec![0, 1, -1], vec![0, 1, -1], vec![0, 1]];
    spectral_conv(x, Activation::Gelu, SpectralWeights { values, frequencies, size }, Some(Pointwise { weight, bias }))
}

#[test]
fn spectral_conv_records() {
    for on_cpu in [true, false] {
        let records_all = || {
            records("spectral_conv", |x, device| {
                let (values, weight, bias) =
                    (kernel([2, 8, 8, 9, 2], device), kernel([8, 8, 1, 1, 1], device), vector(device));
                let of_spectrum = values.clone().reshape([2, 8, 8, 3, 3, 2]);
                (operator_layer(x, of_spectrum, weight.clone(), Some(bias.clone())), vec![values, weight], vec![bias])
            });
        };
        if on_cpu { recording::as_on_cpu(records_all) } else { records_all() }
    }
}

/// Its input, 18 coefficients of each channel, and nothing else.
#[test]
fn a_layer_of_an_operator_holds_one_volume_and_a_truncated_spectrum() {
    const DIMS: [usize; 5] = [2, 8, 12, 12, 12];
    const LAYERS: usize = 3;
    let step = |with_backward: bool| {
        record(move |device| {
            let x = Tensor::<5>::zeros(DIMS, device).require_grad() * 2.0;
            let (values, weight) = (Tensor::<6>::zeros([2, 8, 8, 3, 3, 2], device), kernel([8, 8, 1, 1, 1], device));
            let values = values.require_grad();
            let loss = (0..LAYERS).fold(x, |x, _| operator_layer(x, values.clone(), weight.clone(), None)).sum();
            if with_backward {
                drop(backward(loss));
            }
        })
    };
    let (forward, whole) = recording::as_on_cpu(|| (step(false), step(true)));
    let (volume, spectrum) = (4 * DIMS.iter().product::<usize>(), 4 * 2 * 2 * 8 * 18);
    // The weights are leaves, made in forward as well.
    let weights = 4 * (2 * 64 * 18 + 64);
    assert_eq!(held(&whole, forward.len()), LAYERS * (volume + spectrum) + weights);
}

/// Features and depths of a camera, 0.19 MiB; their product would be 5.38 MiB. On the CPU, and composed for a GPU.
#[test]
fn bev_pool_holds_features_and_depths() {
    let [bins, channels, height, width] = [49, 64, 18, 25];
    let cell = |point: usize| if point.is_multiple_of(5) { BevCells::OUTSIDE } else { (point % 9800) as u32 };
    let points = bins * height * width;
    let cells = Arc::new(BevCells::new(bins, height * width, [1, 98, 100], (0..points).map(cell).collect()));
    let step = |with_backward: bool| {
        record(|device| {
            let volume = |rows| Tensor::<5>::zeros([1, rows, 1, height, width], device).require_grad() * 2.0;
            let pooled = bev_pool(volume(channels), volume(bins), &cells);
            assert_eq!(pooled.dims(), [1, channels, 1, 98, 100]);
            let loss = pooled.sum();
            if with_backward {
                drop(backward(loss));
            }
        })
    };
    let expected = 4 * (channels + bins) * height * width;
    assert_eq!(expected, 203_400);
    let on_cpu = recording::as_on_cpu(|| held(&step(true), step(false).len()));
    assert_eq!([on_cpu, held(&step(true), step(false).len())], [expected; 2]);
}

#[test]
fn resampling_records() {
    let modes = [false, true].map(|align_corners| Interpolation::Trilinear { align_corners });
    for mode in modes.into_iter().chain([Interpolation::Nearest]) {
        records("interpolate3d", |x, _| (interpolate3d(x, [4, 9, 13], mode), Vec::new(), Vec::new()));
    }
    records("avg_pool3d", |x, _| (avg_pool3d(x, AvgPool3d::new([2, 3, 1])), Vec::new(), Vec::new()));
    records("adaptive_avg_pool3d", |x, _| (adaptive_avg_pool3d(x, [1, 4, 5]), Vec::new(), Vec::new()));
}

/// As on the CPU, and as on a GPU, where the mask is a tensor while it is used.
#[test]
fn dropout_records_and_holds_nothing() {
    records("dropout", |x, _| (dropout(x, 0.5), Vec::new(), Vec::new()));
    records("dropout3d", |x, _| (dropout3d(x, 0.5), Vec::new(), Vec::new()));
    let step = |with_backward: bool| {
        record(move |device| {
            let x = Tensor::<5>::zeros([2, 8, 6, 6, 6], device).require_grad();
            let loss = dropout3d(dropout(x * 2.0, 0.5), 0.5).sum();
            if with_backward {
                drop(backward(loss));
            }
        })
    };
    let on_cpu = |with_backward| recording::as_on_cpu(|| step(with_backward));
    for (forward, whole) in [(step(false), step(true)), (on_cpu(false), on_cpu(true))] {
        assert!(whole.len() > forward.len());
        assert_eq!(held(&whole, forward.len()), 0);
    }
}
