#!/usr/bin/env python3
"""Several processes under MPI: the same weights as one process, sums of known size, ranks that die or panic, stages, runs that go on.

    scripts/check_ranks.py LEANBURN [--kills 3] [--steps 50] [--mpirun mpirun.mpich]

LEANBURN is the command, built with the feature `mpi`. Loopback alone is used. `mpirun` is that of the MPI that it was
built with (`MPICC=mpicc.mpich cargo build ...` for another than the default one). Prints a line for each part and ends
with an error at the first that fails.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = """\
seed: 3
autoencoder:
  num_channels: [8, 16]
  num_res_blocks: 1
  norm_num_groups: 4
  attention_levels: [false, false]
  training:
    gradient_accumulation_steps: 4
    max_grad_norm: 1.0
    ema_decay: 0.9
    max_steps: {steps}
    val_interval: 1000
    visualize_interval: 0
    checkpoint_interval: 5
data: {{phantom: {{count: 12, shape: 16}}, patch_size: 16}}
device: {{name: flex}}
"""

# A teacher and a student of the latents of the autoencoder above, each a stage of the student's training.
STAGE = """\
seed: 3
data: {{phantom: {{count: 12, shape: 16}}, patch_size: 16}}
latents: {{autoencoder: {folder}/ranks, downsampling: 2, samples_per_volume: 1}}
diffusion:
  num_channels: [4, 8]
  num_res_blocks: 1
  num_head_channels: 4
  {key}
  training: {{batch_size: 1, gradient_accumulation_steps: 2, max_steps: 4, visualize_interval: 0}}
device: {{name: flex}}
"""

# Rank 1 cannot start the threads that it is told to, and panics.
PANICS = """\
if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then ulimit -v 2000000; export RAYON_NUM_THREADS=4000; fi
exec "$0" "$@"
"""

IN_ORDER = ["--set", "autoencoder.training.deterministic_ranks=true"]
SHARED_STEPS = 8
SHARED = [
    *["--set", "autoencoder.training.volume_ranks=2", "--set", "autoencoder.training.stream=[encoder.level_0, decoder.level_0]"],
    *["--set", f"autoencoder.training.max_steps={SHARED_STEPS}"],
]
SPLIT = [*IN_ORDER, "--set", "autoencoder.training.shard_optimizer=true"]

# As root, in a container, without a network or shared memory that processes may read of each other.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "RAYON_NUM_THREADS": "1",
}


class Runs:
    def __init__(self, leanburn, folder, steps, mpirun):
        self.leanburn, self.folder, self.mpirun = leanburn, folder, mpirun
        keys = {"teacher": "scheduler: {name: edm}", "student": f"consistency: {{teacher: {folder}/teacher}}"}
        configs = {name: STAGE.format(folder=folder, key=key) for name, key in keys.items()}
        for name, text in (configs | {"ranks": CONFIG.format(steps=steps)}).items():
            (folder / f"{name}.yaml").write_text(text)

    def command(self, ranks, name, *arguments, config="ranks", shell=()):
        launcher = [self.mpirun, "-n", str(ranks)] if ranks > 1 else []
        config = self.folder / f"{config}.yaml"
        return [*launcher, *shell, self.leanburn, "train", config, "--out", self.folder / name, *arguments]

    def start(self, ranks, name, *arguments, environment=ENVIRONMENT, **how):
        command = self.command(ranks, name, *arguments, **how)
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def train(self, ranks, name, *arguments):
        process = self.start(ranks, name, *arguments)
        output, _ = process.communicate(timeout=120)
        if process.returncode != 0:
            sys.exit(f"{ranks} ranks ended with code {process.returncode}:\n{output}")
        return self.weights(name)

    def weights(self, name):
        return (self.folder / name / "weights.safetensors").read_bytes()

    def losses(self, name):
        lines = map(json.loads, (self.folder / name / "metrics.jsonl").read_text().splitlines())
        return [line["values"]["reconstruction"] for line in lines if line["phase"] == "train"]

    def steps(self, name):
        metrics = self.folder / name / "metrics.jsonl"
        return sum('"train"' in line for line in metrics.read_text().splitlines()) if metrics.exists() else 0


def expect(what, holds, otherwise=""):
    if not holds:
        sys.exit(f"FAILED: {what}. {otherwise}")
    print(f"{what}", flush=True)


def processes_of(leanburn):
    """The ranks that are running."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if command[:2] == [os.fsencode(leanburn), b"train"]:
            found.append(int(folder.name))
    return found


