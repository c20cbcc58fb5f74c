"""Compares a training step of a Fourier neural operator: PyTorch and leanburn; time and memory.

    cargo build --release --example peers
    python benches/peers/fno_step.py [--shape 128 128 128] [--width 32] [--modes 16] [--layers 4] [--batch-size 1] [--write]

Each line of the table is a process of its own. Weights, field, target and Adam's constants are the same in all; losses and gradients of
the first step and of the step after the updates are compared before any time is printed. PyTorch's network is the authors' (corners of
the spectrum, FFTs of the whole of it), plain, through torch.compile, and with a checkpoint for each layer. `--only ours` runs sizes that
PyTorch has no memory for.
"""

import argparse

from compare import mib, ours, parsed, pytorch
from steps import TOLERANCES, agreed, broken, shared, show, steps_parser

# Weight, gradient and Adam's two moments, 4 bytes each.
WEIGHTS = 16


def arguments() -> argparse.Namespace:
    options = steps_parser(__doc__, "pytorch", dtypes=False)
    options.add_argument("--shape", type=int, nargs="+", default=[128, 128, 128], help="positions along each axis, one to three axes")
    options.add_argument("--batch-size", type=int, default=1)
    options.add_argument("--width", type=int, default=32, help="channels of the layers")
    options.add_argument("--modes", type=int, default=16, help="frequencies of each sign along each axis")
    options.add_argument("--layers", type=int, default=4)
    return parsed(options, {"shape": [10, 7, 9], "width": 4, "modes": 3, "layers": 3, "batch_size": 2})


def commands(options: argparse.Namespace) -> list[list[str]]:
    both = [*shared(options), f"--batch-size={options.batch_size}", f"--width={options.width}", f"--modes={options.modes}"]
    both += [f"--layers={options.layers}", "--shape", *options.shape]
    plain = pytorch("fno_step.py", *both, *broken(options, "peer"))
    lean = ours(options, "fno-step", *both, *broken(options, "ours"))
    compiled = [[*plain, "--compile"]] if options.compile else []
    lines = {"pytorch": [plain, *compiled, [*plain, "--checkpoint"]], "ours": [lean, [*lean, "--recompute"]]}
    return lines[options.only] if options.only else [*lines["pytorch"], *lines["ours"]]


def main() -> None:
    options = arguments()
    results = agreed(options, commands(options), TOLERANCES)
    parameters = results[0]["checks"]["parameters"]
    grid = "x".join(map(str, options.shape))
    setting = f"""Grid {grid}, batch of {options.batch_size}, {options.layers} layers of {options.width} channels, {options.modes} frequencies of each
sign along each axis (of one sign along the last), projection through 128 channels, {parameters:,} real parameters: {mib(WEIGHTS * parameters)} of
weights, gradients and Adam's moments; mean squared error."""
    show(
        options,
        results,
        of="a Fourier neural operator",
        peer="PyTorch",
        theme=["fno_step", f"{options.batch_size}x{options.width}x{grid}"],
        setting=setting,
        inputs="field and target",
        tolerances=TOLERANCES,
    )


if __name__ == "__main__":
    main()
