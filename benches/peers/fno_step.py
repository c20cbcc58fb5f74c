"""Compares a training step of a Fourier neural operator: PyTorch and leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/fno_step.py [--shape 128 128 128] [--width 32] [--modes 16] [--layers 4] [--batch-size 1] [--write]

Each line of the table is a process of its own. Weights, field, target and Adam's constants are the same in all; losses and gradients of
the first step and of the step after three updates are compared before any time is printed. PyTorch's network is the authors' (corners of
the spectrum, FFTs of the whole of it), plain, through torch.compile, and with a checkpoint for each layer. `--only ours` runs sizes that PyTorch has no memory for.
"""

import argparse
import sys

from compare import RATIO, checked, finish, measure, mib, ours, parsed, peers_parser, pytorch, ratio, table, versions_of

HEADER = ["program", "mode", "step", "ratio", "saved activations", "peak of the heap", "above weights", "peak resident"]
LEARNING_RATE = 1e-4
# Relative. Layers of Fourier coefficients add up many products: gradients of both programs are that far from those in float64.
TOLERANCES = {"loss": 1e-4, "gradient norm": 5e-3, "decrease": 1e-2}
# Weight, gradient and Adam's two moments, 4 bytes each.
WEIGHTS = 16


def arguments() -> argparse.Namespace:
    options = peers_parser(__doc__)
    options.add_argument("--shape", type=int, nargs="+", default=[128, 128, 128], help="positions along each axis, one to three axes")
    options.add_argument("--batch-size", type=int, default=1)
    options.add_argument("--width", type=int, default=32, help="channels of the layers")
    options.add_argument("--modes", type=int, default=16, help="frequencies of each sign along each axis")
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--only", choices=["pytorch", "ours"], help="only the lines of one program")
    return parsed(options, {"shape": [10, 7, 9], "width": 4, "modes": 3, "layers": 3, "batch_size": 2})


def commands(options: argparse.Namespace) -> list[list[str]]:
    shared = [f"--threads={options.threads}", f"--steps={options.steps}", f"--learning-rate={LEARNING_RATE}"]
    shared += [f"--batch-size={options.batch_size}", f"--width={options.width}", f"--modes={options.modes}"]
    shared += [f"--layers={options.layers}", "--shape", *options.shape]
    broken = {side: ["--no-update"] if options.broken == side else [] for side in ["peer", "ours"]}
    plain = pytorch("fno_step.py", *shared, *broken["peer"])
    lean = ours(options, "fno-step", *shared, *broken["ours"])
    compiled = [[*plain, "--compile"]] if options.compile else []
    lines = {"pytorch": [plain, *compiled, [*plain, "--checkpoint"]], "ours": [lean, [*lean, "--recompute"]]}
    return lines[options.only] if options.only else [*lines["pytorch"], *lines["ours"]]


def compared(steps: list[dict]) -> dict:
    """The values in which programs must agree: of the first step, and of the one after three updates."""
    first, last = steps[0], steps[-1]
    after = f"after {len(steps) - 1} updates"
    values = {"parameters": first["parameters"]}
    for when, step in [("at first", first), (after, last)]:
        values |= {f"{key} {when}": step[key] for key in ["loss", "gradient norm"]}
    return values | {f"decrease of the loss {after}": first["loss"] - last["loss"]}


def notes(is_compared: bool) -> str:
    values = f"""Compared before anything was timed, relative, of the first step and of the one after three updates of Adam (rate
{LEARNING_RATE:g}, betas 0.9 and 0.999, epsilon 1e-8; same weights, field and target): the loss to {TOLERANCES['loss']:g}, the norm of all
gradients to {TOLERANCES['gradient norm']:g}, what three updates took off the loss to {TOLERANCES['decrease']:g}."""
    return f"""{RATIO}

*Saved activations*: what the heap grew by during forward. *Peak of the heap*: weights and optimizer included; counted by our
allocator, sampled every 0.2 ms in an extra step for PyTorch, a lower bound. *Above weights*: without weights, their gradients and Adam's
moments.

{values if is_compared else "One program alone: its values were compared with nothing."}"""


def main() -> None:
    options = arguments()
    results = [measure(command) for command in commands(options)]
    for result in results:
        result["checks"] = compared(result["checks"])
    tolerances = {name: of for name in results[0]["checks"] for key, of in TOLERANCES.items() if name.startswith(key)}
    results = checked(options, results, {"f32": tolerances})
    parameters = results[0]["checks"]["parameters"]
    rows = []
    for result in results:
        peak = result["peak_bytes"]
        row = [result["program"], result["mode"], f"{result['step_seconds']:.2f} s", ratio(result, results)]
        row += [mib(result["kept_bytes"]), mib(peak), mib(peak - WEIGHTS * parameters), mib(result["resident_peak_bytes"])]
        rows.append(row)
    grid = "x".join(map(str, options.shape))
    setting = f"""Grid {grid}, batch of {options.batch_size}, {options.layers} layers of {options.width} channels, {options.modes} frequencies of each
sign along each axis (of one sign along the last), projection through 128 channels, {parameters:,} real parameters, mean squared error, Adam;
f32; median of {options.steps} steps after four."""
    theme = "-".join(filter(None, ["fno_step", f"{options.batch_size}x{options.width}x{grid}", options.only or ""]))
    title = "A training step of a Fourier neural operator, leanburn and PyTorch"
    if options.only:
        title = f"A training step of a Fourier neural operator, {results[0]['program'].split(',')[0]} alone"
    finish(options, theme, title, setting, table(HEADER, rows), notes(not options.only), versions=versions_of(results))


if __name__ == "__main__":
    sys.exit(main())
