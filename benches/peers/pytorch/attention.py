"""Self-attention over the positions of a volume, forward and backward; the same as rust/attention.rs."""

import argparse
import time

import torch
from measure import Step, add_variant, compiled, digest, laid_out, live_bytes, program, report, values, variant


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ["positions", "channels", "threads", "steps"]:
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--explicit", action="store_true", help="product, softmax, product")
    add_variant(parser)
    return parser.parse_args()


def rows(volume: torch.Tensor) -> torch.Tensor:
    """`[1, channels, positions, 1, 1]` as `[1, 1, positions, channels]`: for a volume in channels_last_3d no copy is needed."""
    return volume.flatten(2).transpose(1, 2).unsqueeze(1)


def explicit(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return scores.softmax(-1) @ value


def main() -> None:
    options, live_at_start = arguments(), live_bytes()
    torch.set_num_threads(options.threads)
    of_rows = explicit if options.explicit else torch.nn.functional.scaled_dot_product_attention
    positions, channels = options.positions, options.channels

    def volume(salt: int) -> torch.Tensor:
        values_of_rows = 3 * values([positions, channels], salt)
        return laid_out(values_of_rows.T.reshape(1, channels, positions, 1, 1).contiguous(), options)

    inputs = [volume(salt).requires_grad_() for salt in [7, 11, 13]]
    attention = compiled(lambda *volumes: of_rows(*map(rows, volumes)), options)
    checks = {}

    def check() -> dict:
        output = attention(*inputs)
        # a gradient that is another at every position and channel
        gradients = torch.autograd.grad(output, inputs, values([1, 1, positions, channels], 17))
        names = ["query gradient", "key gradient", "value gradient"]
        found = {name: digest(rows(gradient)) for name, gradient in zip(names, gradients)}
        return {"shape": [positions, channels], "output": digest(output), **found}

    def step() -> Step:
        checks.update({} if checks else check())
        begin, live = time.perf_counter(), live_bytes()
        output = attention(*inputs)
        kept = live_bytes() - live
        torch.autograd.grad(output, inputs, torch.ones_like(output))
        return Step(time.perf_counter() - begin, kept, checks)

    mode = "product, softmax, product" if options.explicit else "scaled_dot_product_attention"
    report(f"{mode}, {variant(options)}", program(), options.steps, live_at_start, step, untimed=2)


if __name__ == "__main__":
    main()
