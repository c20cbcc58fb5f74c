#!/usr/bin/env bash
# The tests that need a GPU: operations, fixtures, memory, the command. Without a card: eval "$(scripts/swiftshader.sh)" before.
#
#   scripts/test_gpu.sh [DEVICE] [FLAG ...]      vulkan (default) or wgpu, in one build; flags such as --no-run go to cargo
#
# Both are one runtime with two languages of kernels: what depends on the runtime alone (its pool, its limits, stepping down) is left
# to Vulkan's run on the stand-in.
# For `wgpu` to be WebGPU's language on a device that also takes SPIR-V: eval "$(scripts/swiftshader.sh wgpu)" before.
# Burn's kernels are not tuned: to compile and try a dozen for each shape takes a stand-in for a card minutes.
# SwiftShader needs CubeCL's compiler repaired; cards do not. LEANBURN_AS_PUBLISHED=1 takes it as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

repaired=()
if [[ "${VK_ICD_FILENAMES:-}" == *swiftshader* && -z "${LEANBURN_AS_PUBLISHED:-}" ]]; then
  read -r -a repaired <<< "$(scripts/repaired_spirv.sh)"
fi
of_runtime=()
if [[ "${1:-vulkan}" = wgpu && "${VK_ICD_FILENAMES:-}" == *swiftshader* ]]; then
  of_runtime=(--skip gpu::a_run_that_does_not_fit_steps_down --skip gpu::a_plan_is_what_the_pool_holds
    --skip gpu::a_tensor_that_the_device_cannot_make --skip gpu::a_streamed_level_holds)
fi
LEANBURN_TEST_DEVICE=${1:-vulkan} cargo "${repaired[@]}" test --workspace --locked --no-default-features \
  --features vulkan,wgpu --no-fail-fast --test operations --test gpu --test gpu_memory "${@:2}" -- gpu:: "${of_runtime[@]}"
