"""Compares a training step of the U-Net of a latent diffusion model: MONAI and leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/diffusion_step.py [--shape 64 64 32] [--channels 32 64 64] [--dtype f32 bf16] [--write]

Each line of the table is a process of its own. Weights, latent, noise and Adam's constants are the same in all; losses and gradients of
the first step and of the step after three updates are compared before any time is printed. MONAI has no checkpointing of this model, and
stores the scores of attention on the CPU. `--only ours` runs sizes that MONAI has no memory for.
"""

import argparse
import sys

from compare import RATIO, checked, finish, measure, mib, ours, parsed, peers_parser, pytorch, ratio, table, variants, versions_of

HEADER = ["program", "mode", "dtype", "step", "ratio", "saved activations", "peak of the heap", "peak resident", "... before step 1"]
LEARNING_RATE = 1e-4
# Relative: see autoencoder_step.py.
TOLERANCES = {
    "f32": {"loss": 1e-4, "gradient norm": 5e-3, "decrease": 1e-2},
    "bf16": {"loss": 5e-3, "gradient norm": 5e-2, "decrease": 1.5e-1},
}


def arguments() -> argparse.Namespace:
    options = peers_parser(__doc__)
    options.add_argument("--shape", type=int, nargs=3, default=[64, 64, 32], help="voxels of the latent along depth, height, width")
    options.add_argument("--latent-channels", type=int, default=4)
    options.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64], help="of each level, finest first")
    options.add_argument("--head-channels", type=int, default=64, help="of an attention head; attention is at all levels but the first")
    options.add_argument("--dtype", choices=["f32", "bf16"], nargs="+", default=["f32"], help="of the activations")
    options.add_argument("--only", choices=["monai", "ours"], help="only the lines of one program")
    tiny = {"shape": [8, 8, 8], "channels": [4, 8], "head_channels": 4, "latent_channels": 2, "dtype": ["f32", "bf16"]}
    return parsed(options, tiny)


def commands(options: argparse.Namespace, dtype: str) -> list[list[str]]:
    shared = [f"--threads={options.threads}", f"--steps={options.steps}", f"--dtype={dtype}"]
    shared += [f"--learning-rate={LEARNING_RATE}", f"--latent-channels={options.latent_channels}"]
    shared += [f"--head-channels={options.head_channels}", "--shape", *options.shape, "--channels", *options.channels]
    broken = {side: ["--no-update"] if options.broken == side else [] for side in ["peer", "ours"]}
    lines = [pytorch("diffusion_step.py", *shared, *broken["peer"], *variant) for variant in variants(options)]
    lean = ours(options, "diffusion-step", *shared, *broken["ours"])
    return {
        "monai": lines,
        "ours": [lean, [*lean, "--recompute"]],
        None: [*(lines[:1] if options.tiny else lines), lean, [*lean, "--recompute"]],
    }[options.only]


def compared(steps: list[dict]) -> dict:
    """The values in which programs must agree: of the first step, and of the one after three updates."""
    first, last = steps[0], steps[-1]
    after = f"after {len(steps) - 1} updates"
    values = {"parameters": first["parameters"]}
    for when, step in [("at first", first), (after, last)]:
        values |= {f"{key} {when}": step[key] for key in ["loss", "gradient norm"]}
    return values | {f"decrease of the loss {after}": first["loss"] - last["loss"]}


def tolerances(dtype: str, names: list[str]) -> dict[str, float]:
    return {name: of for name in names for key, of in TOLERANCES[dtype].items() if name.startswith(key)}


def notes(dtypes: list[str], is_compared: bool) -> str:
    said = [
        f"in {dtype} the loss to {of['loss']:g}, the norm of all gradients to {of['gradient norm']:g}, what three updates took off the "
        f"loss to {of['decrease']:g}"
        for dtype, of in TOLERANCES.items()
        if dtype in dtypes
    ]
    values = f"""Compared before anything was timed, relative, of the first step and of the one after three updates of Adam (rate
{LEARNING_RATE:g}, betas 0.9 and 0.999, epsilon 1e-8; same weights, latent and noise): {'; '.join(said)}."""
    return f"""{RATIO} bf16 is `torch.autocast` there.

*Saved activations*: what the heap grew by during forward. *Peak of the heap*: weights and optimizer included; counted by our
allocator, sampled every 0.2 ms in an extra step for PyTorch, a lower bound. PyTorch and MONAI themselves are resident
*before step 1*.

{values if is_compared else "One program alone: its values were compared with nothing."}"""


def main() -> None:
    options = arguments()
    results = [measure(command) for dtype in options.dtype for command in commands(options, dtype)]
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
    latent, parameters = "x".join(map(str, [options.latent_channels, *options.shape])), results[0]["checks"]["parameters"]
    setting = f"""Latent {latent}, batch of 1, channels {options.channels}, one residual block a level, attention at all levels but the
first with {options.head_channels} channels a head, {parameters:,} parameters, mean squared error, Adam; median of {options.steps} steps after four."""
    theme = "-".join(filter(None, ["diffusion_step", latent, *options.dtype, options.only or ""]))
    title = "A training step of a latent diffusion model, leanburn and MONAI"
    if options.only:
        title = f"A training step of a latent diffusion model, {results[0]['program'].split(',')[0]} alone"
    finish(options, theme, title, setting, table(HEADER, rows, names=3), notes(options.dtype, not options.only), versions=versions_of(results))


if __name__ == "__main__":
    sys.exit(main())
