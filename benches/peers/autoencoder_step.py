"""Compares a training step of the KL autoencoder: MONAI, Burn's own layers, leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/autoencoder_step.py [--shape 128 128 64] [--channels 32 64 64] [--dtype bf16] [--attention] [--write]

Each line of the table is a process of its own. `--only ours` runs sizes that the others have no memory for.
"""

import argparse
import sys

from compare import checked, finish, measure, mib, ours, parser, pytorch, table

HEADER = ["program", "mode", "step", "ratio", "saved activations", "peak of the heap", "peak resident", "... before step 1"]
TOLERANCES = {"f32": {"kl": 1e-3, "l1": 5e-2}, "bf16": {"kl": 5e-2, "l1": 1e-1}}
NOTES = """*Ratio*: to the first line. *Saved activations*: what the heap grew by during forward. *Peak of the heap*: weights and
optimizer included; counted by our allocator, sampled every 0.2 ms in an extra step for PyTorch, a lower bound.
PyTorch and MONAI themselves are resident *before step 1*."""
# Burn's own layers store all scores of attention, several times.
MOST_POSITIONS_OF_BURN = 8192


def arguments() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--shape", type=int, nargs=3, default=[128, 128, 64], help="voxels along depth, height, width")
    options.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64], help="of each level, finest first")
    options.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="of the activations")
    options.add_argument("--attention", action="store_true", help="at the last level")
    options.add_argument("--recompute", action="store_true", help="only the lines that recompute")
    options.add_argument("--only", choices=["monai", "burn", "ours"], help="only the lines of one program")
    options.add_argument("--skip-burn", action="store_true", help="leave out Burn's own layers, which are slow and large")
    return options.parse_args()


def burn_can(options: argparse.Namespace) -> bool:
    """Whether there is a line of Burn's own layers, and if not, why."""
    positions = 1
    for voxels in options.shape:
        positions *= voxels >> (len(options.channels) - 1)
    if options.dtype != "f32":
        print("left out: Burn's own layers do not mix dtypes", file=sys.stderr)
    elif options.attention and positions > MOST_POSITIONS_OF_BURN:
        print(f"left out: Burn's own attention stores the square of {positions} positions", file=sys.stderr)
    else:
        return True
    return False


def commands(options: argparse.Namespace) -> list[list[str]]:
    shared = [f"--threads={options.threads}", f"--steps={options.steps}", f"--dtype={options.dtype}"]
    shared += ["--shape", *options.shape, "--channels", *options.channels]
    shared += ["--attention"] if options.attention else []
    chosen = []
    if options.only in (None, "monai"):
        monai = pytorch("autoencoder_step.py", *shared)
        chosen += [(False, monai), (True, [*monai, "--recompute"])]
    if options.only in (None, "burn") and not options.skip_burn and burn_can(options):
        chosen += [(False, ours("autoencoder-step", *shared, "--burn"))]
    if options.only in (None, "ours"):
        lean = ours("autoencoder-step", *shared)
        chosen += [(False, lean), (True, [*lean, "--recompute"])]
    chosen = [command for recomputes, command in chosen if recomputes or not options.recompute]
    return chosen or sys.exit("nothing left to run")


def main() -> None:
    options = arguments()
    results = checked([measure(command) for command in commands(options)], TOLERANCES[options.dtype])
    rows = []
    for result in results:
        peak = result["before_bytes"] + result["step_peak_bytes"]
        row = [result["program"], result["mode"], f"{result['step_seconds']:.2f} s"]
        row += [f"{result['step_seconds'] / results[0]['step_seconds']:.2f}", mib(result["kept_bytes"]), mib(peak)]
        rows.append([*row, mib(result["resident_peak_bytes"]), mib(result["resident_before_bytes"])])
    volume, parameters = "x".join(map(str, options.shape)), results[0]["checks"]["parameters"]
    attention = "attention at the last level" if options.attention else "no attention"
    setting = f"""Volume {volume}, batch of 1, channels {options.channels}, one residual block a level,
{attention}, {parameters:,} parameters, {options.dtype}, L1 + KL, Adam; median of {options.steps} steps after one."""
    parts = ["autoencoder_step", volume, options.dtype, "attention" if options.attention else "", options.only or ""]
    title = "A training step of the KL autoencoder, leanburn and MONAI"
    finish(options, "-".join(filter(None, parts)), title, setting, table(HEADER, rows), NOTES)


if __name__ == "__main__":
    main()
