"""Compares a training step of Swin UNETR: MONAI and leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/swin_unetr_step.py [--shape 96 96 96] [--feature-size 24] [--dtype f32 bf16] [--write]

Each line of the table is a process of its own. Weights, volume, labels and Adam's constants are the same in all; losses and
gradients of the first step and of the step after the updates are compared before any time is printed. `--only ours` runs
sizes that MONAI has no memory for.
"""

import argparse

from compare import ours, parsed, pytorch, variants
from steps import agreed, broken, shared, show, steps_parser

# As in steps.py; instance norms of the few voxels of the coarsest level make more of the last digits.
TOLERANCES = {
    "f32": {"loss": 1e-4, "gradient norm": 1e-2, "decrease": 2e-2},
    "bf16": {"loss": 1e-2, "gradient norm": 1e-1, "decrease": 2.5e-1},
}


def arguments() -> argparse.Namespace:
    options = steps_parser(__doc__, "monai")
    options.add_argument("--shape", type=int, nargs=3, default=[96, 96, 96], help="voxels along depth, height, width: multiples of 32")
    options.add_argument("--feature-size", type=int, default=24, help="channels of the finest level")
    options.add_argument("--in-channels", type=int, default=1)
    options.add_argument("--classes", type=int, default=14)
    return parsed(options, {"shape": [32, 32, 64], "feature_size": 12, "classes": 3})


def commands(options: argparse.Namespace, dtype: str) -> list[list[str]]:
    both = [*shared(options, dtype), f"--feature-size={options.feature_size}", f"--in-channels={options.in_channels}"]
    both += [f"--classes={options.classes}", "--shape", *options.shape]
    chosen = []
    if options.only in (None, "monai"):
        lines = [pytorch("swin_unetr_step.py", *both, *broken(options, "peer"), *variant) for variant in variants(options)]
        kept, recomputed = (lines[:1], []) if options.tiny else (lines, lines)  # MONAI alone takes seconds to start
        chosen += kept + [[*line, "--recompute"] for line in recomputed]
    if options.only in (None, "ours"):
        lean = ours(options, "swin-unetr-step", *both, *broken(options, "ours"))
        chosen += [lean, [*lean, "--recompute"]]
    return chosen


def main() -> None:
    options = arguments()
    results = agreed(options, [command for dtype in options.dtype for command in commands(options, dtype)], TOLERANCES)
    volume, parameters = "x".join(map(str, options.shape)), results[0]["checks"]["parameters"]
    setting = f"""Volume {volume} of {options.in_channels} channels, batch of 1, feature size {options.feature_size}, {options.classes} classes,
{parameters:,} parameters, Dice loss + cross-entropy."""
    show(
        options,
        results,
        of="Swin UNETR",
        peer="MONAI",
        theme=["swin_unetr_step", volume, f"fs{options.feature_size}", *options.dtype],
        setting=setting,
        inputs="volume and labels",
        tolerances=TOLERANCES,
        of_peer="MONAI's `use_flash_attention` is for inference alone.",
    )


if __name__ == "__main__":
    main()
