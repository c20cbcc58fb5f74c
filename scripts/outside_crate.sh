#!/usr/bin/env bash
# A crate outside the workspace that depends on the facade alone, with the versions of our lock file: tests/outside, with the stories that
# are tests of the workspace too, tests/stories.
#
#   scripts/outside_crate.sh                                        builds and runs it
#   scripts/outside_crate.sh check --tests --features cuda [FLAG ..]  cargo's command; dependencies are those that a build with these flags left
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD target=${CARGO_TARGET_DIR:-$PWD/target}

copy=$target/outside
rm -rf "$copy"
mkdir -p "$copy"/{tests,examples}
cp -rp tests/outside/{Cargo.toml,src} Cargo.lock "$copy"
cp -rp tests/stories "$copy/tests"
cp -rp examples/train_your_own_model "$copy/examples" # a story reads it
sed -i "s|path = \"../..\"|path = \"$root\"|" "$copy/Cargo.toml"
# The workspace's development profile, and the features that Criterion adds to crates below Burn: or Burn would be built a second time.
criterion=$(grep '^criterion = ' Cargo.toml)
printf '\n[dev-dependencies]\n%s\n' "$criterion" >> "$copy/Cargo.toml"
sed -n '/^\[profile\.dev\]/,/^# A release/p' Cargo.toml | sed '$d' >> "$copy/Cargo.toml"

cd "$copy"
CARGO_TARGET_DIR=$target cargo --offline "${@:-test}"
