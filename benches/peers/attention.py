"""Compares self-attention over the positions of a volume, forward and backward: PyTorch, plain Burn, leanburn.

    cargo build --release --example peers
    python benches/peers/attention.py [--positions 1024 4096 16384] [--channels 64] [--threads 2] [--steps 5] [--write]

Each line of the table is a process of its own. Outputs and gradients are compared before any time is printed.
"""

import argparse

from compare import RATIO, checked, finish, measure, mib, ours, parsed, peers_parser, pytorch, ratio, table, variants, versions_of

HEADER = ["positions", "program", "mode", "step", "ratio", "peak"]
# Sums of up to 16,384 terms in float32, in another order.
TOLERANCES = dict.fromkeys(["output", "query gradient", "key gradient", "value gradient"], 2e-5)
NOTES = f"""{RATIO} One for each number of positions.

Inputs are volumes, `[1, channels, positions, 1, 1]`: PyTorch gets rows of channels from them without a copy in
channels_last_3d, and by strides otherwise. *Peak*: the most the heap held during forward and backward, without queries,
keys, values, the result and the three gradients; counted by our allocator, sampled every 0.2 ms in an extra step for
PyTorch, a lower bound.

Compared before anything was timed, from a gradient that differs everywhere: output and gradients, each by its norm and by
its product with a fixed direction, to {2e-5:g} of the norm."""
# Scores, their softmax and the gradients of both, in float32; and what else stands in a machine of 16 GiB.
MOST_BYTES_OF_SCORES = 12 * 2**30
MOST_POSITIONS_OF_BURN = 8192


def commands(positions: int, options: argparse.Namespace) -> list[list[str]]:
    shared = [f"--{name}={getattr(options, name)}" for name in ["channels", "threads", "steps"]] + [f"--positions={positions}"]
    chosen = [pytorch("attention.py", *shared, *variant) for variant in variants(options)]
    chosen += [pytorch("attention.py", *shared, "--explicit")] if 4 * 4 * positions**2 <= MOST_BYTES_OF_SCORES else []
    lean = ours(options, "attention", *shared)
    return [*chosen, *([[*lean, "--burn"]] if positions <= MOST_POSITIONS_OF_BURN else []), lean]


def main() -> None:
    options = peers_parser(__doc__)
    options.add_argument("--positions", type=int, nargs="+", default=[1024, 4096, 16384])
    options.add_argument("--channels", type=int, default=64, help="of the one head")
    options = parsed(options, {"positions": [24], "channels": 8})
    measured = {positions: [measure(command) for command in commands(positions, options)] for positions in options.positions}
    rows = []
    for positions, results in measured.items():
        for result in results:
            result["checks"] = result["checks"][0]
        for result in checked(options, results, {"f32": TOLERANCES}):
            outputs = 4 * 4 * positions * options.channels
            row = [f"{positions:,}", result["program"], result["mode"], f"{1e3 * result['step_seconds']:,.1f} ms"]
            rows.append([*row, ratio(result, results), mib(max(0, result["step_peak_bytes"] - outputs), 1)])
    setting = f"""Self-attention, one head of {options.channels} channels, batch of 1, float32, forward and backward; median
of {options.steps} steps after two."""
    title = "Self-attention over the positions of a volume, leanburn and PyTorch"
    versions = versions_of([result for results in measured.values() for result in results])
    finish(options, "attention", title, setting, table(HEADER, rows, names=3), NOTES, versions=versions)


if __name__ == "__main__":
    main()
