"""Compares a training step of a chain of residual blocks: PyTorch, Burn's own layers, leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/residual_chain.py [--size 48] [--channels 16] [--blocks 8] [--threads 2] [--steps 5] [--write]

Each line of the table is a process of its own.
"""

from compare import checked, finish, measure, mib, ours, parser, pytorch, table

HEADER = ["program", "mode", "step", "to PyTorch", "kept per block", "peak less kept", "peak resident", "... before step 1"]
NOTES = """One activation is the volume between two blocks in float32. *Kept per block*: what the heap grew by during forward, over the
number of blocks. *Peak less kept*: the most the heap held during the step above what was kept and what stood there
before; counted by our allocator, sampled every 0.2 ms in an extra step for PyTorch, a lower bound."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", type=int, default=48, help="voxels along each axis")
    options.add_argument("--channels", type=int, default=16)
    options.add_argument("--groups", type=int, default=8, help="of the norms")
    options.add_argument("--blocks", type=int, default=8)
    options.add_argument("--skip-burn", action="store_true", help="leave out Burn's own layers")
    options = options.parse_args()
    shared = [f"--{name}={getattr(options, name)}" for name in ["size", "channels", "groups", "blocks", "threads", "steps"]]
    lean = ours("residual-chain", *shared)
    commands = [pytorch("residual_chain.py", *shared), pytorch("residual_chain.py", *shared, "--recompute")]
    commands += [] if options.skip_burn else [[*lean, "--burn"]]
    commands += [lean, [*lean, "--recompute"]]
    results = checked([measure(command) for command in commands], {"loss": 1e-4, "gradient": 1e-3})
    activation = 4 * options.channels * options.size**3
    rows = []
    for result in results:
        kept = result["kept_bytes"]
        row = [result["program"], result["mode"], f"{result['step_seconds']:.3f} s"]
        row += [f"{result['step_seconds'] / results[0]['step_seconds']:.2f}", f"{kept / activation / options.blocks:.2f}"]
        row += [f"{(result['step_peak_bytes'] - kept) / activation:.1f}"]
        rows.append([*row, mib(result["resident_peak_bytes"]), mib(result["resident_before_bytes"])])
    setting = f"""A chain of {options.blocks} residual blocks (GroupNorm of {options.groups} groups, SiLU, 3x3x3 convolution, twice, plus the
input), {options.channels} channels, {options.size}^3, batch of 1, float32: forward, mean square, backward; median of {options.steps} steps after one.
One activation is {mib(activation, 2)}."""
    title = "A training step of a chain of residual blocks, leanburn and PyTorch"
    finish(options, "residual_chain", title, setting, table(HEADER, rows), NOTES)


if __name__ == "__main__":
    main()
