#!/usr/bin/env bash
# Runs the tests of the kernels under valgrind: nothing is read or written outside of the slices, or read before it is written.
#
# In a release build, as a debug build fills buffers before they are written. The tests left out go over all bit patterns or over random
# shapes; what they reach is reached by the named shapes too. valgrind has no AVX-512: the kernels take AVX2 there by themselves.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null; then
  echo "valgrind is not there: apt-get install valgrind" >&2
  exit 1
fi
binary=$(cargo test -p leanburn-kernels --release --locked --lib --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')
PROPTEST_CASES=2 valgrind --quiet --error-exitcode=9 "$binary" \
  --skip every_shape --skip float16_converts --skip bfloat16_rounds --skip all_bit_patterns
