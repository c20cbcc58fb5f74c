"""Training steps of the Fourier neural operator as its authors have it, arXiv:2010.08895; the same as rust/fno_step.rs."""

import argparse
import itertools
import math

import torch
import torch.nn.functional as F
from measure import compiled, values
from torch import nn
from torch.utils.checkpoint import checkpoint
from training_step import parsed, train, training_parser

PROJECTION = 128


def arguments() -> argparse.Namespace:
    parser = training_parser(__doc__)
    parser.add_argument("--shape", type=int, nargs="+", required=True, help="positions along each axis")
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--width", type=int, required=True, help="channels of the layers")
    parser.add_argument("--modes", type=int, required=True, help="frequencies of each sign along each axis")
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    parser.add_argument("--checkpoint", action="store_true", help="torch.utils.checkpoint for each layer and the projection")
    return parsed(parser)


def filled(*shape: int) -> torch.Tensor:
    """What Rust gives a parameter of this shape."""
    v = values(list(shape))
    return 0.5 + 0.25 * v if len(shape) == 1 else v / math.sqrt(math.prod(shape[1:]))


def linear(channels_in: int, channels_out: int) -> nn.Linear:
    layer = nn.Linear(channels_in, channels_out)
    layer.weight.data.copy_(filled(channels_out, channels_in, 1, 1, 1).reshape(channels_out, channels_in))
    layer.bias.data.copy_(filled(channels_out))
    return layer


class SpectralConv(nn.Module):
    """A complex weight for each corner of the spectrum."""

    def __init__(self, width: int, modes: int, axes: int) -> None:
        super().__init__()
        self.places = []
        kept = [1] * (3 - axes) + [2 * modes] * (axes - 1) + [modes]
        whole = filled(2, width, width, *kept)
        whole = torch.complex(whole[0], whole[1]).reshape(width, width, *kept[3 - axes :])
        self.weights = nn.ParameterList()
        for halves in itertools.product([slice(None, modes), slice(-modes, None)], repeat=axes - 1):
            self.places.append((slice(None), slice(None), *halves, slice(None, modes)))
            self.weights.append(nn.Parameter(whole[self.places[-1]].contiguous()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        axes = tuple(range(2, x.ndim))
        spectrum = torch.fft.rfftn(x, dim=axes)
        out = torch.zeros_like(spectrum)
        for at, weight in zip(self.places, self.weights):
            out[at] = torch.einsum("bi...,io...->bo...", spectrum[at], weight)
        return torch.fft.irfftn(out, s=x.shape[2:], dim=axes)


class Layer(nn.Module):
    def __init__(self, options: argparse.Namespace, is_last: bool) -> None:
        super().__init__()
        self.spectral = SpectralConv(options.width, options.modes, len(options.shape))
        self.pointwise = nn.Conv1d(options.width, options.width, 1)
        self.pointwise.weight.data.copy_(filled(options.width, options.width, 1, 1, 1).reshape(options.width, options.width, 1))
        self.pointwise.bias.data.copy_(filled(options.width))
        self.is_last = is_last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.spectral(x) + self.pointwise(x.flatten(2)).reshape(x.shape)
        return x if self.is_last else F.gelu(x)


class Fno(nn.Module):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.options = options
        self.lift = linear(1 + len(options.shape), options.width)
        self.layers = nn.ModuleList(Layer(options, index + 1 == options.layers) for index in range(options.layers))
        self.inner, self.outer = linear(options.width, PROJECTION), linear(PROJECTION, 1)

    def project(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(F.gelu(self.inner(x.movedim(1, -1)))).movedim(-1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        grid = torch.meshgrid(*[torch.linspace(0, 1, n) for n in self.options.shape], indexing="ij")
        positions = torch.stack(grid).expand(len(x), *[-1] * (x.ndim - 1))
        x = torch.cat([x, positions], dim=1)
        x = self.lift(x.movedim(1, -1)).movedim(-1, 1).contiguous()
        for part in [*self.layers, self.project]:
            x = checkpoint(part, x, use_reentrant=False) if self.options.checkpoint else part(x)
        return x


def main() -> None:
    """A field with its target: the same numbers as in Rust."""
    options = arguments()
    model = Fno(options)
    field = [options.batch_size, 1, *options.shape]
    x, target = values(field, 7), values(field, 17)
    forward = compiled(model, options)
    mode = "checkpointed" if options.checkpoint else "compiled" if options.compile else "plain"
    train(options, mode, model, lambda: {"loss": F.mse_loss(forward(x), target)})


if __name__ == "__main__":
    main()
