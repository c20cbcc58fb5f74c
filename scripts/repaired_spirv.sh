#!/usr/bin/env bash
# CubeCL's SPIR-V compiler with one line repaired, for tests on a Vulkan device without VK_KHR_workgroup_memory_explicit_layout
# (SwiftShader). docs/upstream/cubecl-spirv.md says what is wrong. Nothing but such a test build takes it.
#
#   cargo $(scripts/repaired_spirv.sh) test --features vulkan ...
#
# Copies the crate out of cargo's own download, repairs the copy, and prints the flags with which cargo builds that copy.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fetch --locked --quiet
manifest=$(cargo metadata --format-version 1 --locked --all-features |
  grep -o '"manifest_path":"[^"]*/cubecl-spirv-[^"]*/Cargo.toml"' | cut -d '"' -f 4)
copy=${CARGO_TARGET_DIR:-$PWD/target}/repaired/$(basename "$(dirname "$manifest")")

if [ ! -e "$copy/.repaired" ]; then
  rm -rf "$copy"
  mkdir -p "$(dirname "$copy")"
  cp -r "$(dirname "$manifest")" "$copy"
  printf '\n[workspace]\n' >> "$copy/Cargo.toml" # it is no part of ours
  file=$copy/src/ops/memory.rs
  # `lower_shared_implicit`: the variable has the type of the array, its address that of the pointer; they are exchanged.
  sed -i -e '/^fn lower_shared_implicit/,/^}/ {
      s/GlobalVariableOp::new(ctx, value_ty, /GlobalVariableOp::new(ctx, ty, /
      s/AddressOfOp::new(ctx, ty, name)/AddressOfOp::new(ctx, value_ty, name)/
    }' "$file"
  changed=$(diff "$(dirname "$manifest")/src/ops/memory.rs" "$file" | grep -c '^>' || true)
  if [ "$changed" != 2 ]; then
    echo "repaired_spirv.sh: expected to change 2 lines of $file, changed $changed: check whether CubeCL has fixed it" >&2
    exit 1
  fi
  touch "$copy/.repaired"
fi
echo "--config paths=['$copy']"
