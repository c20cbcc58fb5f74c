"""Compares a training step of a segmentation, nnU-Net's U-Net or Swin UNETR: MONAI and leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/segmentation_step.py --model dyn_unet [--filters 32 64 128 256 320] [--shape 96 96 96] [--dtype f32 bf16] [--write]
    python benches/peers/segmentation_step.py --model swin_unetr [--feature-size 24] ...

Each line of the table is a process of its own. Weights, volume, labels and Adam's constants are the same in all; losses and
gradients of the first step and of the step after the updates are compared before any time is printed. `--only ours` runs
sizes that MONAI has no memory for.
"""

import argparse

from compare import ours, parsed, pytorch, variants
from steps import agreed, broken, shared, show, steps_parser

MODELS = {"dyn_unet": "nnU-Net's U-Net", "swin_unetr": "Swin UNETR"}
# As in steps.py; instance norms of the few voxels of the coarsest level make more of the last digits.
TOLERANCES = {
    "f32": {"loss": 1e-4, "gradient norm": 1e-2, "decrease": 2e-2},
    "bf16": {"loss": 1e-2, "gradient norm": 1e-1, "decrease": 2.5e-1},
}


def arguments() -> argparse.Namespace:
    options = steps_parser(__doc__, "monai")
    options.add_argument("--model", choices=list(MODELS), required=True)
    options.add_argument("--shape", type=int, nargs=3, default=[96, 96, 96], help="voxels along depth, height, width: multiples of 32 for Swin UNETR")
    options.add_argument("--feature-size", type=int, default=24, help="of Swin UNETR: channels of the finest level")
    options.add_argument("--filters", type=int, nargs="+", default=[32, 64, 128, 256, 320], help="of nnU-Net's U-Net: channels of each level, the finest first")
    options.add_argument("--in-channels", type=int, default=1)
    options.add_argument("--classes", type=int, default=14)
    return parsed(options, {"shape": [32, 32, 64], "feature_size": 12, "filters": [4, 6, 8], "classes": 3})


def commands(options: argparse.Namespace, dtype: str) -> list[list[str]]:
    both = [*shared(options, dtype), f"--model={options.model}", f"--feature-size={options.feature_size}", "--filters", *options.filters]
    both += [f"--in-channels={options.in_channels}", f"--classes={options.classes}", "--shape", *options.shape]
    chosen = []
    if options.only in (None, "monai"):
        lines = [pytorch("segmentation_step.py", *both, *broken(options, "peer"), *variant) for variant in variants(options)]
        kept, recomputed = (lines[:1], []) if options.tiny else (lines, lines)  # MONAI alone takes seconds to start
        chosen += kept + [[*line, "--recompute"] for line in recomputed]
    if options.only in (None, "ours"):
        lean = ours(options, "segmentation-step", *both, *broken(options, "ours"))
        chosen += [lean, [*lean, "--recompute"]]
    return chosen


def main() -> None:
    options = arguments()
    results = agreed(options, [command for dtype in options.dtype for command in commands(options, dtype)], TOLERANCES)
    volume, parameters = "x".join(map(str, options.shape)), results[0]["checks"]["parameters"]
    size, theme = f"feature size {options.feature_size}", f"fs{options.feature_size}"
    of_peer = "MONAI's `use_flash_attention` is for inference alone."
    if options.model == "dyn_unet":
        size, theme = f"channels {options.filters}, kernels of 3, strides of 2", "-".join(map(str, options.filters))
        of_peer = "MONAI's `DynUNet` has no option to recompute; there each of its blocks is in `torch.utils.checkpoint`."
    setting = f"""Volume {volume} of {options.in_channels} channels, batch of 1, {size}, {options.classes} classes,
{parameters:,} parameters, Dice loss + cross-entropy."""
    show(
        options,
        results,
        of=MODELS[options.model],
        peer="MONAI",
        theme=[f"{options.model}_step", volume, theme, *options.dtype],
        setting=setting,
        inputs="volume and labels",
        tolerances=TOLERANCES,
        of_peer=of_peer,
    )


if __name__ == "__main__":
    main()
