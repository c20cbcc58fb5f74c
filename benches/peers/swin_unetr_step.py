"""Compares a training step of Swin UNETR: MONAI and leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/swin_unetr_step.py [--shape 96 96 96] [--feature-size 24] [--dtype f32 bf16] [--write]

Each line of the table is a process of its own. Weights, volume, labels and Adam's constants are the same in all; losses and
gradients of the first step and of the step after three updates are compared before any time is printed. `--only ours` runs
sizes that MONAI has no memory for.
"""

import sys

from compare import RATIO, checked, finish, measure, mib, ours, parsed, peers_parser, pytorch, ratio, table, variants, versions_of

HEADER = ["program", "mode", "dtype", "step", "ratio", "saved activations", "peak of the heap", "peak resident", "... before step 1"]
LEARNING_RATE = 1e-4
# Relative. As in autoencoder_step.py; instance norms of the few voxels of the coarsest level make more of the last digits.
TOLERANCES = {
    "f32": {"loss": 1e-4, "gradient norm": 1e-2, "decrease": 2e-2},
    "bf16": {"loss": 1e-2, "gradient norm": 1e-1, "decrease": 2.5e-1},
}


def commands(options, dtype: str) -> list[list[str]]:
    shared = [f"--threads={options.threads}", f"--steps={options.steps}", f"--dtype={dtype}", f"--learning-rate={LEARNING_RATE}"]
    shared += [f"--feature-size={options.feature_size}", f"--in-channels={options.in_channels}", f"--classes={options.classes}"]
    shared += ["--shape", *options.shape]
    broken = {side: ["--no-update"] if options.broken == side else [] for side in ["peer", "ours"]}
    chosen = []
    if options.only in (None, "monai"):
        lines = [pytorch("swin_unetr_step.py", *shared, *broken["peer"], *variant) for variant in variants(options)]
        kept, recomputed = (lines[:1], []) if options.tiny else (lines, lines)  # MONAI alone takes seconds to start
        chosen += kept + [[*line, "--recompute"] for line in recomputed]
    if options.only in (None, "ours"):
        lean = ours(options, "swin-unetr-step", *shared, *broken["ours"])
        chosen += [lean, [*lean, "--recompute"]]
    return chosen


def compared(steps: list[dict]) -> dict:
    """The values in which programs must agree: of the first step, and of the one after three updates."""
    first, last = steps[0], steps[-1]
    after = f"after {len(steps) - 1} updates"
    values = {"parameters": first["parameters"]}
    for when, step in [("at first", first), (after, last)]:
        values |= {f"{key} {when}": step[key] for key in ["loss", "gradient norm"]}
    return values | {f"decrease of the loss {after}": first["loss"] - last["loss"]}


def notes(dtypes: list[str], is_compared: bool) -> str:
    said = [
        f"in {dtype} the loss to {of['loss']:g}, the norm of all gradients to {of['gradient norm']:g}, what three updates took off "
        f"the loss to {of['decrease']:g}"
        for dtype, of in TOLERANCES.items()
        if dtype in dtypes
    ]
    values = f"""Compared before anything was timed, relative, of the first step and of the one after three updates of Adam (rate
{LEARNING_RATE:g}, betas 0.9 and 0.999, epsilon 1e-8; same weights, volume and labels): {'; '.join(said)}."""
    return f"""{RATIO} bf16 is `torch.autocast` there. MONAI's `use_flash_attention` is for inference alone.

*Saved activations*: what the heap grew by during forward. *Peak of the heap*: weights and optimizer included; counted by our
allocator, sampled every 0.2 ms in an extra step for PyTorch, a lower bound. PyTorch and MONAI themselves are resident
*before step 1*.

{values if is_compared else "One program alone: its values were compared with nothing."}"""


def main() -> None:
    parser = peers_parser(__doc__)
    parser.add_argument("--shape", type=int, nargs=3, default=[96, 96, 96], help="voxels along depth, height, width: multiples of 32")
    parser.add_argument("--feature-size", type=int, default=24, help="channels of the finest level")
    parser.add_argument("--in-channels", type=int, default=1)
    parser.add_argument("--classes", type=int, default=14)
    parser.add_argument("--dtype", choices=["f32", "bf16"], nargs="+", default=["f32"], help="of the activations")
    parser.add_argument("--only", choices=["monai", "ours"], help="only the lines of one program")
    options = parsed(parser, {"shape": [32, 32, 64], "feature_size": 12, "classes": 3})
    results = [measure(command) for dtype in options.dtype for command in commands(options, dtype)]
    for result in results:
        result["checks"] = compared(result["checks"])
    names = list(results[0]["checks"])
    tolerances = {
        dtype: {name: of[key] for name in names for key in of if name.startswith(key)} for dtype, of in TOLERANCES.items()
    }
    results = checked(options, results, {dtype: tolerances[dtype] for dtype in options.dtype})
    rows = []
    for result in results:
        peak = result["peak_bytes"]
        row = [result["program"], result["mode"], result["dtype"], f"{result['step_seconds']:.2f} s"]
        row += [ratio(result, results), mib(result["kept_bytes"]), mib(peak)]
        rows.append([*row, mib(result["resident_peak_bytes"]), mib(result["resident_before_bytes"])])
    volume, parameters = "x".join(map(str, options.shape)), results[0]["checks"]["parameters"]
    setting = f"""Volume {volume} of {options.in_channels} channels, batch of 1, feature size {options.feature_size}, {options.classes} classes,
{parameters:,} parameters, Dice loss + cross-entropy, Adam; median of {options.steps} steps after four."""
    theme = "-".join(filter(None, ["swin_unetr_step", volume, f"fs{options.feature_size}", *options.dtype, options.only or ""]))
    title = "A training step of Swin UNETR, leanburn and MONAI"
    if options.only:
        title = f"A training step of Swin UNETR, {results[0]['program'].split(',')[0]} alone"
    said = notes(options.dtype, not options.only)
    finish(options, theme, title, setting, table(HEADER, rows, names=3), said, versions=versions_of(results))


if __name__ == "__main__":
    sys.exit(main())
