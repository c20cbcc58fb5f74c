#!/usr/bin/env bash
# Kills a training run at random times and resumes it each time; the final weights must equal, bit for bit, those of a
# run that was not interrupted. With TERM, INT or USR1 in place of KILL each run saves first, and no step is lost.
#
#     scripts/kill_and_resume.sh [KILLS=20] [SEED=1] [SIGNAL=KILL] [MODEL=autoencoder]
#
# MODEL: autoencoder (two learners, f16), swin (UNETR of labelled volumes), bev (maps of scenes), operator (FNO of flows, rolled and turned),
# super_resolution (SR3 of them), diffusion (its latents in files), or consistency (target, teacher), each after what it needs.
# Needs a built command: LEANBURN=path/to/leanburn, by default target/release/leanburn.
set -euo pipefail
cd "$(dirname "$0")/.."

kills=${1:-20}
RANDOM=${2:-1}
signal=${3:-KILL}
model=${4:-autoencoder}
leanburn=${LEANBURN:-target/release/leanburn}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Settings of `training` that all runs share, behind those of their own: $1 steps, pictures each $2.
training() {
  cat <<YAML
    learning_rate: 1.0e-3
    lr_schedule: cosine
    warmup_steps: 5
    ema_decay: 0.9
    max_steps: $1
    val_interval: 20
    visualize_interval: $2
    checkpoint_interval: 3
YAML
}

# A small first stage, and a model of its latents: $1 is what its scheduler and objective are.
latent_model() {
  cat <<YAML
seed: 7
data:
  phantom: {count: 3, shape: [16, 16, 16], noise: 0.02}
  patch_size: [8, 8, 8]
  classes: [t1, t2]
latents: {autoencoder: $work/first, downsampling: 2, samples_per_volume: 3, folder: $work/latents}
diffusion:
  num_channels: [4, 8]
  num_res_blocks: 1
  num_class_embeds: 3
  scheduler: {name: edm}
  $1
  training:
    batch_size: 2
    num_inference_steps: 2
YAML
  training "${2:-160}" 80
}
first_stage() {
  cat <<YAML
data: {phantom: {count: 3, shape: [16, 16, 16], noise: 0.02}, patch_size: [8, 8, 8]}
autoencoder:
  num_channels: [4, 8]
  num_res_blocks: 1
  norm_num_groups: 2
  training: {max_steps: 2, visualize_interval: 0}
YAML
}

# Flows; $1 is what is seen of them.
flows() {
  cat <<YAML
seed: 7
sequence:
  navier_stokes: {trajectories: 8, steps: 6, size: 16, solver_size: 32, spin_up: 1.0}
  roll: true
  rotate90: true
  val_fraction: 0.3
  $1
YAML
}

before() { # trains what the run needs
  "$leanburn" train "$work/$1.yaml" --out "$work/$1" >"$work/$1.log" 2>&1
}

files=(weights.safetensors)
case $model in
  autoencoder)
    files+=(discriminator.safetensors)
    cat >"$work/config.yaml" <<'YAML'
seed: 7
data:
  phantom: {count: 3, shape: [24, 24, 24], noise: 0.02}
  patch_size: [16, 16, 16]
  flip: [true, false, false]
  intensity_jitter: 0.1
  val_patches: 2
device:
  precision: f16
autoencoder:
  num_channels: [4, 8]
  num_res_blocks: 1
  norm_num_groups: 2
  training:
    batch_size: 1
    gradient_accumulation_steps: 2
    max_grad_norm: 1.0
    adversarial_start_step: 10
    discriminator: {num_layers_d: 1, num_channels: 4}
YAML
    training 240 60 >>"$work/config.yaml"
    ;;
  swin)
    cat >"$work/config.yaml" <<'YAML'
seed: 7
data:
  phantom: {count: 3, shape: [32, 32, 32], noise: 0.02}
  labels: {}
  patch_size: [32, 32, 32]
  flip: [true, false, false]
segmentation:
  num_classes: 3
  model: swin_unetr
  feature_size: 12
  depths: [1, 1, 1, 1]
  window_size: 4
  training:
    batch_size: 1
    gradient_accumulation_steps: 2
YAML
    training 40 40 >>"$work/config.yaml"
    ;;
  bev)
    cat >"$work/config.yaml" <<'YAML'
