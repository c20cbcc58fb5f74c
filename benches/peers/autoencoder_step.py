"""Compares a training step of the KL autoencoder: MONAI, Burn's own layers, leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/autoencoder_step.py [--shape 128 128 64] [--channels 32 64 64] [--dtype f32 bf16] [--attention] [--write]

Each line of the table is a process of its own. Weights, volume, noise of the latent and Adam's constants are the same in
all; losses and gradients of the first step and of the step after three updates are compared before any time is printed.
`--only ours` runs sizes that the others have no memory for.
"""

import argparse
import math
import sys

from compare import RATIO, checked, finish, measure, mib, ours, parsed, peers_parser, pytorch, ratio, table, variants, versions_of

HEADER = ["program", "mode", "dtype", "step", "ratio", "saved activations", "peak of the heap", "peak resident", "... before step 1"]
LEARNING_RATE = 1e-4
# Relative. In float32 sums in another order, which L1's signs and Adam's division by small gradients make more of; in bfloat16 each
# stored activation is rounded by up to 2^-8, by other programs at other places. PyTorch's own lines differ by a fifth to a third of
# these. What three updates take off the loss, a tenth of it, is compared by itself.
TOLERANCES = {
    "f32": {"loss": 1e-4, "gradient norm": 5e-3, "decrease": 1e-2},
    "bf16": {"loss": 5e-3, "gradient norm": 5e-2, "decrease": 1.5e-1},
}
# Burn's own layers store all scores of attention, several times.
MOST_POSITIONS_OF_BURN = 8192


def arguments() -> argparse.Namespace:
    options = peers_parser(__doc__)
    options.add_argument("--shape", type=int, nargs=3, default=[128, 128, 64], help="voxels along depth, height, width")
    options.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64], help="of each level, finest first")
    options.add_argument("--dtype", choices=["f32", "bf16"], nargs="+", default=["f32"], help="of the activations")
    options.add_argument("--attention", action="store_true", help="at the last level")
    options.add_argument("--recompute", action="store_true", help="only the lines that recompute")
    options.add_argument("--only", choices=["monai", "burn", "ours"], help="only the lines of one program")
    options.add_argument("--skip-burn", action="store_true", help="leave out Burn's own layers, which are slow and large")
    return parsed(options, {"shape": [8, 8, 8], "channels": [4, 8], "dtype": ["f32", "bf16"]})


def burn_can(options: argparse.Namespace, dtype: str) -> bool:
    """Whether there is a line of Burn's own layers, and if not, why."""
    positions = math.prod(voxels >> (len(options.channels) - 1) for voxels in options.shape)
    if dtype != "f32":
        print("left out: Burn's own layers do not mix dtypes", file=sys.stderr)
    elif options.attention and positions > MOST_POSITIONS_OF_BURN:
        print(f"left out: Burn's own attention stores the square of {positions} positions", file=sys.stderr)
    else:
        return True
    return False


def commands(options: argparse.Namespace, dtype: str) -> list[list[str]]:
    shared = [f"--threads={options.threads}", f"--steps={options.steps}", f"--dtype={dtype}"]
    shared += [f"--learning-rate={LEARNING_RATE}", "--shape", *options.shape, "--channels", *options.channels]
    shared += ["--attention"] if options.attention else []
    broken = {side: ["--no-update"] if options.broken == side else [] for side in ["peer", "ours"]}
    chosen = []
    if options.only in (None, "monai"):
        lines = [pytorch("autoencoder_step.py", *shared, *broken["peer"], *variant) for variant in variants(options)]
        kept, recomputed = (lines[:1], lines[-1:]) if options.tiny else (lines, lines)  # MONAI alone takes seconds to start
        chosen += [(False, line) for line in kept] + [(True, [*line, "--recompute"]) for line in recomputed]
    lean = ours(options, "autoencoder-step", *shared, *broken["ours"])
    if options.only in (None, "burn") and not options.skip_burn and burn_can(options, dtype):
        chosen += [(False, [*lean, "--burn"])]
    if options.only in (None, "ours"):
        chosen += [(False, lean), (True, [*lean, "--recompute"])]
    return [command for recomputes, command in chosen if recomputes or not options.recompute]


