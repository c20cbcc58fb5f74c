#!/usr/bin/env bash
# The tests on a GPU: operations, fixtures, memory, the command. Without a card: eval "$(scripts/swiftshader.sh)" before.
#
#   scripts/test_gpu.sh [FEATURE]      vulkan (default) or wgpu
set -euo pipefail
cd "$(dirname "$0")/.."

feature=${1:-vulkan}
cargo test --workspace --locked --features "$feature" --test operations gpu::
cargo test --workspace --locked --features "$feature" --test gpu --test gpu_memory