def ended(process, seconds, what):
    """What a job printed that has to end by itself."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        process.terminate()
        sys.exit(f"FAILED: {what}: it goes on after {seconds} s:\n{process.communicate()[0]}")


def panic(runs):
    """A rank that panics ends the others, which wait for it."""
    process = runs.start(2, "panics", shell=["sh", "-c", PANICS])
    output = ended(process, 60, "a rank panics")
    expect(f"a rank panics: the job ends with code {process.returncode}",
           process.returncode != 0 and "panicked" in output and not processes_of(runs.leanburn), output)


def stages(runs):
    """Three stages by one command: a signal to one rank ends the first of them on all, and the command goes on from there."""
    command = (2, "student", "--with-stages")
    process = runs.start(*command, config="student")
    while runs.steps("ranks") < 3 and process.poll() is None:
        time.sleep(0.01)
    victims = processes_of(runs.leanburn)
    if process.poll() is not None or len(victims) < 2:
        sys.exit(f"FAILED: {len(victims)} ranks are running:\n{process.stdout.read()}")
    os.kill(victims[-1], signal.SIGUSR1)
    output = ended(process, 60, "a signal to one rank in the first of three stages")
    expect("a signal to one rank in the first of three stages ends all of them there",
           process.returncode != 0 and not any((runs.folder / name).exists() for name in ("teacher", "student")), output)
    process = runs.start(*command, config="student")
    output = ended(process, 120, "2 ranks train three stages")
    expect("2 ranks train three stages by one command",
           process.returncode == 0 and len(runs.weights("student")) > 0 and runs.steps("teacher") == runs.steps("student") == 4, output)


def kill_one(runs, straight, ranks, then, round_, draw):
    """Kills a random rank at a random time; the job must end, and go on with other ranks as if nothing had been."""
    name, arguments = f"killed-{round_}", [SPLIT, IN_ORDER][round_ % 2]
    process = runs.start(ranks, name, *arguments)
    at = draw.randrange(2, 30)
    while runs.steps(name) < at and process.poll() is None:
        time.sleep(0.01)
    victims = processes_of(runs.leanburn)
    if process.poll() is not None or len(victims) < ranks:
        sys.exit(f"FAILED: {len(victims)} ranks are running:\n{process.stdout.read()}")
    os.kill(draw.choice(victims), signal.SIGKILL)
    began = time.monotonic()
    output, _ = process.communicate(timeout=60)
    seconds = time.monotonic() - began
    expect(f"a rank of {ranks} killed after step {at}: the job ends {seconds:.1f} s later with code {process.returncode}",
           process.returncode != 0 and seconds < 10 and not processes_of(runs.leanburn), output)
    resumed = runs.train(then, name, "--resume", *arguments)
    expect(f"... and {then} ranks go on to the same weights, bit for bit", resumed == straight)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leanburn", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mpirun", default="mpirun")
    arguments = parser.parse_args()
    # In memory: ranks that poll leave little of two cores, and each write to a disk that is waited for then takes its turn.
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        runs = Runs(arguments.leanburn, Path(folder), arguments.steps, arguments.mpirun)
        one = runs.train(1, "one")
        four = runs.train(4, "four")
        expect(f"4 ranks after {arguments.steps} steps: the weights of one process that accumulates 4, bit for bit", four == one)
        in_order = runs.train(2, "in-order", *IN_ORDER)
        expect("2 ranks with deterministic_ranks: the same, bit for bit", in_order == one)
        split = runs.train(2, "split", *SPLIT)
        expect("2 ranks with shard_optimizer: the same, bit for bit", split == one)
        alone = runs.losses("one")
        for ranks in (2, 4):
            # dozens of exchanges in each step: on a busy machine each of them waits for the others' turn
            runs.train(ranks, f"shared-{ranks}", *SHARED)
            shared = runs.losses(f"shared-{ranks}")
            worst = max(abs(found - expected) / expected for found, expected in zip(shared, alone[:SHARED_STEPS], strict=True))
            expect(f"{ranks} ranks, two to a volume, {SHARED_STEPS} steps: the losses of one process within {worst:.1e}", worst < 1e-4)
        process = runs.start(3, "uneven")
        output, _ = process.communicate(timeout=60)
        expect("3 ranks for 4 micro-batches are rejected, once", process.returncode == 2 and output.count("multiple of 3") == 1, output)
        # as the launcher of another MPI starts a process
        process = runs.start(1, "other-launcher", environment=ENVIRONMENT | {"PMI_SIZE": "2"})
        output, _ = process.communicate(timeout=60)
        expect("a process of two that MPI sees one of is rejected, before it writes anything",
               process.returncode == 2 and "sees 1" in output and not (runs.folder / "other-launcher").exists(), output)
        process = runs.start(2, "stopped")
        while runs.steps("stopped") < 3 and process.poll() is None:
            time.sleep(0.01)
        os.kill(processes_of(runs.leanburn)[-1], signal.SIGUSR1)
        process.communicate(timeout=60)
        taken = runs.steps("stopped")
        resumed = runs.train(4, "stopped", "--resume")
        expect(f"a signal to one rank stops all after {taken} steps, and they go on", taken < arguments.steps and len(resumed) == len(one))
        panic(runs)
        stages(runs)
        draw = random.Random(arguments.seed)
        for round_ in range(arguments.kills):
            kill_one(runs, one, 4, [4, 2, 1][round_ % 3], round_, draw)


main()
