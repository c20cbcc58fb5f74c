"""What the comparisons share: run the programs, check that they compute the same, print one table, write one dated file.

This must stay small: a child starts with its parent's resident peak.
"""

import argparse
import datetime
import json
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
RATIO = """*Ratio*: to the fastest of PyTorch's lines of the same precision, which has 1.00 (in italics)."""
INSTRUCTION_SETS = re.compile(r"(sse4_2|fma|avx2|avx_vnni|avx512\w*|amx_\w+|asimd\w*|sve\w*|bf16|i8mm)")


def parser(documentation: str) -> argparse.ArgumentParser:
    """A parser with what every table takes."""
    options = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2, help="of every program")
    options.add_argument("--steps", type=int, default=5, help="timed steps; the median counts")
    options.add_argument("--write", action="store_true", help="write the table into benches/results/")
    options.set_defaults(load=os.getloadavg()[0], tiny=False)
    return options


def peers_parser(documentation: str) -> argparse.ArgumentParser:
    """A parser with what every comparison takes."""
    options = parser(documentation)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    options.add_argument("--binary", default=str(target / "release" / "examples" / "peers"), help="the Rust programs")
    options.add_argument("--tiny", action="store_true", help="a few voxels, one step: whether it runs and all agree, no more")
    options.add_argument("--compile", action=argparse.BooleanOptionalAction, help="lines of torch.compile (not with --tiny)")
    options.add_argument("--broken", choices=["peer", "ours"], help=argparse.SUPPRESS)
    return options


def parsed(options: argparse.ArgumentParser, tiny: dict[str, object]) -> argparse.Namespace:
    """The arguments; with --tiny those of `tiny` are the defaults. Ends the program where something is missing."""
    if "--tiny" in sys.argv[1:]:
        options.set_defaults(threads=1, steps=1, **tiny)
    options = options.parse_args()
    if options.tiny and options.write:
        sys.exit("--tiny measures nothing: it writes no table")
    if not pathlib.Path(options.binary).exists():
        sys.exit(f"{options.binary} is not there; first: {BUILD}, or name the program with --binary")
    if options.compile is None:
        options.compile = not options.tiny
    if options.compile:
        probe = subprocess.run(pytorch("compiles.py"), capture_output=True, text=True)
        if probe.returncode != 0:
            reason = (probe.stderr.strip().splitlines() or ["it says nothing"])[-1]
            print(f"left out: torch.compile does not work on this machine: {reason}", file=sys.stderr)
            options.compile = False
    return options


def variants(options: argparse.Namespace) -> list[list[str]]:
    """PyTorch as a good user runs it: flags of its programs, the plain one first."""
    layouts = [[], ["--channels-last"]]
    return layouts + ([[*layout, "--compile"] for layout in layouts] if options.compile else [])


def ours(options: argparse.Namespace, *arguments: object) -> list[str]:
    """The command of a Rust program: leanburn's or plain Burn's."""
    return [options.binary, *map(str, arguments)]


def pytorch(program: str, *arguments: object) -> list[str]:
    """The command of a PyTorch program."""
    return [sys.executable, "-W", "ignore", str(HERE / "pytorch" / program), *map(str, arguments)]


def failed(command: list[str], code: int) -> str:
    return f"failed with code {code}: {shlex.join(command)}"


def measure(command: list[str]) -> dict:
    """Runs a program to its end; what it says in its last line. No time is printed before all are checked."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(failed(command, result.returncode))
    line = json.loads(result.stdout.splitlines()[-1])
    print(f"ran: {name(line)}", file=sys.stderr)
    return line


def in_turn(commands: list[list[str]], rounds: int) -> list[dict]:
    """Runs all programs in turn, so many times; of each the run whose step took the median time.

    On a machine that others use a process is slow from its beginning to its end, whatever the median of its steps.
    """
    if rounds < 1:
        sys.exit(f"--rounds takes 1 or more, found {rounds}")
    runs = [[measure(command) for command in commands] for _ in range(rounds)]
    return [sorted(of_one, key=lambda line: line["step_seconds"])[rounds // 2] for of_one in zip(*runs)]


def name(line: dict) -> str:
    return ", ".join([line["program"], line["mode"], *([line["dtype"]] if "dtype" in line else [])])


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


def is_close(found: object, expected: object, tolerance: float) -> bool:
    """Whether two values are equal, or close where there is a tolerance; nothing is close to what is not a number.

    A tensor is said by its length (2-norm) and its product with a fixed direction: a difference of either is at most the
    length of the difference of the tensors. Both are compared relative to the length.
    """
    if isinstance(expected, dict):
        scale = abs(expected["length"])
        return found.keys() == expected.keys() and all(abs(found[key] - expected[key]) <= tolerance * scale for key in expected)
    if tolerance == 0.0 or not isinstance(expected, (int, float)):
        return found == expected
    return abs(found - expected) <= tolerance * abs(expected)


def check(programs: dict[str, dict], tolerances: dict[str, float], what: str = "") -> None:
    """Rejects programs that compute different things: the same values by name, each equal or close."""
    (first, expected), *others = programs.items()
    errors = []
    for other, found in others:
        if found.keys() != expected.keys():
            errors.append(f"{other} says {sorted(found)}, {first} {sorted(expected)}")
            continue
        for key, value in expected.items():
            tolerance = tolerances.get(key, 0.0)
            if not is_close(found[key], value, tolerance):
                errors.append(f"{key} is {value} for {first} and {found[key]} for {other} (tolerance {tolerance:g})")
    if errors:
        sys.exit("\n  ".join([f"not the same computation{what}: no table is made.", *errors]))


def checked(options: argparse.Namespace, results: list[dict], tolerances: dict[str, dict[str, float]]) -> list[dict]:
    """The results, once it is sure that all lines of a precision computed the same, with the threads that were asked for."""
    for result in results:
        if result["threads"] != options.threads:
            sys.exit(f"{name(result)} ran on {result['threads']} threads, not {options.threads}")
    for dtype in dict.fromkeys(result["dtype"] for result in results):
        group = {name(result): result["checks"] for result in results if result["dtype"] == dtype}
        check(group, tolerances[dtype], f" in {dtype}")
        agreed = f"all {len(group)} computed the same" if len(group) > 1 else "a single line, compared with nothing"
        print(f"{dtype}: {agreed}: {json.dumps(next(iter(group.values())))}", file=sys.stderr)
    for result in results:
        print(f"{name(result)}: {result['step_seconds']:.4f} s", file=sys.stderr)
    return results


def fastest(results: list[dict], dtype: str) -> float | None:
    """Seconds of the fastest of the peer's lines of a precision."""
    return min((result["step_seconds"] for result in results if result["is_peer"] and result["dtype"] == dtype), default=None)


