"""Compares single convolutions of the kinds 3D models have, forward and all gradients: PyTorch, plain Burn, leanburn.

    cargo build --release --example peers
    python benches/peers/conv3d_sweep.py [--dtype bf16] [--with-burn] [--only '64->64'] [--threads 2] [--steps 5] [--write]

Each program is one process that takes up one convolution after the other; in each of `--steps` rounds they are timed in
turn, each at least `--seconds`, while the others wait. The medians count, for the share of the peak our fastest passes.
"""

import argparse
import math
import statistics
import sys
import time
from typing import NamedTuple

from compare import Server, check, finish, ours, parsed, peers_parser, pytorch, table, variants, versions_of

# Sums of up to seven thousand terms in float32, in another order; in bf16 results are rounded to eight bits.
TOLERANCES = {"f32": 2e-5, "bf16": 8e-3}
NOTES = """Milliseconds, forward + backward; backward is the gradients of input, weight and bias, from a gradient of ones that is
there before. *Ratio*: the sum of the fastest of PyTorch's columns over ours, so that above 1 leanburn is faster. {more}*Of peak*:
the operations of the forward pass and of both gradients, counted as direct convolutions, in our fastest time, over the
most that the processor's arithmetic reached between the rounds ({peak}: {loop}); transforms save
multiplications, so that it may be above 100 %. Each program is one process; they are timed in turn, round by round.

Compared before anything was timed, from a gradient that differs everywhere: output and gradients, each by its norm and by
its product with a fixed direction, to {tolerance:g} of the norm."""


class Shape(NamedTuple):
    """A convolution: batch, channels, size, and along each axis kernel, stride and padding."""

    batch_size: int
    channels: tuple[int, int]
    size: tuple[int, int, int]
    kernel: tuple[int, int, int]
    stride: tuple[int, int, int]
    padding: tuple[int, int, int]

    def line(self) -> str:
        numbers = [self.batch_size, *self.channels, *self.size, *self.kernel, *self.stride, *self.padding]
        return "open " + " ".join(map(str, numbers))

    def flops(self) -> int:
        """Operations of the forward pass and of the gradients of input and weight."""
        outputs = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(self.size, self.kernel, self.stride, self.padding)]
        return 3 * 2 * self.batch_size * math.prod(self.channels) * math.prod(self.kernel) * math.prod(outputs)

    def cells(self) -> list[str]:
        def axes(numbers: tuple[int, int, int]) -> str:
            return f"{numbers[0]}" if len(set(numbers)) == 1 else "x".join(map(str, numbers))

        size = "x".join(map(str, [self.batch_size, *self.size]))
        return [f"{self.channels[0]}->{self.channels[1]}", size, axes(self.kernel), axes(self.stride)]


def shape(channels: str, size: int | str, kernel: int = 3, stride: int | str = 1, batch_size: int = 1) -> Shape:
    """`shape("32->64", "16x32x32", stride="1x2x2")`; padding keeps the size of stride one, or less by one for kernel 4."""

    def axes(value: int | str) -> tuple[int, int, int]:
        numbers = tuple(map(int, str(value).split("x")))
        return numbers * 3 if len(numbers) == 1 else numbers

    channels_in, channels_out = map(int, channels.split("->"))
    padding = (kernel - 1) // 2
    return Shape(batch_size, (channels_in, channels_out), axes(size), axes(kernel), axes(stride), axes(padding))


