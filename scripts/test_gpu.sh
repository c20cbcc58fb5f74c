#!/usr/bin/env bash
# The tests on a GPU: operations, fixtures, memory, the command. Without a card: eval "$(scripts/swiftshader.sh)" before.
#
#   scripts/test_gpu.sh [FEATURE]      vulkan (default) or wgpu
#
# Burn's kernels are not tuned: to compile and try a dozen for each shape takes a stand-in for a card minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --workspace --locked --no-default-features --features "${1:-vulkan}" --no-fail-fast \
  --test operations --test gpu --test gpu_memory
