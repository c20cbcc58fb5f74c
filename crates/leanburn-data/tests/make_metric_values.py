"""The values that the tests of `metrics/wasserstein.rs` and `metrics/ms_ssim.rs` compare with, by NumPy, PyTorch and MONAI 1.6.1.

    python make_metric_values.py
"""
import math

import numpy as np
import torch
from monai.metrics.regression import compute_ms_ssim


def vectors(count, features, phase):
    index = np.arange(count * features)
    return (np.sin(0.37 * index + phase) * (1 + phase)).astype(np.float32).astype(np.float64).reshape(count, features)


def sliced(one, other, directions):
    """The root of the mean squared difference of quantiles, along each direction."""
    least = math.lcm(len(one), len(other))
    quantiles = [np.repeat(np.sort(x @ directions.T, axis=0), least // len(x), axis=0) for x in (one, other)]
    return math.sqrt(((quantiles[0] - quantiles[1]) ** 2).mean())


def volume(shape, phase):
    index = np.arange(math.prod(shape))
    values = 0.5 + 0.4 * np.sin(0.05 * index + phase) * np.cos(0.013 * index)
    return torch.from_numpy(values.astype(np.float32)).reshape(1, *shape)


directions = vectors(5, 3, 0.5)
directions /= np.linalg.norm(directions, axis=1, keepdims=True)
for count, other in [(4, 4), (6, 9), (7, 4)]:
    print(f"({count}, {other}, {sliced(vectors(count, 3, 0.0), vectors(other, 3, 0.8), directions):.9f}),")
for shape, window, weights in [
    ((1, 24, 22, 26), (11, 11, 11), (0.4, 0.6)),
    ((2, 26, 24, 22), (5, 5, 5), (0.2, 0.3, 0.5)),
    ((1, 8, 16, 17), (7, 11, 11), (1.0,)),
]:
    found = [compute_ms_ssim(volume(shape, 0.0), volume(shape, phase), 3, 1.0, kernel_size=window, weights=weights) for phase in (0.1, 0.9)]
    print(f"({list(shape)}, {list(window)}, &{list(weights)}, &[{found[0].item():.7f}, {found[1].item():.7f}]),")
