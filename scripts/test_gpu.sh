#!/usr/bin/env bash
# The tests on a GPU: operations, fixtures, memory, the command. Without a card: eval "$(scripts/swiftshader.sh)" before.
#
#   scripts/test_gpu.sh [DEVICE]      vulkan (default) or wgpu, in one build
#
# For `wgpu` to be WebGPU's language on a device that also takes SPIR-V: eval "$(scripts/swiftshader.sh wgpu)" before.
# Burn's kernels are not tuned: to compile and try a dozen for each shape takes a stand-in for a card minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

LEANBURN_TEST_DEVICE=${1:-vulkan} cargo test --workspace --locked --no-default-features --features vulkan,wgpu --no-fail-fast \
  --test operations --test gpu --test gpu_memory