def ratio(result: dict, results: list[dict]) -> str:
    """The cell of a table: a line's time over that of the fastest of the peer's lines of its precision."""
    best = fastest(results, result["dtype"])
    if best is None:
        return ""
    text = f"{result['step_seconds'] / best:.2f}"
    return f"*{text}*" if result["is_peer"] and result["step_seconds"] == best else text


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


def processor_of(cpuinfo: str) -> tuple[str, list[str]]:
    """The processor's name, with its family, model and stepping where the name says nothing; and its instruction sets."""

    def field(key: str) -> str:
        found = re.search(rf"^{key}\s*: *(.*)$", cpuinfo, re.MULTILINE)
        return found.group(1).strip() if found else ""

    called = field("model name") or platform.processor() or platform.machine()
    # virtual machines hide which of its kind it is: `Intel(R) Xeon(R) Processor`, `AMD EPYC`, `QEMU Virtual CPU version 2.5+`
    is_generic = not re.search(r"\d", called) or re.search(r"virtual|qemu|kvm", called, re.IGNORECASE)
    if is_generic and field("cpu family"):
        called += f" (family {field('cpu family')}, model {field('model')}, stepping {field('stepping')})"
    flags = (field("flags") or field("Features")).split()
    return called, [flag for flag in flags if INSTRUCTION_SETS.fullmatch(flag)]


def processor() -> tuple[str, list[str]]:
    try:
        return processor_of(pathlib.Path("/proc/cpuinfo").read_text())
    except OSError:
        return platform.processor() or platform.machine(), []


def machine() -> str:
    """The lines of a result that say on what it was measured."""
    called, sets = processor()
    return f"{called}, {os.cpu_count()} cores; instruction sets: {', '.join(sets) or 'not known'}."


def versions_of(results: list[dict]) -> dict[str, str]:
    """What the programs were built of, by name."""
    return {part: version for result in results for part, version in result["versions"].items()}


def without_binary(words):
    """The words of a command line without where the Rust programs are on this machine."""
    return [word for at, word in enumerate(words) if not word.startswith("--binary") and words[at - 1 : at] != ["--binary"]]


def finish(
    options: argparse.Namespace,
    theme: str,
    title: str,
    setting: str,
    body: str,
    notes: str,
    build: str = BUILD,
    versions: dict[str, str] | None = None,
) -> None:
    """Prints the table; with --write also puts it into benches/results/, with date, machine, versions and commands."""
    if options.tiny:
        print("tiny: the times of this table mean nothing")
    print(body)
    print(f"{options.threads} threads, load average at the start: {options.load:.1f}")
    if options.load > BUSY:
        print("the machine is busy: PyTorch's threads wait for each other in loops and suffer most", file=sys.stderr)
    if not options.write:
        return
    versions = versions or {}
    if "dev" in versions.values():
        sys.exit(f"not written: the Rust programs are a debug build; first: {BUILD}")
    today = datetime.date.today()
    command = shlex.join(["python", os.path.relpath(sys.argv[0], ROOT), *without_binary(sys.argv[1:])])
    listed = "; ".join(f"{part} {version}" for part, version in versions.items())
    text = f"""# {title}

{today}, {options.threads} threads for every program. {machine()}
{f"Versions: {listed}." if versions else ""}
Load average at the start: {options.load:.1f} (well below 1 is a quiet machine).

{setting}

{body}

```bash
{build}
{command}
```

{notes}
"""
    text = text.replace("\n\nLoad average", "\nLoad average")
    hardware = re.sub(r"[^a-z0-9]+", "-", processor()[0].lower()).strip("-") + f"-{options.threads}-threads"
    path = ROOT / "benches" / "results" / f"{theme}_{hardware}_{today:%Y%m}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    print(f"written: {path.relative_to(ROOT)}")
