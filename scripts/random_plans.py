#!/usr/bin/env python3
"""Plans against real runs: random configurations of all systems, and random budgets that `leanburn fit` is given.

    python3 scripts/random_plans.py target/release/leanburn [--plans 80] [--fits 60] [--seed 1] [--records FILE.jsonl] [--write FILE.md]

Each configuration is planned, and trained for a few steps with two threads (data, waiting batches and the program count). Each budget lies
between the smallest and the plain plan; the fitted configuration is trained, and must not hold more than its budget. Fails if a peak differs by
more than 3 % above 10 MiB, if one is above plan and margin, if a fitted run holds more than its budget, or if a command ends in an error.
Each configuration depends on its number alone: with `--records` a stopped run goes on where it was, and several share the work. Small models:
about 20 minutes with a development build on two cores, a third of it with a release. Not in `.ci/run`.
"""

import argparse
import json
import os
import platform
import random
import re
import statistics
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
    return {"vqvae": model, "data": volumes(r, 1 << levels, 56)}


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
    return {"segmentation": model, "data": volumes(r, 1 << (levels - 1), 56, labels={})}


def forecaster(r):
    kind = r.choice(["convlstm", "convlstm", "3dcnn_lstm_lite", "3dcnn_lstm_micro"])
    model = {"model_type": kind, "training": training(r)}
    if kind == "convlstm":
        model["hidden_channels"] = 4 * r.randint(1, 6)
    days = r.randint(3, 8)
    advection = {"steps": 60, "shape": [8 * r.randint(2, 8), 8 * r.randint(2, 8)]}
    return {"forecaster": model, "sequence": {"advection": advection, "input_days": days, "use_channels": [0, 1, 2]}}


def operator(r):
    kind, layers = r.choice(["fno", "fno", "neuraloperator", "diffsr"]), r.randint(1, 4)
    model = {
        "model": kind,
        "widths": 4 * r.randint(1, 8),
        "num_layers": layers,
        "modes": [r.randint(2, 12), r.randint(2, 12)],
        "training": training(r),
    }
    if kind == "fno":
        model["batch_norm"] = r.choice([False, True])
    if r.random() < 0.3:
        model["rank"] = 0.2
    sequence = {"advection": {"steps": 60, "shape": [8 * r.randint(2, 12), 8 * r.randint(2, 12)]}, "use_channels": [0]}
    sequence |= {"sample_factor": r.choice([2, 4])} if kind == "diffsr" else {"input_days": r.randint(1, 4)}
    return {"operator": model, "sequence": sequence}


