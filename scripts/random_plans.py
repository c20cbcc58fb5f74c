#!/usr/bin/env python3
"""Plans against real runs: random configurations of all systems, and random budgets that `leanburn fit` is given.

    python3 scripts/random_plans.py target/release/leanburn [--plans 80] [--fits 60] [--seed 1] [--write benches/results/FILE.md]

Each configuration is planned, and trained for a few steps with two threads (data, waiting batches and the program count). Each budget lies
between the leanest and the plain plan; the fitted configuration is trained, and must not hold more than its budget. Fails if a peak differs by
more than 3 % above 10 MiB, if one is above plan and margin, if a fitted run holds more than its budget, or if a command ends in an error
that a budget does not explain. Small models: about 20 minutes with a development build on two cores, a third of it with a release. Not in
`.ci/run`.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 1 << 20
WORST, SMALL = 0.03, 10 * MIB


def training(r, **more):
    """Keys that the sections `training` of all systems share."""
    keys = {
        "batch_size": r.choice([1, 1, 2, 3]),
        "gradient_accumulation_steps": r.choice([1, 1, 2, 3]),
        "max_steps": 3,
        "val_interval": 100,
        "visualize_interval": 0,
        "checkpoint_interval": 100,
        "optimizer": r.choice(["adam", "adamw", "sgd", "lion", "rmsprop"]),
    }
    if r.random() < 0.3:
        keys["use_gradient_checkpointing"] = True
    if r.random() < 0.3:
        keys["ema_decay"] = 0.9
    if r.random() < 0.3:
        keys["max_grad_norm"] = 1.0
    return {**keys, **more}


def volumes(r, factor, most, **more):
    """The section `data`: synthetic heads, whole or in patches."""
    length = lambda low, high: factor * r.randint(-(-low // factor), high // factor)
    shape = [length(16, most) for _ in range(3)]
    data = {
        "phantom": {"count": r.randint(2, 5), "shape": shape},
        "cache_rate": r.choice([0, 0.5, 1, 1]),
        "num_workers": r.randint(0, 2),
        "prefetch": r.randint(1, 3),
    }
    if r.random() < 0.5:
        data["phantom"]["shape"] = [length + 8 for length in shape]
        data["patch_size"] = shape
    if r.random() < 0.2:
        data["augmentation"] = "nnunet"
    return {**data, **more}


def autoencoder(r):
    levels, groups = r.randint(1, 3), r.choice([2, 4])
    model = {
        "num_channels": [groups * r.randint(1, 5) for _ in range(levels)],
        "norm_num_groups": groups,
        "num_res_blocks": r.randint(1, 2),
        "training": training(r),
    }
    if levels > 1 and r.random() < 0.3:
        model["attention_levels"] = [False] * (levels - 1) + [True]
    if r.random() < 0.2:
        model["use_convtranspose"] = True
    if r.random() < 0.3:
        model["training"]["discriminator"] = {"num_channels": 4, "num_layers_d": 1}
    return {"autoencoder": model, "data": volumes(r, 1 << (levels - 1), 36)}


def vae3d(r):
    shape = [8 * r.randint(1, 2), 16 * r.randint(1, 3), 16 * r.randint(1, 3)]
    model = {"vae_type": "ultra_lightweight", "training": training(r, occupancy_threshold=0.3)}
    if r.random() < 0.3:
        model["codebook"] = {"num_embeddings": 32}
    return {"vae3d": model, "data": {"radar": {"count": 4, "shape": shape}, "normalize": "none"}}


def vqvae(r):
    levels = r.randint(1, 3)
    model = {
        "channels": [4 * r.randint(1, 5) for _ in range(levels)],
        "num_res_channels": 4 * r.randint(1, 4),
        "num_res_layers": r.randint(1, 2),
        "embedding_dim": r.choice([4, 8, 16]),
        "codebook": {"num_embeddings": r.choice([16, 64, 200])},
        "training": training(r),
    }
    return {"vqvae": model, "data": volumes(r, 1 << levels, 36)}


def segmentation(r):
    levels = r.randint(2, 3)
    model = {
        "num_classes": 3,
        "channels": [4 * r.randint(1, 4) for _ in range(levels)],
        "num_res_units": r.randint(0, 2),
        "norm": r.choice(["instance", "batch", "none"]),
        "act": r.choice(["prelu", "relu", "silu"]),
        "training": training(r),
    }
    if r.random() < 0.3:
        model["dropout"] = 0.2
    return {"segmentation": model, "data": volumes(r, 1 << (levels - 1), 32, labels={})}


def forecaster(r):
    kind = r.choice(["convlstm", "convlstm", "3dcnn_lstm_lite", "3dcnn_lstm_micro"])
    model = {"model_type": kind, "training": training(r)}
    if kind == "convlstm":
        model["hidden_channels"] = 4 * r.randint(1, 6)
    days = r.randint(3, 8)
    advection = {"steps": 60, "shape": [8 * r.randint(2, 5), 8 * r.randint(2, 5)]}
    return {"forecaster": model, "sequence": {"advection": advection, "input_days": days, "use_channels": [0, 1, 2]}}


SYSTEMS = [autoencoder, vae3d, vqvae, segmentation, forecaster]


def draw(r, index):
    config = SYSTEMS[index % len(SYSTEMS)](r)
    device = {"name": "flex", "precision": r.choice(["f32", "f32", "bf16"])}
    return {"seed": r.randint(0, 999), **config, "device": device}


class Command:
    def __init__(self, binary, folder):
        self.binary, self.folder = str(Path(binary).resolve()), Path(folder)
        self.environment = {**os.environ, "RAYON_NUM_THREADS": "2", "XDG_CACHE_HOME": str(folder)}

    def __call__(self, *arguments):
        """The standard output; an error is raised with what was printed."""
        done = subprocess.run([self.binary, *map(str, arguments)], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def trained(self, config, run):
        """What a run planned and held."""
        self("train", config, "--out", run)
        plan = json.loads((self.folder / run / "plan.json").read_text())
        return plan["planned_peak_bytes"], plan["measured_peak_bytes"]


def plans(command, r, count):
    rows, faults = [], []
    for index in range(count):
        config = draw(r, index)
        name = f"plan-{index}.yaml"
        (command.folder / name).write_text(json.dumps(config)) # JSON is YAML
        system = SYSTEMS[index % len(SYSTEMS)].__name__
        try:
            needed = json.loads(command("plan", name, "--json"))["needed_bytes"]
            planned, measured = command.trained(name, f"plan-{index}")
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            faults.append(f"{system} {index}: {error}\n{json.dumps(config)}")
            continue
        error = planned / measured - 1
        rows.append((system, planned, measured, needed))
        wrong = measured > needed or (measured > SMALL and abs(error) > WORST)
        if wrong:
            faults.append(f"{system} {index}: planned {planned}, measured {measured}, needed {needed}\n{json.dumps(config)}")
        print(f"plan {index:2} {system:12} {planned / MIB:8.2f} {measured / MIB:8.2f} {100 * error:+6.2f} %{' !' * wrong}", flush=True)
    return rows, faults


def fits(command, r, count):
    rows, faults, without = [], [], 0
    for index in range(count):
        config = draw(r, index)
        name = f"fit-{index}.yaml"
        section = next(config[key] for key in config if key not in ("seed", "data", "sequence", "device"))
        section["training"].pop("use_gradient_checkpointing", None)
        (command.folder / name).write_text(json.dumps(config))
        system = SYSTEMS[index % len(SYSTEMS)].__name__
        try:
            needed = json.loads(command("plan", name, "--json"))["needed_bytes"]
            budget = int(needed * r.uniform(0.55, 1.0))
            try:
                command("fit", name, "--budget", f"{budget} B", "--out", f"fitted-{index}.yaml")
            except RuntimeError as error:
                if "smallest plan" not in str(error):
                    raise
                without += 1
                continue
            _, measured = command.trained(f"fitted-{index}.yaml", f"fit-{index}")
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            faults.append(f"{system} {index}: {error}\n{json.dumps(config)}")
            continue
        rows.append((system, budget, measured))
        if measured > budget:
            faults.append(f"{system} {index}: budget {budget}, measured {measured}\n{json.dumps(config)}")
        print(f"fit {index:2} {system:12} {budget / MIB:8.2f} {measured / MIB:8.2f}{' !' * (measured > budget)}", flush=True)
    return rows, faults, without


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    caches = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    sizes = ", ".join(path.read_text().strip() for path in caches)
    return f"{names[0] if names else platform.processor()} (caches {sizes})"


def table(rows, fitted, without, seconds, seed):
    text = [
        "# Random plans and fits against real runs",
        "",
        f"{time.strftime('%Y-%m-%d')}, {processor()}, 2 threads, no processor pinned. `python3 scripts/random_plans.py BINARY --plans {len(rows)} "
        f"--fits {len(fitted) + without} --seed {seed}`, {seconds / 60:.0f} minutes beside other work. Peaks of whole runs: step, data, waiting "
        "batches and the program.",
        "",
        "| system | plans | peaks | worst, above 10 MiB | median | worst, below | above plan and margin |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for system in [one.__name__ for one in SYSTEMS]:
        mine = [row for row in rows if row[0] == system]
        errors = lambda rows: sorted((planned / measured - 1 for _, planned, measured, _ in rows), key=abs) or [0.0]
        large, small = [row for row in mine if row[2] > SMALL], [row for row in mine if row[2] <= SMALL]
        peaks = [measured / MIB for _, _, measured, _ in mine] or [0]
        middle = errors(mine)[len(errors(mine)) // 2]
        above = sum(measured > needed for _, _, measured, needed in mine)
        text.append(f"| {system} | {len(mine)} | {min(peaks):.1f} to {max(peaks):.0f} MiB | {100 * errors(large)[-1]:+.2f} % | {100 * middle:+.2f} % | "
                    f"{100 * errors(small)[-1]:+.2f} % | {above} |")
    over = sum(measured > budget for _, budget, measured in fitted)
    shares = sorted(measured / budget for _, budget, measured in fitted) or [0.0]
    text += ["", f"{len(fitted)} fits were run at budgets of 55 to 100 % of the plain plan ({without} more budgets were below the smallest plan): {over} held more than "
             f"their budget; the fullest held {100 * shares[-1]:.1f} % of it, the median {100 * shares[len(shares) // 2]:.1f} %.", ""]
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--plans", type=int, default=80)
    parser.add_argument("--fits", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = Command(arguments.binary, folder)
        rows, faults = plans(command, random.Random(arguments.seed), arguments.plans)
        fitted, more, without = fits(command, random.Random(arguments.seed + 1), arguments.fits)
    text = table(rows, fitted, without, time.monotonic() - began, arguments.seed)
    print("\n" + text)
    if arguments.write:
        Path(arguments.write).write_text(text)
    print("\n".join(faults + more))
    sys.exit(bool(faults + more))


if __name__ == "__main__":
    main()
