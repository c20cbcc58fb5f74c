#!/usr/bin/env bash
# Builds and runs tests/outside: a crate of somebody else, that depends on the facade alone, with the versions of our lock file.
#
#   scripts/outside_crate.sh                                  on its own
#   scripts/outside_crate.sh --features vulkan,wgpu [FLAG ..] with all that a test build with these flags has left
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD target=${CARGO_TARGET_DIR:-$PWD/target}

# In a workspace of its own all our crates would be built a second time, as Cargo tells crates apart by where they lie in theirs. So it is one
# more member of a workspace that is ours by links, with the features that Criterion adds to crates below Burn.
copy=$target/outside
rm -rf "$copy"
mkdir -p "$copy/outside"
find "$root" -mindepth 1 -maxdepth 1 ! -name '.*' ! -name target ! -name Cargo.toml ! -name Cargo.lock -exec ln -s {} "$copy" \;
cp -p Cargo.lock "$copy"
sed 's|^members = .*|members = ["crates/*", "outside"]|; /^exclude = /d' Cargo.toml > "$copy/Cargo.toml"
cp -rp tests/outside/{src,tests} "$copy/outside"
sed 's|path = "../.."|path = ".."|; /^\[workspace\]/d' tests/outside/Cargo.toml > "$copy/outside/Cargo.toml"
printf '\n[dev-dependencies]\ncriterion.workspace = true\n' >> "$copy/outside/Cargo.toml"

cd "$copy"
CARGO_TARGET_DIR=$target cargo test --offline --package outside "$@"
