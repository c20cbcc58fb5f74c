"""One training step as a good user of PyTorch writes it, timed: what all comparisons of training steps share; the same as rust/training_step.rs."""

import argparse
import time
from collections.abc import Callable

import torch
from measure import Step, gradient_norm, live_bytes, program, report


def training_parser(documentation: str) -> argparse.ArgumentParser:
    """A parser with what every training step takes."""
    parser = argparse.ArgumentParser(description=documentation)
    parser.add_argument("--steps", type=int, required=True, help="steps to time, after those that are compared")
    parser.add_argument("--updates", type=int, default=3, help="the steps before the first and after the last of them are compared")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="bf16: under autocast")
    parser.add_argument("--no-update", action="store_true", help="leave the optimizer's step out, to see that it is noticed")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    options = parser.parse_args()
    options.live_at_start = live_bytes()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    return options


def autocast(options: argparse.Namespace) -> torch.autocast:
    """Where a model's forward runs."""
    return torch.autocast("cpu", torch.bfloat16, enabled=options.dtype == "bf16")


def train(
    options: argparse.Namespace,
    mode: str,
    model: torch.nn.Module,
    losses: Callable[[], dict[str, torch.Tensor]],
    *,
    libraries: dict[str, str] | None = None,
) -> None:
    """Steps by Adam; `losses` has "loss" and the terms of it in which all programs have to agree too. Prints the line."""
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate, betas=(0.9, 0.999), eps=1e-8)

    def step() -> Step:
        optimizer.zero_grad(set_to_none=True)
        begin, live = time.perf_counter(), live_bytes()
        of = losses()
        kept = live_bytes() - live
        of["loss"].backward()
        if not options.no_update:
            optimizer.step()
        seconds = time.perf_counter() - begin
        # Complex numbers are pairs.
        gradients = [torch.view_as_real(p.grad) if p.is_complex() else p.grad for p in model.parameters()]
        checks = {"parameters": sum(gradient.numel() for gradient in gradients)} | {name: loss.item() for name, loss in of.items()}
        return Step(seconds, kept, checks | {"gradient norm": gradient_norm(gradients)})

    libraries = libraries or {}
    name = ", ".join([*(f"{library} {version}" for library, version in libraries.items()), program()])
    report(mode, name, options.steps, options.live_at_start, step, dtype=options.dtype, untimed=options.updates + 1, versions=libraries)