def super_resolution(r):
    kind, levels, factor = r.choice(["sr3", "sr3", "ddpm", "edsr", "unet"]), r.randint(1, 3), r.choice([2, 4])
    side = 16 if kind == "unet" else 1 << max(levels - 1, 2)
    model = {"model": kind, "training": training(r) | {"num_inference_steps": 2, "num_samples": 1, "val_windows": 1}}
    if kind == "edsr":
        model |= {"hidden_channels": 8 * r.randint(1, 4), "num_res_blocks": r.randint(1, 4)}
    elif kind == "unet":
        model |= {"init_features": 4 * r.randint(1, 3)}
    else:
        model |= {
            "num_channels": [8 * r.randint(1, 4) for _ in range(levels)],
            "num_res_blocks": r.randint(1, 2),
            "attention_levels": [level + 1 == levels and r.random() < 0.5 for level in range(levels)],
            "norm_num_groups": r.choice([4, 8]),
            "use_affine_level": r.choice([False, True]),
            "dropout": r.choice([0, 0.2]),
        }
    advection = {"steps": 60, "shape": [side * r.randint(2, 96 // side) for _ in range(2)]}
    return {"super_resolution": model, "sequence": {"advection": advection, "use_channels": [0], "sample_factor": factor}}


def latents(r, training_of):
    """A model of latents, with the file of its first stage."""
    shape, name = [8 * r.randint(2, 4) for _ in range(3)], f"first-{r.randint(0, 10**9)}"
    data = {"phantom": {"count": 3, "shape": shape}, "patch_size": shape}
    first = {
        "data": data,
        "autoencoder": {"num_channels": [4, 8], "norm_num_groups": 4, "num_res_blocks": 1, "training": {"max_steps": 1, "visualize_interval": 0}},
        "device": {"name": "flex"},
    }
    levels = r.randint(1, 2)
    model = {
        "num_channels": [16 * r.randint(1, 3) for _ in range(levels)],
        "num_res_blocks": r.randint(1, 2),
        "attention_levels": [r.random() < 0.4 for _ in range(levels)],
        "training": training_of(r),
    }
    section = {"autoencoder": f"runs/{name}", "downsampling": 2, "samples_per_volume": r.randint(1, 8)}
    return {"diffusion": model, "latents": section, "data": data, "stages": {name: first}}


def diffusion(r):
    config = latents(r, training)
    config["diffusion"]["scheduler"] = {"name": r.choice(["ddpm", "rflow", "edm"])}
    return config


def consistency(r):
    config = latents(r, training)
    mode = r.choice(["consistency_distillation", "consistency_training", "improved_consistency_training", "easy_consistency_tuning"])
    config["diffusion"]["consistency"] = {"training_mode": mode}
    if mode == "consistency_distillation":
        name = f"teacher-{r.randint(0, 10**9)}"
        network = {key: value for key, value in config["diffusion"].items() if key not in ("consistency", "training")}
        teacher = {**network, "scheduler": {"name": "edm"}, "training": {"max_steps": 1, "visualize_interval": 0}}
        config["stages"][name] = {"data": config["data"], "latents": config["latents"], "diffusion": teacher, "device": {"name": "flex"}}
        config["diffusion"]["consistency"]["teacher"] = f"runs/{name}"
    return config


def bev(r):
    stages, groups, enlarged = r.randint(1, 3), r.choice([2, 4]), r.randint(1, 2)
    heads = [r.choice([1, 2]) << stage for stage in range(stages)]
    sides = [2 * enlarged * r.randint(4, 12) for _ in range(2)]
    scenes = {
        "count": 10,
        "image_size": [16 * r.randint(1, 5), 16 * r.randint(1, 5)],
        "camera_yaws": r.choice([[0], [-30, 30]]),
        "map": {"x": [-sides[0] / 2, sides[0] / 2], "z": [2, 2 + sides[1]], "cell": 1},
        "num_workers": r.randint(0, 2),
        "prefetch": r.randint(1, 3),
    }
    model = {
        "backbone": {
            "embed_dim": 4 * r.randint(1, 6),
            "depths": [r.randint(1, 2) for _ in range(stages)],
            "num_heads": heads,
            "window_size": r.randint(2, 7),
            "patch_size": r.choice([2, 4]),
        },
        "depth": [2, 2 + sides[1], r.randint(1, 4)],
        "bev_channels": 4 * r.randint(1, 8),
        "channels": 2 * groups * r.randint(1, 4),
        "layers": [r.randint(1, 2), r.randint(1, 2)],
        "strides": [1, enlarged],
        "norm_num_groups": groups,
        "training": training(r),
    }
    if r.random() < 0.3:
        model["out_depth"] = True
    if r.random() < 0.3:
        model["training"]["diffusion_weight"] = 1
    return {"bev": model, "scenes": scenes}


SYSTEMS = [autoencoder, vae3d, vqvae, segmentation, forecaster, operator, super_resolution, diffusion, consistency, bev]


def draw(seed, kind, index):
    """The configuration of this number, and the generator that goes on from it."""
    r = random.Random(f"{seed} {kind} {index}")
    config = SYSTEMS[index % len(SYSTEMS)](r)
    device = {"name": "flex", "precision": r.choice(["f32", "f32", "bf16"])}
    return {"seed": r.randint(0, 999), **config, "device": device}, r


class Command:
    def __init__(self, binary, folder):
        self.binary, self.folder = str(Path(binary).resolve()), Path(folder)
        self.environment = {**os.environ, "RAYON_NUM_THREADS": "2", "XDG_CACHE_HOME": str(folder)}

    def __call__(self, *arguments):
        """The standard output; an error is raised with what was printed."""
        done = subprocess.run([self.binary, *map(str, arguments)], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=1800)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def write(self, name, config):
        """Writes a configuration, as JSON, which is YAML; and those of the runs that it needs."""
        for stage, its in config.pop("stages", {}).items():
            self.write(f"{stage}.yaml", its)
        (self.folder / name).write_text(json.dumps(config))

    def needed(self, config):
        """What a plan needs, with its margin."""
        return json.loads(self("plan", config, "--json"))["needed_bytes"]

    def trained(self, config, run):
        """What a run planned and held."""
        self("train", config, "--out", run, *(["--with-stages"] if "latents" in (self.folder / config).read_text() else []))
        plan = json.loads((self.folder / run / "plan.json").read_text())
        return plan["planned_peak_bytes"], plan["measured_peak_bytes"]


def plan(command, seed, index):
    config, _ = draw(seed, "plan", index)
    name = f"plan-{index}.yaml"
    command.write(name, config)
    needed = command.needed(name)
    planned, measured = command.trained(name, f"plan-{index}")
    return {"planned": planned, "measured": measured, "needed": needed}


def fit(command, seed, index):
    """A budget below the smallest plan is refused; the next one lies between what `fit` says that is and the plain plan."""
    config, r = draw(seed, "fit", index)
    name = f"fit-{index}.yaml"
    section = next(config[key] for key in config if key not in ("seed", "data", "sequence", "latents", "stages", "device"))
    section["training"].pop("use_gradient_checkpointing", None)
    command.write(name, config)
    needed = command.needed(name)
    budget, refused = int(needed * r.uniform(0.55, 1.0)), False
    search = lambda: command("fit", name, "--budget", f"{budget} B", "--out", f"fitted-{index}.yaml")
    try:
        search()
    except RuntimeError as error:
        smallest = re.search(r"less than the ([0-9.]+) MiB of the smallest plan", str(error))
        if not smallest:
            raise
        refused = True
        smallest = (float(smallest[1]) + 0.05) * MIB # it is printed with one decimal
        budget = int(smallest + r.random() ** 2 * max(needed - smallest, 0)) # most of them tight
        search()
    planned, measured = command.trained(f"fitted-{index}.yaml", f"fit-{index}")
    return {"planned": planned, "measured": measured, "needed": needed, "budget": budget, "refused": refused}


def wrong(record):
    """What is wrong with a run, if anything."""
    if "error" in record:
        return record["error"]
    planned, measured = record["planned"], record["measured"]
    if measured > record.get("budget", record["needed"]):
        return f"holds more than its {'budget' if 'budget' in record else 'plan and margin'}: {record}"
    if "budget" not in record and measured > SMALL and abs(planned / measured - 1) > WORST:
        return f"planned {100 * (planned / measured - 1):+.2f} %: {record}"
    return None


def runs(arguments, records):
    """Takes what no record has, and adds a line for each."""
    done = {(one["kind"], one["index"]) for one in records}
    todo = [(fit, "fit", index) for index in range(arguments.fits)] + [(plan, "plan", index) for index in range(arguments.plans)]
    with tempfile.TemporaryDirectory() as folder:
        command = Command(arguments.binary, folder)
        for run, kind, index in todo:
            if (kind, index) in done or index % arguments.of != arguments.part:
                continue
            record = {"kind": kind, "index": index, "seed": arguments.seed, "system": SYSTEMS[index % len(SYSTEMS)].__name__}
            try:
                record |= run(command, arguments.seed, index)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                record["error"] = f"{error}"
            records.append(record)
            if arguments.records:
                with open(arguments.records, "a") as file:
                    file.write(json.dumps(record) + "\n")
            held = "" if "error" in record else f"{record['planned'] / MIB:8.2f} {record['measured'] / MIB:8.2f} of {record.get('budget', record['needed']) / MIB:8.2f}"
            print(f"{kind} {index:2} {record['system']:12} {held}{' !' * bool(wrong(record))}", flush=True)


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    caches = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    sizes = ", ".join(path.read_text().strip() for path in caches)
    return f"{names[0] if names else platform.processor()} (caches {sizes})"


def table(records, seconds, seed):
    ran = lambda kind: [one for one in records if one["kind"] == kind and "error" not in one]
    plans, fits = ran("plan"), ran("fit")
    error = lambda one: one["planned"] / one["measured"] - 1
    shown = lambda errors: f"{100 * max(errors, key=abs):+.2f} % ({len(errors)})" if errors else "none"
    text = [
        "# Random plans and fits against real runs",
        "",
        f"{time.strftime('%Y-%m-%d')}, {processor()}, 2 threads, no processor pinned. `python3 scripts/random_plans.py BINARY --plans "
        f"{len(plans)} --fits {len(fits)} --seed {seed}`, {seconds / 60:.0f} minutes. Peaks of whole runs of three steps: step, data, waiting "
        "batches and the program. In brackets: how many plans.",
        "",
        "| system | plans | peaks | worst, above 10 MiB | worst, below | median | above plan and margin |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for system in [one.__name__ for one in SYSTEMS]:
        mine = [one for one in plans if one["system"] == system]
        if not mine:
            continue
        large, small = ([error(one) for one in mine if (one["measured"] > SMALL) == above] for above in (True, False))
        peaks = [one["measured"] / MIB for one in mine]
        text.append(f"| {system} | {len(mine)} | {min(peaks):.1f} to {max(peaks):.0f} MiB | {shown(large)} | {shown(small)} | "
                    f"{100 * statistics.median(map(error, mine)):+.2f} % | {sum(one['measured'] > one['needed'] for one in mine)} |")
    shares = [one["measured"] / one["budget"] for one in fits] or [0.0]
    text += ["", f"{len(fits)} fitted runs were taken, at budgets from the smallest plan to the plain one ({sum(one['refused'] for one in fits)} of them "
             f"after a budget below the smallest plan, which was refused). {sum(one['measured'] > one['budget'] for one in fits)} held more than the "
             f"budget; the fullest held {100 * max(shares):.1f} % of it, the median {100 * statistics.median(shares):.1f} %.", ""]
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--plans", type=int, default=80)
    parser.add_argument("--fits", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", help="a line of JSON for each run; those that it has are not taken again")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--of", type=int, default=1, help="take part PART of so many")
    parser.add_argument("--write", help="the table")
    arguments = parser.parse_args()
    began = time.monotonic()
    before = Path(arguments.records).read_text().splitlines() if arguments.records and Path(arguments.records).exists() else []
    records = [one for one in map(json.loads, before) if one["seed"] == arguments.seed]
    runs(arguments, records)
    text = table(records, time.monotonic() - began, arguments.seed)
    print("\n" + text)
    if arguments.write:
        Path(arguments.write).write_text(text)
    faults = [f"{one['kind']} {one['index']} {one['system']}: {wrong(one)}\n{json.dumps(draw(one['seed'], one['kind'], one['index'])[0])}"
              for one in records if wrong(one)]
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