seed: 7
scenes:
  count: 40
  image_size: [32, 48]
  map: {x: [-12, 12], z: [2, 26], cell: 2}
  val_fraction: 0.1
bev:
  backbone: {embed_dim: 12, depths: [1, 1, 1], num_heads: [1, 2, 4], window_size: 4, patch_size: 2}
  depth: [2, 26, 4]
  bev_channels: 8
  channels: 8
  layers: [1, 1]
  norm_num_groups: 4
  training:
    batch_size: 2
    optimizer: adamw
YAML
    training 120 60 >>"$work/config.yaml"
    ;;
  operator)
    flows 'input_days: 2' >"$work/config.yaml"
    cat >>"$work/config.yaml" <<'YAML'
operator:
  widths: 8
  modes: [4, 4]
  num_layers: 2
  training:
    batch_size: 4
YAML
    training 240 120 >>"$work/config.yaml"
    ;;
  super_resolution)
    flows 'sample_factor: 4' >"$work/config.yaml"
    cat >>"$work/config.yaml" <<'YAML'
super_resolution:
  num_channels: [8, 16]
  num_res_blocks: 1
  training:
    num_inference_steps: 2
    num_samples: 2
    val_windows: 2
    batch_size: 2
YAML
    training 120 60 >>"$work/config.yaml"
    ;;
  diffusion)
    first_stage >"$work/first.yaml"
    before first
    latent_model '' >"$work/config.yaml"
    ;;
  consistency)
    first_stage >"$work/first.yaml"
    before first
    latent_model '' 5 >"$work/teacher.yaml"
    before teacher
    cp "$work/teacher/weights.safetensors" "$work/teacher.safetensors"
    latent_model "consistency: {teacher: $work/teacher, start_ema: 0.9}" >"$work/config.yaml"
    ;;
  *)
    echo "MODEL is autoencoder, swin, bev, operator, super_resolution, diffusion or consistency, not $model" >&2
    exit 2
    ;;
esac

train() { exec "$leanburn" train "$work/config.yaml" --out "$1" "${@:2}" >"$1.log" 2>&1; } # exec: what is killed is the command
steps() { grep -c '"phase":"train"' "$1/metrics.jsonl" 2>/dev/null || true; }

start=$(date +%s%N)
(train "$work/straight")
whole=$((($(date +%s%N) - start) / 1000000))
echo "undisturbed: $(steps "$work/straight") steps in $whole ms"

done_kills=0
while [ "$done_kills" -lt "$kills" ]; do
  resume=()
  [ -d "$work/killed" ] && resume=(--resume)
  train "$work/killed" "${resume[@]}" &
  process=$!
  # a random time; short enough that the run is not over before it has been killed often enough
  sleep "$(awk -v r="$RANDOM" -v w="$whole" -v k="$kills" 'BEGIN { print (0.1 + r / 32768 * 1.6 * w / k) / 1000 + 0.05 }')"
  kill -s "$signal" "$process" 2>/dev/null || true
  code=0
  wait "$process" 2>/dev/null || code=$?
  if [ "$code" = 0 ]; then
    echo "the run ended before signal $((done_kills + 1)); starting it over"
    cmp "$work/straight/weights.safetensors" "$work/killed/weights.safetensors"
    rm -rf "$work/killed"
    continue
  fi
  done_kills=$((done_kills + 1))
  taken=$(steps "$work/killed")
  echo "$signal $done_kills at ${taken:-0} steps: exit code $code"
  if [ "$code" != $((128 + $(kill -l "$signal"))) ] ||
    { [ "$signal" != KILL ] && ! grep -q "^stopped after step ${taken:-0};" "$work/killed.log"; }; then
    cat "$work/killed.log" >&2
    exit 1
  fi
done
(train "$work/killed" --resume)

for file in "${files[@]}"; do
  cmp "$work/straight/$file" "$work/killed/$file"
done
without_seconds() { sed -E 's/"seconds":[0-9.e-]+,?//; s/"memory\.[a-z_]+":[0-9.]+,?//g' "$1/metrics.jsonl"; }
diff <(without_seconds "$work/straight") <(without_seconds "$work/killed") >/dev/null
if [ "$model" = consistency ]; then cmp "$work/teacher.safetensors" "$work/teacher/weights.safetensors"; fi
echo "$model, $signal $done_kills times: weights and metrics are those of the undisturbed run, bit for bit"
