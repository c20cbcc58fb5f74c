"""Compares a training step of the KL autoencoder: MONAI, Burn's own layers, leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/autoencoder_step.py [--shape 128 128 64] [--channels 32 64 64] [--dtype f32 bf16] [--attention]
        [--stream two:16 one none joined] [--write]

Each line of the table is a process of its own. Weights, volume, noise of the latent and Adam's constants are the same in
all; losses and gradients of the first step and of the step after the updates are compared before any time is printed.
`--only ours` runs sizes that the others have no memory for.
"""

import argparse
import math
import sys

from compare import ours, parsed, pytorch, variants
from steps import TOLERANCES, agreed, broken, shared, show, steps_parser

TOLERANCES = {dtype: of | {"l1": of["loss"], "kl": 4 * of["loss"]} for dtype, of in TOLERANCES.items()}
# Burn's own layers store all scores of attention, several times.
MOST_POSITIONS_OF_BURN = 8192
# The segments before the loss: their second run would follow their first, so that nothing is saved by it. What `leanburn fit` finds.
LAST = "decoder.level_0*"
# What a streamed segment stores whole.
KEEPS = ["two", "one", "none", "joined"]


def arguments() -> argparse.Namespace:
    options = steps_parser(__doc__, "monai", "burn")
    options.add_argument("--shape", type=int, nargs=3, default=[128, 128, 64], help="voxels along depth, height, width")
    options.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64], help="of each level, finest first")
    options.add_argument("--attention", action="store_true", help="at the last level")
    options.add_argument("--recompute", action="store_true", help="only the lines that recompute or stream")
    options.add_argument("--stream", type=stream, nargs="+", default=[], help="lines of ours, finest levels in slabs: what is stored, and planes of a slab (8)")
    options.add_argument("--skip-burn", action="store_true", help="leave out Burn's own layers, which are slow and large")
    return parsed(options, {"shape": [8, 8, 8], "channels": [4, 8], "dtype": ["f32", "bf16"]})


def stream(text: str) -> list[str]:
    """The options of a line of ours for `two` or `two:16`."""
    keep, _, planes = text.partition(":")
    if keep not in KEEPS or not (planes or "8").isdecimal():
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(KEEPS)}, alone or with planes of a slab as in `two:16`, found `{text}`")
    return [f"--stream={keep}", *([f"--slab-planes={planes}"] if planes else [])]


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
    both = [*shared(options, dtype), "--shape", *options.shape, "--channels", *options.channels]
    both += ["--attention"] if options.attention else []
    chosen = []
    if options.only in (None, "monai"):
        lines = [pytorch("autoencoder_step.py", *both, *broken(options, "peer"), *variant) for variant in variants(options)]
        kept, recomputed = (lines[:1], lines[-1:]) if options.tiny else (lines, lines)  # MONAI alone takes seconds to start
        chosen += [(False, line) for line in kept] + [(True, [*line, "--recompute"]) for line in recomputed]
    lean = ours(options, "autoencoder-step", *both, *broken(options, "ours"))
    if options.only in (None, "burn") and not options.skip_burn and burn_can(options, dtype):
        chosen += [(False, [*lean, "--burn"])]
    if options.only in (None, "ours"):
        chosen += [(False, lean), (True, [*lean, "--recompute"]), (True, [*lean, "--recompute", f"--keep={LAST}"])]
        chosen += [(True, [*lean, *streamed]) for streamed in options.stream]
    return [command for recomputes, command in chosen if recomputes or not options.recompute]


def main() -> None:
    options = arguments()
    chosen = [command for dtype in options.dtype for command in commands(options, dtype)]
    if not chosen:
        sys.exit("nothing left to run")
    results = agreed(options, chosen, TOLERANCES)
    volume, parameters = "x".join(map(str, options.shape)), results[0]["checks"]["parameters"]
    attention = "attention at the last level" if options.attention else "no attention"
    setting = f"""Volume {volume}, batch of 1, channels {options.channels}, one residual block a level,
{attention}, {parameters:,} parameters, L1 + KL."""
    if options.stream:
        setting += " Streamed: the finest level of encoder and decoder (joined: all but the\ncoarsest); all else is recomputed."
    theme = ["autoencoder_step", volume, *options.dtype, "attention" if options.attention else None]
    theme += ["recomputed" if options.recompute else None, "streamed" if options.stream else None]
    show(
        options,
        results,
        of="the KL autoencoder",
        peer="MONAI",
        theme=theme,
        setting=setting,
        inputs="volume and noise of the latent",
        tolerances=TOLERANCES,
    )


if __name__ == "__main__":
    main()
