#!/usr/bin/env bash
# What a machine with a graphics card has to say: parity with the CPU, the ladder of memory savers, the same card under
# PyTorch. Writes benches/results/gpu-*.md.
#
#   scripts/gpu/check.sh [DEVICE]          cuda, vulkan, wgpu, metal or rocm; by default the best that the binary has
#
# With LEANBURN=PATH it runs a binary that is there already, and needs no Rust; with OPERATIONS=PATH also the test program of
# the operations (`cargo test -p leanburn-ops --features vulkan --test operations --no-run` prints where it is).
set -euo pipefail
cd "$(dirname "$0")/../.."

leanburn=${LEANBURN:-}
device=${1:-}
python=${PYTHON:-python3}

if [ -z "$leanburn" ]; then
  feature=${device:-vulkan}
  cargo build --release --locked --features "$feature"
  leanburn=${CARGO_TARGET_DIR:-target}/release/leanburn
fi
if [ -z "$device" ]; then
  device=$("$leanburn" devices --best)
fi

results=benches/results
stamp=$(date +%F)
echo "== devices"
"$leanburn" devices
card=$("$leanburn" devices --name "$device" | tr -c 'A-Za-z0-9\n' '-' | tr 'A-Z' 'a-z' | sed 's/--*/-/g; s/^-//; s/-$//')

echo "== operations beside the CPU's"
if [ -n "${OPERATIONS:-}" ]; then
  "$OPERATIONS" gpu:: --test-threads=1
elif [ -z "${LEANBURN:-}" ]; then
  cargo test --workspace --locked --features "$feature" --test operations gpu:: -- --test-threads=1
else
  echo "left out: name the test program by OPERATIONS=PATH"
fi

echo "== a training step beside the CPU's"
"$leanburn" devices --check "$device" | tee "$results/gpu-parity-$card-$stamp.md"

echo "== memory and speed beside PyTorch's"
"$python" benches/peers/gpu_autoencoder.py --leanburn "$leanburn" --device "$device" \
  --out "$results/gpu-autoencoder-$card-$stamp.md"
