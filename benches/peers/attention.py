"""Compares self-attention over the positions of a volume, forward and backward: PyTorch, plain Burn, leanburn.

    cargo build --release --example peers
    python benches/peers/attention.py [--positions 1024 4096 16384] [--channels 64] [--threads 2] [--steps 5] [--write]

Each line of the table is a process of its own.
"""

from compare import checked, finish, measure, mib, ours, parser, pytorch, table

HEADER = ["positions", "program", "mode", "step", "to PyTorch", "peak"]
NOTES = """*To PyTorch*: to its `scaled_dot_product_attention`. *Peak*: the most the heap held during forward and backward, without queries,
keys, values, the result and the three gradients; counted by our allocator, sampled every 0.2 ms in an extra step for
PyTorch, a lower bound."""
# Scores, their softmax and the gradients of both, in float32; and what else stands in a machine of 16 GiB.
MOST_BYTES_OF_SCORES = 12 * 2**30
MOST_POSITIONS_OF_BURN = 8192


def commands(positions: int, shared: list[str]) -> list[list[str]]:
    shared = [f"--positions={positions}", *shared]
    chosen = [pytorch("attention.py", *shared)]
    chosen += [pytorch("attention.py", *shared, "--explicit")] if 4 * 4 * positions**2 <= MOST_BYTES_OF_SCORES else []
    chosen += [ours("attention", *shared, "--burn")] if positions <= MOST_POSITIONS_OF_BURN else []
    return [*chosen, ours("attention", *shared)]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--positions", type=int, nargs="+", default=[1024, 4096, 16384])
    options.add_argument("--channels", type=int, default=64, help="of the one head")
    options = options.parse_args()
    shared = [f"--channels={options.channels}", f"--threads={options.threads}", f"--steps={options.steps}"]
    tolerances = dict.fromkeys(["output", "query", "key", "value"], 1e-4)
    rows = []
    for positions in options.positions:
        results = checked([measure(command) for command in commands(positions, shared)], tolerances)
        for result in results:
            outputs = 4 * 4 * positions * options.channels
            row = [f"{positions:,}", result["program"], result["mode"], f"{1e3 * result['step_seconds']:,.1f} ms"]
            row += [f"{result['step_seconds'] / results[0]['step_seconds']:.2f}"]
            rows.append([*row, mib(max(0, result["step_peak_bytes"] - outputs), 1)])
    setting = f"""Self-attention, one head of {options.channels} channels, batch of 1, float32, forward and backward; median
of {options.steps} steps after one."""
    title = "Self-attention over the positions of a volume, leanburn and PyTorch"
    finish(options, "attention", title, setting, table(HEADER, rows, names=3), NOTES)


if __name__ == "__main__":
    main()
