#!/usr/bin/env bash
# Runs the tests of the kernels as a 64-bit ARM processor would, where they take NEON: cross-compiled, and run by QEMU.
#
# The compiler is Debian's newest (rustc-web), since it comes with a standard library for ARM. It is unpacked into a folder, as it cannot be installed beside
# rustup. Not in the check: from nothing it takes 5 to 10 minutes on two cores, half of them to build.
#
#   scripts/neon_kernels.sh [FILTER...]
set -euo pipefail
cd "$(dirname "$0")/.."

for needed in aarch64-linux-gnu-gcc qemu-aarch64; do
  if ! command -v $needed >/dev/null; then
    echo "$needed is not there: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" >&2
    exit 1
  fi
done

cache=${XDG_CACHE_HOME:-$HOME/.cache}/leanburn-aarch64
compiler=$cache/compiler
if [ ! -x "$compiler/usr/bin/rustc" ]; then
  rm -rf "$cache" && mkdir -p "$cache/lists/partial" "$cache/packages"
  export APT_CONFIG=$cache/apt.conf
  cat >"$APT_CONFIG" <<CONFIGURATION
APT::Architecture "amd64";
APT::Architectures { "amd64"; "arm64"; };
Dir::State::Lists "$cache/lists";
Dir::Cache "$cache";
CONFIGURATION
  needs() { apt-cache depends "$1" | sed -n "s/.*Depends: \($2[0-9.]*\)$/\1/p"; }
  apt-get -qq update
  library=$(needs libstd-rust-web-dev libstd-rust-web-)
  (cd "$cache/packages" && apt-get -qq download rustc-web libstd-rust-web-dev libstd-rust-web-dev:arm64 "$library" "$(needs "$library" libllvm)")
  for package in "$cache"/packages/*.deb; do
    dpkg -x "$package" "$cache/unpacked"
  done
  mv "$cache/unpacked" "$compiler"
fi

printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$compiler/usr/lib/x86_64-linux-gnu" "$compiler/usr/bin/rustc" >"$cache/rustc"
chmod +x "$cache/rustc"
export RUSTC=$cache/rustc CARGO_TARGET_DIR=$cache/target
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
cargo test --package leanburn-kernels --lib --target aarch64-unknown-linux-gnu --locked -- "$@"
