#!/usr/bin/env bash
# What a machine with a graphics card has to say: parity with the CPU, the ladder of memory savers, the same card under
# PyTorch. Writes benches/results/gpu-*.md.
#
#   scripts/gpu/check.sh [DEVICE [OPTION ...]]    cuda, vulkan, wgpu, metal or rocm; by default the best that the binary has;
#                                                 options of benches/peers/gpu_autoencoder.py, such as --shape 128 128 64
#
# With LEANBURN=PATH it runs a binary that is there already, and needs no Rust. OPERATIONS=PATH and FIXTURES=PATH are then its
# test programs, of leanburn-ops and of leanburn-nn: where they are is what this prints in the end.
# `cargo test --workspace --features vulkan --test operations --test gpu --no-run`
set -euo pipefail
cd "$(dirname "$0")/../.."

leanburn=${LEANBURN:-}
device=${1:-}
if [ $# -gt 0 ]; then shift; fi
python=${PYTHON:-python3}

if [ -z "$leanburn" ]; then
  feature=${device%%:*}
  feature=${feature:-vulkan}
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

echo "== operations, fixtures and memory compared with the CPU's"
export LEANBURN_TEST_DEVICE=${device%%:*}
if [ -z "${LEANBURN:-}" ]; then
  cargo test --workspace --locked --features "$feature" --test operations -- --test-threads=1 gpu::
  cargo test --workspace --locked --features "$feature" --test gpu --test gpu_memory -- --test-threads=1
else
  left_out() { echo "left out: $1=PATH names its test program"; }
  if [ -n "${OPERATIONS:-}" ]; then "$OPERATIONS" --test-threads=1 gpu::; else left_out OPERATIONS; fi
  # Fixtures are named from the folder of their crate.
  if [ -n "${FIXTURES:-}" ]; then (cd crates/leanburn-nn && "$FIXTURES" --test-threads=1); else left_out FIXTURES; fi
fi

echo "== a training step compared with the CPU's"
"$leanburn" devices --check "$device" | tee "$results/gpu-parity-$card-$stamp.md"

echo "== memory and speed compared with PyTorch's"
"$python" benches/peers/gpu_autoencoder.py --leanburn "$leanburn" --device "$device" \
  --out "$results/gpu-autoencoder-$card-$stamp.md" "$@"
