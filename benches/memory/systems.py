"""Memory of a training step of the voxel autoencoder and the forecasters, planned and measured.

    cargo build --release
    python benches/memory/systems.py [--binary target/release/leanburn] [--steps 1] [--write]

The sizes and memory savers of the radar guide at 4 x 32 x 128 x 128 voxels, and the forecaster guide's models at three sizes of fields. Each
row is a process of its own, `leanburn measure` on a recipe of `configs/`. A step that this machine cannot hold is planned
and not measured, and the table says so. Linux only (`/proc`).
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "benches" / "peers"))

from compare import finish, mib, parser, table  # noqa: E402

BUILD = "cargo build --release"
# What else wants memory while a step runs, and what a plan may be short of.
HEADROOM = 1.15
# Beyond this a plan is to be explained.
CLOSE = 3.0
HEADER = ["", "predicted", "measured", "error"]

SCENES = {
    "data.radar.shape": "[32,128,128]",
    "data.radar.count": "2",
    "gradient_accumulation_steps": "1",
}
BF16 = {"device.precision": "bf16"}
RADAR = [
    ("standard, batch 8", {"vae_type": "standard", "batch_size": "8"}),
    ("standard, batch 1", {"vae_type": "standard", "batch_size": "1"}),
    ("lightweight, batch 2", {"vae_type": "lightweight", "batch_size": "2"}),
    ("ultra_lightweight, batch 1", {}),
    ("... + bf16", BF16),
    ("... + recomputation", BF16 | {"vae3d.training.use_gradient_checkpointing": "true"}),
]
SIZES = [32, 64, 128]
FORECASTERS = [
    ("3dcnn_lstm", {}),
    ("convlstm", {}),
    ("convlstm, recomputed over time", {"forecaster.training.use_gradient_checkpointing": "true"}),
    ("3dcnn_lstm_lite", {}),
    ("3dcnn_lstm_micro", {}),
]

NOTES = """*Predicted*: the peak of the recorded step, without the margin that the fit check adds. *Measured*: the most the heap held during
a step, without what it held before the models were built, counted by our allocator. *Error*: of the prediction."""


def leanburn(options: argparse.Namespace, command: str, recipe: str, keys: dict[str, str], *more: str) -> dict:
    """What a command says in JSON of a recipe with some keys changed."""
    settings = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    arguments = [options.binary, command, str(ROOT / "configs" / recipe), "--json", *more, *settings]
    environment = os.environ | {"RAYON_NUM_THREADS": str(options.threads)}
    result = subprocess.run(arguments, capture_output=True, text=True, env=environment, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"{' '.join(arguments)}\n{result.stderr}")
    return json.loads(result.stdout)


def available() -> int:
    """Bytes that a new process may have."""
    text = pathlib.Path("/proc/meminfo").read_text()
    return 1024 * int(re.search(r"MemAvailable:\s*(\d+)", text).group(1))


def row(options: argparse.Namespace, name: str, recipe: str, keys: dict[str, str]) -> tuple[list[str], str | None]:
    """A row of a table, and what is to be said about it."""
    predicted = leanburn(options, "plan", recipe, keys)["step_peak_bytes"]
    free = available()
    if HEADROOM * predicted > free:
        print(f"{name}: {mib(predicted)} planned, not measured", file=sys.stderr)
        note = f"{name}: predicted only. It needs {mib(predicted)}, and {mib(free)} were free on this machine."
        return [name, mib(predicted, 1), "does not fit", ""], note
    answer = leanburn(options, "measure", recipe, keys, "--steps", str(options.steps))
    step = next(phase for phase in answer["phases"] if phase["phase"] == "step")
    if step["predicted_bytes"] != predicted:
        sys.exit(f"{name}: `plan` says {predicted} bytes and `measure` {step['predicted_bytes']}")
    error = 100.0 * (predicted / step["measured_bytes"] - 1.0)
    print(f"{name}: {mib(predicted)} planned, {mib(step['measured_bytes'])} measured", file=sys.stderr)
    note = f"{name}: the prediction is {error:+.2f} % off." if abs(error) > CLOSE else None
    return [name, mib(predicted, 1), mib(step["measured_bytes"], 1), f"{error:+.2f} %"], note


def section(options: argparse.Namespace, title: str, recipe: str, shared: dict[str, str], variants: list) -> str:
    """A table under its title, and below it what is to be said of its rows."""
    rows, notes = zip(*(row(options, name, recipe, shared | keys) for name, keys in variants))
    said = [f"- {note}" for note in notes if note]
    return "\n".join([f"## {title}\n", table(HEADER, list(rows), names=1), *([""] if said else []), *said])


def main() -> None:
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    options = parser(__doc__)
    options.add_argument("--binary", default=str(target / "release" / "leanburn"), help="the command to ask")
    options.set_defaults(steps=1)
    options = options.parse_args()
    if not pathlib.Path(options.binary).exists():
        sys.exit(f"{options.binary} is not there; first: {BUILD}")
    radar = section(options, "Voxel autoencoder, 4 x 32 x 128 x 128 voxels", "radar-vae.yaml", SCENES, RADAR)
    sections = [radar]
    for size in SIZES:
        fields = {"input_days": "20", "use_channels": "[0,1,2,3]", "sequence.advection.shape": f"[{size},{size}]"}
        variants = [(name, {"model_type": name.split(",")[0]} | keys) for name, keys in FORECASTERS]
        title = f"Forecasters, batch 4, 20 days of 4 x {size} x {size} fields"
        sections.append(section(options, title, "convlstm-advection.yaml", fields, variants))
    setting = """One training step in float32 (bfloat16 where it says so), Adam.
`configs/radar-vae.yaml` and `configs/convlstm-advection.yaml` at the sizes of their guides, no accumulation."""
    title = "Memory of the voxel autoencoder and the forecasters, predicted and measured"
    finish(options, "memory_systems", title, setting, "\n\n".join(sections), NOTES, BUILD)


if __name__ == "__main__":
    main()
