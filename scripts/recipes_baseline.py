#!/usr/bin/env python3
"""The first 20 steps of every recipe: the resolved configuration, and the losses and gradient norms of each step.

    python3 scripts/recipes_baseline.py target/release/leanburn             compares with tests/data/recipes.json
    python3 scripts/recipes_baseline.py target/release/leanburn --write     writes that file

A change that is to leave behaviour alone leaves all of it alone, bit for bit, on the processor that the file names; on another
processor losses are compared to within 1e-3. The recipes for graphics cards run here on small synthetic volumes, on the CPU.
Takes four minutes on two cores in a release build. Exit code 1 if anything differs.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/data/recipes.json"
STEPS = 20
# Evaluations and checkpoints are no part of a step.
QUIET = ["val_interval", "visualize_interval", "checkpoint_interval"]
# What recipes for 256x256x64 volumes on a card are run on here, and with their discriminators from the first step on.
SMALL = [
    "data.paths=[]",
    "data.phantom={count: 2, shape: [32, 24, 24]}",
    "data.voxel_size=[32, 24, 24]",
    "device.name=flex",
    "autoencoder.training.adversarial_start_step=2",
]


def processor():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    flags = next(line for line in open("/proc/cpuinfo") if line.startswith("flags")).split()
    return f"{names[0]}{', AVX-512' if 'avx512f' in flags else ', AVX2' if 'avx2' in flags else ''}"


def run(leanburn, recipe, folder):
    text = recipe.read_text()
    systems = ["autoencoder", "vae3d", "vqvae", "forecaster", "operator", "super_resolution", "segmentation", "bev"]
    section = next(name for name in systems if f"\n{name}:" in text)
    sets = [f"{section}.training.{key}=10000" for key in QUIET]
    if "name: cuda" in text:
        sets += SMALL
    out = pathlib.Path(folder) / recipe.stem
    command = [leanburn, "train", str(recipe), "--out", str(out), "--max-steps", str(STEPS), "--device", "flex"]
    for value in sets:
        command += ["--set", value]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")
    steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    kept = lambda name: not name.startswith(("seconds", "memory.")) and "second" not in name
    values = [{n: v for n, v in step["values"].items() if kept(n)} for step in steps if step["phase"] == "train"]
    return {"config": (out / "config.yaml").read_text(), "steps": values}


def differences(name, was, now, is_same_processor):
    if was["config"] != now["config"]:
        yield f"{name}: another resolved configuration"
    if len(was["steps"]) != len(now["steps"]):
        yield f"{name}: {len(now['steps'])} steps, {len(was['steps'])} before"
    for index, (before, after) in enumerate(zip(was["steps"], now["steps"])):
        for key in sorted(before.keys() | after.keys()):
            a, b = before.get(key), after.get(key)
            near = a is not None and b is not None and abs(a - b) <= 1e-3 * max(abs(a), 1e-3)
            if a != b and (is_same_processor or not near):
                yield f"{name}: step {index}: {key} was {a}, is {b}"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    leanburn = str(pathlib.Path(sys.argv[1]).resolve())
    known = {} if sys.argv[2:] else json.loads(DATA.read_text())
    # a second stage needs a trained first one
    single = [path for path in sorted((ROOT / "configs").glob("*.yaml")) if "\nlatents:" not in path.read_text()]
    recipes = [path for path in single if not known or path.stem in known["recipes"]]
    with tempfile.TemporaryDirectory() as folder:
        now = {recipe.stem: run(leanburn, recipe, folder) for recipe in recipes}
    if not known:
        DATA.parent.mkdir(parents=True, exist_ok=True)
        DATA.write_text(json.dumps({"processor": processor(), "recipes": now}, indent=1) + "\n")
        return
    same = known["processor"] == processor()
    found = [line for name in now for line in differences(name, known["recipes"][name], now[name], same)]
    print("\n".join(found[:40]))
    how = "bit for bit" if same else f"within 1e-3: made on {known['processor']}"
    print(f"{len(now)} recipes, {len(found)} differences ({how})")
    sys.exit(1 if found else 0)


main()
