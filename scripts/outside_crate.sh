#!/usr/bin/env bash
# Builds and runs tests/outside: a crate outside the workspace that depends on the facade alone, with the versions of our lock file.
set -euo pipefail
cd "$(dirname "$0")/../tests/outside"

cp ../../Cargo.lock Cargo.lock
cargo test --offline