def compared(steps: list[dict]) -> dict:
    """The values in which programs must agree: of the first step, and of the one after three updates."""
    first, last = steps[0], steps[-1]
    after = f"after {len(steps) - 1} updates"
    values = {"parameters": first["parameters"]}
    for when, step in [("at first", first), (after, last)]:
        values |= {f"{key} {when}": step[key] for key in ["loss", "l1", "kl", "gradient norm"]}
    return values | {f"decrease of the loss {after}": first["loss"] - last["loss"]}


def tolerances(dtype: str, names: list[str]) -> dict[str, float]:
    of = TOLERANCES[dtype] | {"l1": TOLERANCES[dtype]["loss"], "kl": 4 * TOLERANCES[dtype]["loss"]}
    return {name: of[key] for name in names for key in of if name.startswith(key)}


def notes(dtypes: list[str], is_compared: bool) -> str:
    said = [
        f"in {dtype} the loss and its L1 to {of['loss']:g}, its KL to {4 * of['loss']:g}, the norm of all gradients to "
        f"{of['gradient norm']:g}, what three updates took off the loss to {of['decrease']:g}"
        for dtype, of in TOLERANCES.items()
        if dtype in dtypes
    ]
    values = f"""Compared before anything was timed, relative, of the first step and of the one after three updates of Adam (rate
{LEARNING_RATE:g}, betas 0.9 and 0.999, epsilon 1e-8; same weights, volume and noise of the latent): {'; '.join(said)}."""
    alone = "One program alone: its values were compared with nothing."
    return f"""{RATIO} bf16 is `torch.autocast` there.

*Saved activations*: what the heap grew by during forward. *Peak of the heap*: weights and optimizer included; counted by our
allocator, sampled every 0.2 ms in an extra step for PyTorch, a lower bound. PyTorch and MONAI themselves are resident
*before step 1*.

{values if is_compared else alone}"""


def main() -> None:
    options = arguments()
    chosen = [command for dtype in options.dtype for command in commands(options, dtype)]
    if not chosen:
        sys.exit("nothing left to run")
    results = [measure(command) for command in chosen]
    for result in results:
        result["checks"] = compared(result["checks"])
    names = list(results[0]["checks"])
    results = checked(options, results, {dtype: tolerances(dtype, names) for dtype in options.dtype})
    rows = []
    for result in results:
        peak = result["peak_bytes"]
        row = [result["program"], result["mode"], result["dtype"], f"{result['step_seconds']:.2f} s"]
        row += [ratio(result, results), mib(result["kept_bytes"]), mib(peak)]
        rows.append([*row, mib(result["resident_peak_bytes"]), mib(result["resident_before_bytes"])])
    volume, parameters = "x".join(map(str, options.shape)), results[0]["checks"]["parameters"]
    attention = "attention at the last level" if options.attention else "no attention"
    setting = f"""Volume {volume}, batch of 1, channels {options.channels}, one residual block a level,
{attention}, {parameters:,} parameters, L1 + KL, Adam; median of {options.steps} steps after four."""
    parts = ["autoencoder_step", volume, *options.dtype, "attention" if options.attention else ""]
    parts += ["recomputed" if options.recompute else "", options.only or ""]
    title = "A training step of the KL autoencoder, leanburn and MONAI"
    if options.only:
        title = f"A training step of the KL autoencoder, {results[0]['program'].split(',')[0]} alone"
    theme, body = "-".join(filter(None, parts)), table(HEADER, rows, names=3)
    finish(options, theme, title, setting, body, notes(options.dtype, not options.only), versions=versions_of(results))


if __name__ == "__main__":
    main()
