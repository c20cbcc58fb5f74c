"""Compares a training step of a chain of residual blocks: PyTorch, Burn's own layers, leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/residual_chain.py [--size 48] [--channels 16] [--blocks 8] [--threads 2] [--steps 5] [--rounds 3] [--write]

Each line of the table is a process of its own, the median of some that are run in turn. Losses and gradients are compared before any time is printed.
"""

from compare import RATIO, checked, finish, in_turn, mib, ours, parsed, peers_parser, pytorch, ratio, table, variants, versions_of

HEADER = ["program", "mode", "step", "ratio", "kept per block", "peak less kept", "peak resident", "... before step 1"]
# Sums of some ten thousand terms in float32, in another order.
TOLERANCES = {"loss": 1e-5, "input gradient": 1e-4, "gradient norm": 1e-4}
NOTES = f"""{RATIO}

One activation is the volume between two blocks in float32. *Kept per block*: what the heap grew by during forward, over the
number of blocks. *Peak less kept*: the most the heap held during the step above what was kept and what stood there
before; counted by our allocator, sampled every 0.2 ms in an extra step for PyTorch, a lower bound.

Compared before anything was timed, relative: the loss to {TOLERANCES["loss"]:g}, the norm of all weights' gradients to
{TOLERANCES["gradient norm"]:g}, the input's gradient (its norm, and its product with a fixed direction over its norm) to
{TOLERANCES["input gradient"]:g}."""


def main() -> None:
    options = peers_parser(__doc__)
    options.add_argument("--size", type=int, default=48, help="voxels along each axis")
    options.add_argument("--channels", type=int, default=16)
    options.add_argument("--groups", type=int, default=8, help="of the norms")
    options.add_argument("--blocks", type=int, default=8)
    options.add_argument("--rounds", type=int, default=3, help="processes of each line, in turn; the median counts")
    options.add_argument("--skip-burn", action="store_true", help="leave out Burn's own layers")
    options = parsed(options, {"size": 6, "channels": 4, "groups": 2, "blocks": 2, "rounds": 1})
    shared = [f"--{name}={getattr(options, name)}" for name in ["size", "channels", "groups", "blocks", "threads", "steps"]]
    lean = ours(options, "residual-chain", *shared)
    commands = [pytorch("residual_chain.py", *shared, *variant) for variant in variants(options)]
    commands += [[*command, "--recompute"] for command in commands]
    commands += [] if options.skip_burn else [[*lean, "--burn"]]
    commands += [lean, [*lean, "--recompute"]]
    results = in_turn(commands, options.rounds)
    for result in results:
        result["checks"] = result["checks"][0]
    results = checked(options, results, {"f32": TOLERANCES})
    activation = 4 * options.channels * options.size**3
    rows = []
    for result in results:
        kept = result["kept_bytes"]
        row = [result["program"], result["mode"], f"{result['step_seconds']:.3f} s"]
        row += [ratio(result, results), f"{kept / activation / options.blocks:.2f}"]
        row += [f"{(result['step_peak_bytes'] - kept) / activation:.1f}"]
        rows.append([*row, mib(result["resident_peak_bytes"]), mib(result["resident_before_bytes"])])
    setting = f"""A chain of {options.blocks} residual blocks (GroupNorm of {options.groups} groups, SiLU, 3x3x3 convolution, twice, plus the
input), {options.channels} channels, {options.size}^3, batch of 1, float32: forward, mean square, backward; median of {options.steps} steps after two,
the median one of {options.rounds} processes that ran in turn.
One activation is {mib(activation, 2)}."""
    title = "A training step of a chain of residual blocks, leanburn and PyTorch"
    body = table(HEADER, rows)
    finish(options, "residual_chain", title, setting, body, NOTES, versions=versions_of(results))


if __name__ == "__main__":
    main()
