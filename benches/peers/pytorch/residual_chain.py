"""Training steps of a chain of residual blocks; the counterpart of rust/residual_chain.rs."""

import argparse
import time

import torch
from measure import Step, digest, fill, live_bytes, parameter_count, program, report, values
from torch import nn
from torch.utils.checkpoint import checkpoint


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["size", "channels", "groups", "blocks", "threads", "steps"]:
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--recompute", action="store_true", help="checkpoint each block")
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


def train_step(blocks: nn.ModuleList, x: torch.Tensor, recompute: bool) -> Step:
    blocks.zero_grad(set_to_none=True)
    x.grad = None
    begin, live = time.perf_counter(), live_bytes()
    y = x
    for block in blocks:
        y = checkpoint(block, y, use_reentrant=False) if recompute else block(y)
    kept = live_bytes() - live
    loss = y.square().mean()
    del y
    loss.backward()
    seconds = time.perf_counter() - begin
    checks = {"parameters": parameter_count(blocks), "loss": loss.item(), "gradient": digest(x.grad)}
    return Step(seconds, kept, checks)


def main() -> None:
    options, live_at_start = arguments(), live_bytes()
    torch.set_num_threads(options.threads)
    blocks = fill(nn.ModuleList(Block(options.channels, options.groups) for _ in range(options.blocks)))
    x = values([1, options.channels, *[options.size] * 3], 7).requires_grad_()
    mode = "each block checkpointed" if options.recompute else "plain"
    report(mode, program(), options.steps, live_at_start, lambda: train_step(blocks, x, options.recompute))


if __name__ == "__main__":
    main()
