"""State dicts of Fourier neural operators, to and from the names and shapes of `leanburn`'s `Fno`.

The other codes have complex weights, one for each corner of the spectrum or one around its middle, and linear layers; `Fno` has real
pairs `[2, in, out, depth, height, width]` and convolutions with a kernel of one.

    python scripts/fno_weights.py to-leanburn FAMILY theirs.pt fno.safetensors
    python scripts/fno_weights.py from-leanburn FAMILY AXES fno.safetensors theirs.pt

FAMILY: classic (the paper's authors), diffsr, neuraloperator. AXES: 1, 2 or 3.
Needs: torch, safetensors.
"""
import itertools
import re
import sys

import torch
from safetensors.torch import load_file, save_file

# Their modules, ours, and the axes that their weights have behind the channels: a number, or "all" for those of the grid.
FAMILIES = {
    "classic": [("fc0", "lift.0", 0), ("fc1", "projection.0", 0), ("fc2", "projection.1", 0)]
    + [("w#", "layers.#.pointwise", 1), ("bn#", "layers.#.norm", None), ("conv#", "layers.#.spectral", "corners")],
    "diffsr": [("fc0", "lift.0", 0), ("fc1", "projection.0", 0), ("fc2", "projection.1", 0), ("fc3", "projection.2", 0)]
    + [("ws.#", "layers.#.pointwise", 1), ("sp_convs.#", "layers.#.spectral", "corners")]
    + [("up_sp_conv", "upsample.spectral", "corners"), ("up_ws.#", "upsample.doublings.#", "all")],
    "neuraloperator": [("lifting.fcs.#", "lift.#", 1), ("projection.fcs.#", "projection.#", 1)]
    + [("fno_blocks.fno_skips.#.conv", "layers.#.pointwise", 1), ("fno_blocks.convs.#", "layers.#.pointwise", None)]
    + [("fno_blocks.channel_mlp.#.fcs.0", "layers.#.mlp.inner", 1), ("fno_blocks.channel_mlp.#.fcs.1", "layers.#.mlp.outer", 1)]
    + [("fno_blocks.convs.#.weight", "layers.#.spectral", "centred"), ("fno_blocks.channel_mlp_skips.#", "layers.#.mlp.gate", "gate")],
}


def corners(modes):
    """Names of the weights of corners with their places among the frequencies: from 0 up and below 0 along all axes but the last, of
    which the first changes fastest."""
    for index, halves in enumerate(itertools.product((0, 1), repeat=len(modes) - 1)):
        places = [slice(half * m, (half + 1) * m) for half, m in zip(reversed(halves), modes)]
        yield f"weights{index + 1}", (slice(None), slice(None), *places)


def pair(value):
    """Real parts, then imaginary parts."""
    return torch.stack([value.real, value.imag])


def three_axes(value, kept):
    """With an axis of one for each that is not there, behind the first `kept`."""
    return value.reshape(*value.shape[:kept], *[1] * (kept + 3 - value.ndim), *value.shape[kept:])


def whole(parts):
    """The weights of all corners as one tensor."""
    first = parts["weights1"]
    modes = first.shape[2:]
    result = torch.zeros(*first.shape[:2], *(2 * m for m in modes[:-1]), modes[-1], dtype=first.dtype)
    for name, places in corners(modes):
        result[places] = parts[name]
    return three_axes(pair(result), 3)


def to_leanburn(state, family):
    """Their names and shapes to those of `Fno`."""
    result = {}
    for theirs, ours, kind in FAMILIES[family]:
        pattern = re.compile(re.escape(theirs).replace(r"\#", r"(\d+)") + r"\.([\w.]+)")
        found = {}
        for key, value in state.items():
            match = pattern.fullmatch(key)
            if match and torch.is_tensor(value) and match[match.lastindex] != "num_batches_tracked":
                number = match[1] if "#" in theirs else ""
                found.setdefault(ours.replace("#", number), {})[match[match.lastindex]] = value.detach()
        for module, parts in found.items():
            if kind == "corners":
                result[f"{module}.values"] = whole(parts)
            elif kind == "centred" and "tensor" in parts:
                result[f"{module}.values"] = three_axes(pair(parts["tensor"]), 3)
            elif kind == "centred":
                result[f"{module}.values"] = three_axes(pair(parts["core"]), 3)
                for name, value in parts.items():
                    if name != "core":
                        result[f"{module}.factors.{name.removeprefix('factors.factor_')}"] = pair(value)
            elif kind == "gate":
                result[module] = parts["weight"].reshape(-1, 1, 1, 1, 1)
            elif kind is None:
                # The bias of a spectral convolution has axes of the grid.
                plain = {name: value for name, value in parts.items() if "." not in name}
                result |= {f"{module}.{name}": value.reshape(-1) for name, value in plain.items()}
            else:
                result |= {f"{module}.{n}": three_axes(v, 2) if n == "weight" else v for n, v in parts.items()}
    return {name: value.clone().contiguous() for name, value in result.items()}


def from_leanburn(tensors, family, axes):
    """The other way round."""
    result = {}
    for theirs, ours, kind in FAMILIES[family]:
        pattern = re.compile(re.escape(ours).replace(r"\#", r"(\d+)") + r"(?:\.([\w.]+))?")
        for key, value in tensors.items():
            match = pattern.fullmatch(key)
            if not match:
                continue
            module, name = theirs.replace("#", match[1] if "#" in ours else ""), match[match.lastindex]
            if kind == "corners":
                complex_value = torch.complex(value[0], value[1]).reshape(*value.shape[1:3], *value.shape[6 - axes :])
                sizes = complex_value.shape[2:]
                for corner, places in corners([size // 2 for size in sizes[:-1]] + [sizes[-1]]):
                    result[f"{module}.{corner}"] = complex_value[places].clone()
            elif kind == "centred" and name == "values":
                complex_value = torch.complex(value[0], value[1]).reshape(*value.shape[1:3], *value.shape[6 - axes :])
                factorised = f"{key.removesuffix('values')}factors.0" in tensors
                result[f"{module}.{'core' if factorised else 'tensor'}"] = complex_value
            elif kind == "centred":
                result[f"{module}.factors.factor_{name.removeprefix('factors.')}"] = torch.complex(value[0], value[1])
            elif kind == "gate":
                result[f"{module}.weight"] = value.reshape(1, -1, *[1] * axes)
            elif kind is None and family == "neuraloperator":
                if name == "bias":
                    result[f"{module}.bias"] = value.reshape(-1, *[1] * axes)
            elif kind is None:
                result[f"{module}.{name}"] = value
            elif not (family == "neuraloperator" and ours.endswith("pointwise") and name == "bias"):
                behind = axes if kind == "all" else kind
                shape = (*value.shape[:2], *value.shape[5 - behind :]) if name == "weight" else value.shape
                result[f"{module}.{name}"] = value.reshape(shape)
    return {name: value.clone().contiguous() for name, value in result.items()}


def main():
    direction, family, *rest = sys.argv[1:]
    if direction == "to-leanburn":
        source, target = rest
        save_file(to_leanburn(torch.load(source, map_location="cpu", weights_only=False), family), target)
    else:
        axes, source, target = rest
        torch.save(from_leanburn(load_file(source), family, int(axes)), target)


if __name__ == "__main__":
    main()
