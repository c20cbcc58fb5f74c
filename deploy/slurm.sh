#!/usr/bin/env bash
# A Slurm job of several processes that train one model, a card for each; it goes on by itself after its time limit.
#
#   sbatch deploy/slurm.sh CONFIG.yaml
#
#SBATCH --job-name=leanburn
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-task=1  # each task sees its own card alone
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

config=${1:?"usage: sbatch deploy/slurm.sh CONFIG.yaml"}
run=runs/$(basename "$config" .yaml)

# Five minutes ahead of the limit the step gets SIGUSR1: the run ends its step, saves, and exits with 128 + 10.
export RAYON_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
resume=()
if [ -d "$run" ]; then resume=(--resume); fi
code=0
srun --mpi=pmix leanburn train "$config" --out "$run" "${resume[@]}" || code=$?
if [ "$code" = 138 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