SHAPES = [
    # an autoencoder, from fine to coarse: in, levels, shortcuts, out, quantisation
    shape("1->32", 64),
    shape("32->32", 64),
    shape("64->32", 48),
    shape("32->1", 64),
    shape("16->16", 48),
    shape("8->8", 64),
    shape("4->8", 48),
    shape("32->32", "64x64x32"),
    shape("32->64", 32),
    shape("64->64", 32),
    shape("64->64", 16),
    shape("64->3", 16),
    shape("3->64", 16),
    shape("128->128", 16),
    shape("256->256", 12),
    shape("32->64", 32, kernel=1),
    shape("64->32", 32, kernel=1),
    shape("3->3", 16, kernel=1),
    shape("64->256", 16, kernel=1),
    shape("256->256", 12, kernel=1),
    # halvings, also of height and width alone
    shape("32->32", 48, stride=2),
    shape("64->64", 32, stride=2),
    shape("128->128", 16, stride=2),
    shape("32->64", "32x48x48", stride="1x2x2"),
    shape("64->128", "16x32x32", stride="1x2x2"),
    shape("128->256", "12x16x16", stride="1x2x2"),
    # a patch discriminator and a VQ-VAE
    shape("1->32", 64, kernel=4, stride=2),
    shape("32->64", 32, kernel=4, stride=2),
    shape("64->128", 16, kernel=4, stride=2),
    shape("64->128", 12, kernel=4),
    shape("128->1", 12, kernel=4),
    shape("64->64", 24, kernel=4, stride=2, batch_size=2),
    # odd sizes
    shape("16->16", "33x47x21"),
    shape("4->8", "33x47x21"),
    shape("1->16", "33x47x21"),
    shape("16->32", "33x47x21", stride=2),
    shape("32->32", 17),
    shape("64->128", 17, stride=2),
    shape("32->64", 17, kernel=4, stride=2),
    shape("64->64", "7x9x5"),
    shape("256->128", "7x9x5", kernel=1),
    # a batch of two
    shape("16->16", 32, batch_size=2),
    shape("32->32", 24, batch_size=2),
    shape("128->128", 12, batch_size=2),
    shape("32->64", 24, kernel=1, batch_size=2),
]

TINY = [
    shape("2->3", "5x6x7"),
    shape("4->4", 6, kernel=1),
    shape("4->6", 7, stride=2),
    shape("3->4", 6, kernel=4, stride="1x2x2"),
    shape("20->34", 7),
    shape("8->8", "9x12x12"),
    shape("34->20", 7, stride=2),
]


def compared(servers: dict[str, Server], cases: list[Shape], tolerance: float) -> None:
    """Rejects programs that compute different things, before any of them is timed."""
    tolerances = dict.fromkeys(["output", "input gradient", "weight gradient", "bias gradient"], tolerance)
    for case in cases:
        answers = {name: server.ask(case.line()) for name, server in servers.items()}
        check(answers, tolerances, f" ({' '.join(case.cells())})")
    print(f"all {len(servers)} programs computed the same for {len(cases)} shapes", file=sys.stderr)


class Taken(NamedTuple):
    """What was measured of a convolution."""

    seconds: dict[str, dict[str, float]]  # of forward and backward of each program, medians over the rounds
    share: float  # of the peak, in our fastest passes
    peak: float  # operations a second, the most of all rounds


def measured(servers: dict[str, Server], case: Shape, options: argparse.Namespace) -> Taken:
    """All programs in turn, round by round."""
    for server in servers.values():
        server.ask(case.line())
    rounds = {name: [] for name in servers}
    for _ in range(options.steps):
        for name, server in servers.items():
            rounds[name].append(server.ask(f"time {options.seconds}"))
            time.sleep(0.05)  # threads that still wait for work in a loop go to sleep
    keys, own = ["forward", "backward"], rounds["leanburn"]
    fastest, peak = min(taken["fastest"] for taken in own), max(taken["peak_flops"] for taken in own)
    seconds = {name: {key: statistics.median(taken[key] for taken in rounds[name]) for key in keys} for name in rounds}
    return Taken(seconds, case.flops() / fastest / peak, peak)


def started(options: argparse.Namespace) -> dict[str, Server]:
    """The programs by the names of their columns."""
    threads, dtype = f"--threads={options.threads}", f"--dtype={options.dtype}"
    servers = [Server(pytorch("conv3d.py", threads, dtype, *variant)) for variant in variants(options) if len(variant) < 2]
    named = {f"PyTorch, {server.greeting['mode']}": server for server in servers}
    named |= {"Burn": Server(ours(options, "conv3d", threads, "--burn"))} if options.with_burn else {}
    named |= {"leanburn, f32": Server(ours(options, "conv3d", threads))} if options.dtype != "f32" else {}
    named["leanburn"] = Server(ours(options, "conv3d", threads, dtype))
    for name, server in named.items():
        if server.greeting["threads"] != options.threads:
            sys.exit(f"{name} runs on {server.greeting['threads']} threads, not {options.threads}")
    return named


