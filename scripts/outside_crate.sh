#!/usr/bin/env bash
# Builds and runs tests/outside: a crate outside the workspace that depends on the facade alone, with the versions of our lock file.
#
#   scripts/outside_crate.sh                                  on its own
#   scripts/outside_crate.sh --features vulkan,wgpu [FLAG ..] with the dependencies that a build with these flags has left
set -euo pipefail
cd "$(dirname "$0")/../tests/outside"

cp ../../Cargo.lock Cargo.lock
# The workspace's development profile, or every dependency would be built a second time.
profile=$(mktemp --suffix .toml)
trap 'rm -f "$profile"' EXIT
sed -n '/^\[profile\.dev\]/,/^\[profile\.release\]/p' ../../Cargo.toml | sed '$d' > "$profile"
cargo test --offline --config "$profile" "$@"
