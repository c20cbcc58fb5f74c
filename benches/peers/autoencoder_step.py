"""Compares a training step of leanburn's KL autoencoder with MONAI's: time and memory, same shapes, same threads.

    cargo build --release --example peer_autoencoder_step
    python benches/peers/autoencoder_step.py [--shape 64 64 32] [--channels 32 64 64] [--threads 2] [--steps 3] [--write]

Each line of the table is a process of its own. This one must stay small: a child starts with its parent's resident peak.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COLUMNS = ["program", "mode", "step", "held for backward", "peak of the heap", "peak resident", "... before step 1"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=3, default=[64, 64, 32], help="voxels along depth, height, width")
    parser.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64], help="of each level, finest first")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3, help="timed steps; the median counts")
    parser.add_argument("--write", action="store_true", help="write benches/results/autoencoder_step_*.md")
    return parser.parse_args()


def target_folder() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def run(command: list[str], options: argparse.Namespace) -> dict:
    shared = ["--shape", *options.shape, "--channels", *options.channels]
    shared += ["--threads", options.threads, "--steps", options.steps]
    result = subprocess.run([*command, *map(str, shared)], stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"{pathlib.Path(command[-1]).name} failed with code {result.returncode}")
    return json.loads(result.stdout.splitlines()[-1])


def measure(options: argparse.Namespace) -> list[dict]:
    binary = target_folder() / "release" / "examples" / "peer_autoencoder_step"
    if not binary.exists():
        sys.exit("first: cargo build --release --example peer_autoencoder_step")
    monai = [sys.executable, "-W", "ignore", str(HERE / "monai_autoencoder_step.py")]
    commands = [monai, [*monai, "--recompute"], [str(binary)], [str(binary), "--recompute"]]
    results = []
    for command in commands:
        results.append(run(command, options))
        print(f"{results[-1]['program']}, {results[-1]['mode']}: done", file=sys.stderr)
    if len({result["parameters"] for result in results}) != 1:
        sys.exit(f"not the same model: {[result['parameters'] for result in results]} parameters")
    return results


def table(results: list[dict]) -> str:
    def mib(size: int | None) -> str:
        return "" if size is None else f"{size / 2**20:,.0f} MiB"

    memory = ["held_bytes", "heap_peak_bytes", "resident_peak_bytes", "resident_before_bytes"]
    rows = [COLUMNS]
    for result in results:
        numbers = [f"{result['step_seconds']:.2f} s", *(mib(result[key]) for key in memory)]
        rows.append([result["program"], result["mode"], *numbers])
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]

    def line(row: list[str]) -> str:
        cells = [cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))]
        return "| " + " | ".join(cells) + " |"

    rule = "|" + "|".join("-" * (width + 2) if column < 2 else "-" * (width + 1) + ":" for column, width in enumerate(widths)) + "|"
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])


def processor() -> str:
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    return re.search(r"model name\s*: (.*)", text).group(1).strip()


def report(options: argparse.Namespace, results: list[dict], load: float) -> str:
    volume = "x".join(map(str, options.shape))
    given = f"--shape {' '.join(map(str, options.shape))} --channels {' '.join(map(str, options.channels))}"
    given += f" --threads {options.threads} --steps {options.steps}"
    return f"""# A training step of the KL autoencoder, leanburn beside MONAI

{datetime.date.today()}, {processor()}, {options.threads} threads. Volume {volume}, batch of 1, channels {options.channels},
one residual block a level, no attention, {results[0]['parameters']:,} parameters, float32, L1 + KL, Adam; median of
{options.steps} steps after one. Load average at the start: {load:.1f} (well below 1 is a quiet machine).

{table(results)}

```bash
cargo build --release --example peer_autoencoder_step
python benches/peers/autoencoder_step.py {given} --write
```

"Held for backward" is what the heap grew by during forward. The peak of the heap is counted by leanburn's allocator,
PyTorch has no such count on the CPU; compare the resident peaks, less what was resident before the first step.
"""


def main() -> None:
    options = arguments()
    load = os.getloadavg()[0]
    results = measure(options)
    print(table(results))
    print(f"{options.threads} threads, load average at the start: {load:.1f}")
    if options.write:
        hardware = re.sub(r"[^a-z0-9]+", "-", processor().lower()).strip("-") + f"-{options.threads}-threads"
        name = f"autoencoder_step_{hardware}_{datetime.date.today():%Y%m}.md"
        path = ROOT / "benches" / "results" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(report(options, results, load))
        print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