def main() -> None:
    options = peers_parser(__doc__)
    options.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="of the volumes; in bf16 beside our float32")
    options.add_argument("--with-burn", action="store_true", help="also Burn's own convolution, which is slow")
    options.add_argument("--seconds", type=float, default=0.2, help="the least that a timing takes")
    options.add_argument("--only", help="only the shapes with this in their description")
    options = parsed(options, {"seconds": 0.001})
    shapes = TINY if options.tiny else SHAPES
    cases = [case for case in shapes if not options.only or options.only in " ".join(case.cells())]
    servers = started(options)
    compared(servers, cases, TOLERANCES[options.dtype])
    rows, ratios, plain, shares, peaks, gains = [], [], [], [], [], []
    for case in cases:
        taken = measured(servers, case, options)
        sums = {name: sum(seconds.values()) for name, seconds in taken.seconds.items()}
        ratios.append(min(sums[name] for name in sums if name.startswith("PyTorch")) / sums["leanburn"])
        plain.append(sums["PyTorch, plain"] / sums["leanburn"])
        shares.append(taken.share)
        peaks.append(taken.peak / 1e9)
        gains.append(sums.get("leanburn, f32", 0.0) / sums["leanburn"])
        times = [f"{1e3 * seconds['forward']:.2f} + {1e3 * seconds['backward']:.2f}" for seconds in taken.seconds.values()]
        gain = [f"{gains[-1]:.2f}"] if options.dtype != "f32" else []
        rows.append([*case.cells(), *times, f"{ratios[-1]:.2f}", *gain, f"{100 * shares[-1]:.0f} %"])
        print(" ".join(rows[-1]), file=sys.stderr)
    for server in servers.values():
        server.close()

    def mean(values: list[float], fewest_channels: int) -> str:
        chosen = [value for value, case in zip(values, cases) if min(case.channels) >= fewest_channels]
        return f"{statistics.geometric_mean(chosen):.2f}" if chosen else "-"

    gain = ["to our f32"] if options.dtype != "f32" else []
    body = table(["channels", "size", "kernel", "stride", *servers, "ratio", *gain, "of peak"], rows, names=4)
    body += f"\n\n{len(ratios)} shapes: smallest ratio {min(ratios):.2f}, geometric mean {statistics.geometric_mean(ratios):.2f}; to plain PyTorch "
    body += f"{min(plain):.2f} and {statistics.geometric_mean(plain):.2f}. Of the peak "
    body += f"{mean(shares, 16)} in the geometric mean over those with 16 channels and more."
    if gain:
        body += f" To our f32: {mean(gains, 32)} in the geometric mean over those with 32 channels and more."
    setting = f"""{"Float32" if options.dtype == "f32" else "Volumes in bfloat16"}; median of {options.steps} rounds,
in each of them the mean of repetitions of at least {options.seconds} s for each program."""
    title = "Single 3D convolutions, leanburn and PyTorch" + ("" if options.dtype == "f32" else ", in bf16")
    versions = versions_of([server.greeting for server in servers.values()])
    loop = "multiply-adds in vectors" if options.dtype == "f32" else "products of bfloat16 by AMX or dot products of AVX-512 where kernels take them, else multiply-adds in vectors"
    more = "" if options.dtype == "f32" else "*To our f32*: our time in float32 over that in bf16. "
    peak = f"{min(peaks):.0f} to {max(peaks):.0f} GFLOP/s"
    notes = NOTES.format(more=more, peak=peak, loop=loop, tolerance=TOLERANCES[options.dtype])
    theme = "conv3d_sweep" if options.dtype == "f32" else f"conv3d_sweep-{options.dtype}"
    finish(options, theme, title, setting, body, notes, versions=versions)


if __name__ == "__main__":
    main()
