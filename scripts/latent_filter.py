#!/usr/bin/env python3
"""What a linear filter of a few places reaches where a diffusion model of latents is trained: a yardstick for its loss.

    leanburn train CONFIG --set latents.folder=latents
    python scripts/latent_filter.py latents [--side 5] [--sigma 0.026 0.743 7.1 39.02]

Reads `latents.npy` and `latents.json` of the folder. For each noise level a filter that is the same at every place of a plane, from `side` x `side`
places of all channels and planes to those of one place, is fitted to the training latents less the mean of each place, by least squares over
twenty draws of noise. Prints its loss on the validation latents over twenty other draws, in units of `leanburn`'s scheduler `edm` with a deviation
of 1. Needs numpy.
"""

import argparse
import json
from pathlib import Path

import numpy as np

DRAWS = 20


def neighbours(latents: np.ndarray, side: int) -> np.ndarray:
    """`[latents, features, height, width]` to `[places, side * side * features]`, with zeros around."""
    reach = side // 2
    _, _, height, width = latents.shape
    padded = np.pad(latents, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    shifts = [(row, column) for row in range(side) for column in range(side)]
    parts = [padded[:, :, row : row + height, column : column + width] for row, column in shifts]
    return np.concatenate(parts, 1).transpose(0, 2, 3, 1).reshape(len(latents) * height * width, -1)


def loss(training: np.ndarray, validation: np.ndarray, side: int, sigma: float, random: np.random.Generator) -> float:
    noisy = lambda latents: latents + sigma * random.standard_normal(latents.shape)
    products = right = 0
    for _ in range(DRAWS):
        given, wanted = neighbours(noisy(training), side), neighbours(training, 1)
        products, right = products + given.T @ given, right + given.T @ wanted
    ridge = 1e-6 * np.trace(products) / len(products) * np.eye(len(products))
    weight = np.linalg.solve(products + ridge, right)
    errors = [((neighbours(noisy(validation), side) @ weight - neighbours(validation, 1)) ** 2).mean() for _ in range(DRAWS)]
    return np.mean(errors) * (sigma**2 + 1) / sigma**2


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--side", type=int, default=5, help="places along each axis of a plane, an odd number")
    options.add_argument("--sigma", type=float, nargs="+", default=[0.026055, 0.743379, 7.10051, 39.0167], help="noise levels")
    options = options.parse_args()
    means = np.load(options.folder / "latents.npy")[:, 0].astype(np.float64)
    index = json.loads((options.folder / "latents.json").read_text())
    means *= index["spread"]["scale"]
    count, _, _, height, width = means.shape
    means = means.reshape(count, -1, height, width)
    training, validation = means[: index["training"]], means[index["training"] :]
    mean, random = training.mean(0), np.random.default_rng(0)
    losses = [loss(training - mean, validation - mean, options.side, sigma, random) for sigma in options.sigma]
    for sigma, found in zip(options.sigma, losses):
        print(f"{sigma:8.3f}  {found:.3f}")
    print(f"{'mean':>8}  {np.mean(losses):.3f}")


if __name__ == "__main__":
    main()
