"""What the comparisons share: run the programs, check that they compute the same, print one table, write one dated file.

This must stay small: a child starts with its parent's resident peak.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUSY = 0.8
BUILD = "cargo build --release --example peers"


def parser(documentation: str) -> argparse.ArgumentParser:
    """A parser with what every comparison takes."""
    options = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--steps", type=int, default=5, help="timed steps; the median counts")
    options.add_argument("--write", action="store_true", help="write the table into benches/results/")
    options.set_defaults(load=os.getloadavg()[0])
    return options


def ours(*arguments: object) -> list[str]:
    """The command of a Rust program: leanburn's or plain Burn's."""
    binary = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / "peers"
    if not binary.exists():
        sys.exit(f"first: {BUILD}")
    return [str(binary), *map(str, arguments)]


def pytorch(program: str, *arguments: object) -> list[str]:
    """The command of a PyTorch program."""
    return [sys.executable, "-W", "ignore", str(HERE / "pytorch" / program), *map(str, arguments)]


def failed(command: list[str], code: int) -> str:
    return f"failed with code {code}: {shlex.join(command)}"


def measure(command: list[str]) -> dict:
    """Runs a program to its end; what it says in its last line."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(failed(command, result.returncode))
    line = json.loads(result.stdout.splitlines()[-1])
    print(f"{line['program']}, {line['mode']}: {line['step_seconds']:.3f} s", file=sys.stderr)
    return line


class Server:
    """A program that greets, then answers each line with a line, and waits without using the processor in between."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.greeting = self.hear()

    def ask(self, question: str) -> dict:
        print(question, file=self.process.stdin, flush=True)
        return self.hear()

    def hear(self) -> dict:
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(failed(self.command, self.process.wait()))
        return json.loads(answer)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def check(programs: dict[str, dict], tolerances: dict[str, float]) -> None:
    """Stops if the programs compute different things: each value equal, or close where there is a tolerance."""
    (first, expected), *others = programs.items()
    for name, found in others:
        for key, value in expected.items():
            tolerance = tolerances.get(key, 0.0)
            same = found[key] == value or (tolerance > 0.0 and math.isclose(found[key], value, rel_tol=tolerance))
            if not same:
                sys.exit(f"not the same computation: {key} is {value} for {first} and {found[key]} for {name}")


def checked(results: list[dict], tolerances: dict[str, float]) -> list[dict]:
    """The results, once it is sure that all computed the same."""
    check({f"{result['program']}, {result['mode']}": result["checks"] for result in results}, tolerances)
    print(f"all computed the same: {results[0]['checks']}", file=sys.stderr)
    return results


def mib(size: float | None, digits: int = 0) -> str:
    return "" if size is None else f"{size / 2**20:,.{digits}f} MiB"


def table(header: list[str], rows: list[list[str]], names: int = 2) -> str:
    """A markdown table; the first `names` columns stand to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]

    def line(row: list[str]) -> str:
        cells = [cell.ljust(width) if at < names else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))]
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * (width + 2) if at < names else "-" * (width + 1) + ":" for at, width in enumerate(widths)]
    return "\n".join([line(header), "|" + "|".join(rule) + "|", *map(line, rows)])


def processor() -> str:
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    return re.search(r"model name\s*: (.*)", text).group(1).strip()


def finish(
    options: argparse.Namespace, theme: str, title: str, setting: str, body: str, notes: str, build: str = BUILD
) -> None:
    """Prints the table; with --write also puts it into benches/results/, with date, machine and commands."""
    print(body)
    print(f"{options.threads} threads, load average at the start: {options.load:.1f}")
    if options.load > BUSY:
        print("the machine is busy: PyTorch's threads wait for each other in loops and suffer most", file=sys.stderr)
    if not options.write:
        return
    today = datetime.date.today()
    command = shlex.join(["python", os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]])
    text = f"""# {title}

{today}, {processor()}, {options.threads} threads. {setting}
Load average at the start: {options.load:.1f} (well below 1 is a quiet machine).

{body}

```bash
{build}
{command}
```

{notes}
"""
    hardware = re.sub(r"[^a-z0-9]+", "-", processor().lower()).strip("-") + f"-{options.threads}-threads"
    path = ROOT / "benches" / "results" / f"{theme}_{hardware}_{today:%Y%m}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    print(f"written: {path.relative_to(ROOT)}")
