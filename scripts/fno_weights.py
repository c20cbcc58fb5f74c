"""State dicts of the Fourier neural operator as its authors' code has them, to and from the names and shapes of `leanburn`'s `Fno`.

The authors have a complex weight for each corner of the spectrum (`conv0.weights1`, ..) and linear layers; `Fno` has one real tensor
`[2, in, out, frequencies..]` and convolutions with a kernel of one.

    python scripts/fno_weights.py to-leanburn  classic.pt   fno.safetensors
    python scripts/fno_weights.py to-classic   fno.safetensors  classic.pt

Needs: torch, safetensors.
"""
import itertools
import re
import sys

import torch
from safetensors.torch import load_file, save_file


def corners(modes):
    """Names of the authors' weights with their places among the frequencies: from 0 up and below 0 along all axes but the last, of
    which the first changes fastest."""
    for index, halves in enumerate(itertools.product((0, 1), repeat=len(modes) - 1)):
        places = [slice(half * m, (half + 1) * m) for half, m in zip(reversed(halves), modes)]
        yield f"weights{index + 1}", (slice(None), slice(None), *places)


def to_leanburn(state):
    """The authors' names and shapes to those of `Fno`."""
    result = {}
    for name, value in state.items():
        spectral = re.fullmatch(r"(conv\d+)\.weights1", name)
        if spectral:
            modes = value.shape[2:]
            whole = torch.zeros(*value.shape[:2], *(2 * m for m in modes[:-1]), modes[-1], dtype=value.dtype)
            for corner, places in corners(modes):
                whole[places] = state[f"{spectral[1]}.{corner}"]
            parts = torch.stack([whole.real, whole.imag])
            result[f"{spectral[1]}.weights"] = parts.reshape(*parts.shape[:3], *[1] * (3 - len(modes)), *parts.shape[3:])
        elif re.fullmatch(r"(fc|w)\d+\.weight", name):
            result[name] = value.reshape(*value.shape[:2], 1, 1, 1)
        elif ".weights" not in name and not name.endswith("num_batches_tracked"):
            result[name] = value
    return {name: value.detach().clone().contiguous() for name, value in result.items()}


def to_classic(tensors):
    """The other way round: linear layers `fc`, one-dimensional convolutions `w`."""
    result = {}
    for name, value in tensors.items():
        if re.fullmatch(r"conv\d+\.weights", name):
            signed = [count for count in value.shape[3:5] if count > 1]  # an axis that is not used has one frequency
            whole = torch.complex(value[0], value[1]).reshape(*value.shape[1:3], *signed, value.shape[5])
            for corner, places in corners([count // 2 for count in signed] + [value.shape[5]]):
                result[name.removesuffix("weights") + corner] = whole[places].clone()
        elif re.fullmatch(r"(fc|w)\d+\.weight", name):
            result[name] = value.reshape(*value.shape[:2], *[1] * name.startswith("w"))
        else:
            result[name] = value
    return result


def main():
    direction, source, target = sys.argv[1:]
    if direction == "to-leanburn":
        save_file(to_leanburn(torch.load(source, map_location="cpu")), target)
    else:
        torch.save(to_classic(load_file(source)), target)


if __name__ == "__main__":
    main()
