#!/usr/bin/env bash
# Builds and runs tests/outside: a crate outside the workspace that depends on the facade alone, with the versions of our lock file.
#
#   scripts/outside_crate.sh                                  on its own
#   scripts/outside_crate.sh --features vulkan,wgpu [FLAG ..] with the dependencies that a test build with these flags has left
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD target=${CARGO_TARGET_DIR:-$PWD/target}

copy=$target/outside
rm -rf "$copy"
mkdir -p "$copy"
cp -rp tests/outside/{Cargo.toml,src,tests} Cargo.lock "$copy"
sed -i "s|path = \"../..\"|path = \"$root\"|" "$copy/Cargo.toml"
# The workspace's development profile, and the features that Criterion adds to crates below Burn: or Burn would be built a second time.
criterion=$(grep '^criterion = ' Cargo.toml)
printf '\n[dev-dependencies]\n%s\n' "$criterion" >> "$copy/Cargo.toml"
sed -n '/^\[profile\.dev\]/,/^# A release/p' Cargo.toml | sed '$d' >> "$copy/Cargo.toml"

cd "$copy"
CARGO_TARGET_DIR=$target cargo test --offline "$@"
