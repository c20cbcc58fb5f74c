"""What the comparisons of training steps share: their options, what all programs must agree in, the table and what is said below it."""

import argparse

from compare import RATIO, checked, finish, measure, mib, peers_parser, ratio, table, versions_of

HEADER = ["program", "mode", "dtype", "step", "ratio", "saved activations", "peak of the heap", "peak resident", "... before step 1"]
LEARNING_RATE = 1e-4
# Relative. In float32 sums in another order, which signs and Adam's division by small gradients make more of; in bfloat16 each stored
# activation is rounded by up to 2^-8, by other programs at other places. PyTorch's own lines differ by a fifth to a third of these. What
# the updates take off the loss, a tenth of it after three, is compared by itself.
TOLERANCES = {
    "f32": {"loss": 1e-4, "gradient norm": 5e-3, "decrease": 1e-2},
    "bf16": {"loss": 5e-3, "gradient norm": 5e-2, "decrease": 1.5e-1},
}


def steps_parser(documentation: str, peer: str, *others: str, dtypes: bool = True) -> argparse.ArgumentParser:
    """A parser with what every comparison of steps takes."""
    options = peers_parser(documentation)
    options.add_argument("--updates", type=int, default=3, help="before the clock runs; compared before the first and after the last")
    if dtypes:
        options.add_argument("--dtype", choices=["f32", "bf16"], nargs="+", default=["f32"], help="of the activations")
    options.add_argument("--only", choices=[peer, *others, "ours"], help="only the lines of one program")
    return options


def shared(options: argparse.Namespace, dtype: str | None = None) -> list[str]:
    """The arguments that every program takes."""
    arguments = [f"--threads={options.threads}", f"--steps={options.steps}", f"--updates={options.updates}"]
    return [*arguments, f"--learning-rate={LEARNING_RATE}", *([f"--dtype={dtype}"] if dtype else [])]


def broken(options: argparse.Namespace, side: str) -> list[str]:
    """Of a side whose optimizer is not to step, to see that it is noticed."""
    return ["--no-update"] if options.broken == side else []


def compared(steps: list[dict], tolerances: dict[str, float]) -> dict:
    """The values in which programs must agree: of the first step, and of the one after all updates."""
    first, last = steps[0], steps[-1]
    after = f"after {counted(len(steps) - 1)}"
    values = {"parameters": first["parameters"]}
    for when, step in [("at first", first), (after, last)]:
        values |= {f"{key} {when}": step[key] for key in tolerances if key != "decrease"}
    return values | {f"decrease of the loss {after}": first["loss"] - last["loss"]}


def counted(updates: int) -> str:
    return "one update" if updates == 1 else f"{updates} updates"


def agreed(options: argparse.Namespace, commands: list[list[str]], tolerances: dict[str, dict[str, float]]) -> list[dict]:
    """Runs all programs; their lines, once it is sure that all of a precision computed the same."""
    results = [measure(command) for command in commands]
    for result in results:
        result["checks"] = compared(result["checks"], tolerances[result["dtype"]])
    names = list(results[0]["checks"])
    by_name = {
        dtype: {name: tolerance for name in names for key, tolerance in of.items() if name.startswith(key)}
        for dtype, of in tolerances.items()
    }
    return checked(options, results, by_name)


def over_first(result: dict, results: list[dict]) -> str:
    """The cell of a table of one program: a line's time over that of the first of its precision."""
    first = next(line for line in results if line["dtype"] == result["dtype"])
    return f"{result['step_seconds'] / first['step_seconds']:.2f}"


def row(options: argparse.Namespace, result: dict, results: list[dict]) -> list[str]:
    """A line of the table."""
    cells = [result["program"], result["mode"], result["dtype"], f"{result['step_seconds']:.2f} s"]
    cells += [over_first(result, results) if options.only else ratio(result, results)]
    cells += [mib(result["kept_bytes"]), mib(result["peak_bytes"])]
    return [*cells, mib(result["resident_peak_bytes"]), mib(result["resident_before_bytes"])]


def show(
    options: argparse.Namespace,
    results: list[dict],
    *,
    of: str,
    peer: str,
    theme: list[str | None],
    setting: str,
    inputs: str,
    tolerances: dict[str, dict[str, float]],
    of_peer: str = "",
) -> None:
    """Prints the table of steps of `of`, and writes it where that was asked for."""
    alone = results[0]["program"].split(",")[0] if options.only else None
    title = f"A training step of {of}, {f'{alone} alone' if alone else f'leanburn and {peer}'}"
    setting = f"""{setting}
Adam; median of {options.steps} timed {"step" if options.steps == 1 else "steps"} after {options.updates + 1} that are not."""
    said = [
        f"in {dtype} " + ", ".join(f"{key} to {tolerance:g}" for key, tolerance in tolerances[dtype].items())
        for dtype in dict.fromkeys(result["dtype"] for result in results)
    ]
    of_time = "*Ratio*: to the first line of the same precision." if alone else f"{RATIO} bf16 is `torch.autocast` there."
    notes = f"""{of_time}{f" {of_peer}" if of_peer and not alone else ""}

*Saved activations*: what the heap grew by during forward. *Peak of the heap*: weights and optimizer included; counted by our
allocator, sampled every 0.2 ms in an extra step for PyTorch, a lower bound. PyTorch and MONAI themselves are resident
*before step 1*.

Compared before anything was timed{", with each other" if alone else ""}, relative, of the first step and of the one after {counted(options.updates)} of Adam
(rate {LEARNING_RATE:g}, betas 0.9 and 0.999, epsilon 1e-8; same weights, {inputs}): {"; ".join(said)}. *Decrease*: what
{counted(options.updates)} took off the loss."""
    body = table(HEADER, [row(options, result, results) for result in results], names=3)
    finish(options, "-".join(filter(None, [*theme, options.only])), title, setting, body, notes, versions=versions_of(results))
