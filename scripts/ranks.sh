#!/usr/bin/env bash
# Builds the command with MPI beside a test build, and trains with several processes over the loopback: scripts/check_ranks.py.
#
#   scripts/ranks.sh [CARGO'S FLAG ...] [-- FLAG OF check_ranks.py ...]     flags such as --config as the test build had them
set -euo pipefail
cd "$(dirname "$0")/.."

flags=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  flags+=("$1")
  shift
done
# An integration test brings the command with it, with the dependencies' features of a test build.
cargo "${flags[@]}" test --no-run --workspace --locked --no-default-features --features vulkan,wgpu,leanburn-cli/mpi --test calc
target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$target/mpi"
cp "$target/debug/leanburn" "$target/mpi/leanburn" # the next build without MPI replaces the other
python3 scripts/check_ranks.py "$target/mpi/leanburn" "${@:2}"
