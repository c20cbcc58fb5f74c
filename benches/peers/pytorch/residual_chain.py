"""Training steps of a chain of residual blocks; the same as rust/residual_chain.rs."""

import argparse
import time

import torch
from measure import (
    Step, add_variant, compiled, digest, fill, gradient_norm, laid_out, live_bytes, parameter_count, program, report, values, variant,
)
from torch import nn
from torch.utils.checkpoint import checkpoint


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["size", "channels", "groups", "blocks", "threads", "steps"]:
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--recompute", action="store_true", help="checkpoint each block")
    add_variant(parser)
    return parser.parse_args()


class Block(nn.Module):
    """Group norm, SiLU, 3x3x3 convolution, twice, plus the input."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, channels, eps=1e-6)
        self.conv1 = nn.Conv3d(channels, channels, 3, padding=1)
        self.norm2 = nn.GroupNorm(groups, channels, eps=1e-6)
        self.conv2 = nn.Conv3d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.conv1(nn.functional.silu(self.norm1(x)))
        return x + self.conv2(nn.functional.silu(self.norm2(h)))


class Chain(nn.Module):
    """Blocks one after the other, each run again in backward if that is asked for."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(options.channels, options.groups) for _ in range(options.blocks))
        self.recompute = options.recompute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return x


def train_step(chain: Chain, forward: nn.Module, x: torch.Tensor) -> Step:
    chain.zero_grad(set_to_none=True)
    x.grad = None
    begin, live = time.perf_counter(), live_bytes()
    y = forward(x)
    kept = live_bytes() - live
    loss = y.square().mean()
    del y
    loss.backward()
    seconds = time.perf_counter() - begin
    checks = {"parameters": parameter_count(chain), "loss": loss.item(), "input gradient": digest(x.grad)}
    return Step(seconds, kept, checks | {"gradient norm": gradient_norm(parameter.grad for parameter in chain.parameters())})


def main() -> None:
    options, live_at_start = arguments(), live_bytes()
    torch.set_num_threads(options.threads)
    chain = laid_out(fill(Chain(options)), options)
    forward = compiled(chain, options)
    x = laid_out(values([1, options.channels, *[options.size] * 3], 7), options).requires_grad_()
    mode = variant(options, *(["each block checkpointed"] if options.recompute else []))
    report(mode, program(), options.steps, live_at_start, lambda: train_step(chain, forward, x), untimed=2)


if __name__ == "__main__":
    main()
