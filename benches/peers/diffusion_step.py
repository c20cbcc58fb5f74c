"""Compares a training step of the U-Net of a latent diffusion model: MONAI and leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/diffusion_step.py [--shape 64 64 32] [--channels 32 64 64] [--dtype f32 bf16] [--write]

Each line of the table is a process of its own. Weights, latent, noise and Adam's constants are the same in all; losses and gradients of
the first step and of the step after the updates are compared before any time is printed. MONAI has no checkpointing of this model, and
stores the scores of attention on the CPU. `--only ours` runs sizes that MONAI has no memory for.
"""

import argparse

from compare import ours, parsed, pytorch, variants
from steps import TOLERANCES, agreed, broken, shared, show, steps_parser


def arguments() -> argparse.Namespace:
    options = steps_parser(__doc__, "monai")
    options.add_argument("--shape", type=int, nargs=3, default=[64, 64, 32], help="voxels of the latent along depth, height, width")
    options.add_argument("--latent-channels", type=int, default=4)
    options.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64], help="of each level, finest first")
    options.add_argument("--head-channels", type=int, default=64, help="of an attention head")
    options.add_argument("--attention-from", type=int, default=1, metavar="LEVEL", help="the finest level with attention; 0 is the finest of all")
    tiny = {"shape": [8, 8, 8], "channels": [4, 8], "head_channels": 4, "latent_channels": 2, "dtype": ["f32", "bf16"]}
    return parsed(options, tiny)


def commands(options: argparse.Namespace, dtype: str) -> list[list[str]]:
    both = [*shared(options, dtype), f"--latent-channels={options.latent_channels}", f"--head-channels={options.head_channels}"]
    both += [f"--attention-from={options.attention_from}", "--shape", *options.shape, "--channels", *options.channels]
    lines = [pytorch("diffusion_step.py", *both, *broken(options, "peer"), *variant) for variant in variants(options)]
    lean = ours(options, "diffusion-step", *both, *broken(options, "ours"))
    lean = [lean, [*lean, "--recompute"]]
    return {"monai": lines, "ours": lean, None: [*(lines[:1] if options.tiny else lines), *lean]}[options.only]


def main() -> None:
    options = arguments()
    results = agreed(options, [command for dtype in options.dtype for command in commands(options, dtype)], TOLERANCES)
    latent, parameters = "x".join(map(str, [options.latent_channels, *options.shape])), results[0]["checks"]["parameters"]
    setting = f"""Latent {latent}, batch of 1, channels {options.channels}, one residual block a level, attention from level
{options.attention_from} on (0 is the finest) with {options.head_channels} channels a head, {parameters:,} parameters, mean squared error."""
    show(
        options,
        results,
        of="a latent diffusion model",
        peer="MONAI",
        theme=["diffusion_step", latent, *options.dtype],
        setting=setting,
        inputs="latent and noise",
        tolerances=TOLERANCES,
    )


if __name__ == "__main__":
    main()
