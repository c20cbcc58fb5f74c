"""Self-attention, forward and backward; the counterpart of rust/attention.rs."""

import argparse
import time

import torch
from measure import Step, digest, live_bytes, program, report, values


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["positions", "channels", "threads", "steps"]:
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--explicit", action="store_true", help="product, softmax, product")
    return parser.parse_args()


def explicit(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return scores.softmax(-1) @ value


def main() -> None:
    options, live_at_start = arguments(), live_bytes()
    torch.set_num_threads(options.threads)
    shape = [1, 1, options.positions, options.channels]
    inputs = [(3 * values(shape, salt)).requires_grad_() for salt in [7, 11, 13]]
    attention = explicit if options.explicit else torch.nn.functional.scaled_dot_product_attention
    checks = {}

    def step() -> Step:
        begin, live = time.perf_counter(), live_bytes()
        output = attention(*inputs)
        kept = live_bytes() - live
        gradients = torch.autograd.grad(output, inputs, torch.ones_like(output))
        seconds = time.perf_counter() - begin
        if not checks:
            checks["shape"] = shape[2:]
            names = ["output", "query", "key", "value"]
            checks.update({name: digest(tensor) for name, tensor in zip(names, [output, *gradients])})
        return Step(seconds, kept, checks)

    mode = "product, softmax, product" if options.explicit else "scaled_dot_product_attention"
    report(mode, program(), options.steps, live_at_start, step)


if __name__ == "__main__":
    main()
