#!/usr/bin/env bash
# Runs the tests of the kernels under valgrind: nothing is read or written outside of the slices, or read before it is written.
#
# Buffers are not filled before they are written (LEANBURN_UNFILLED), as tests otherwise do. The tests left out go over all bit patterns or
# over random shapes; what they reach is reached by the named shapes too. valgrind has no AVX-512: the kernels take AVX2 there by themselves.
#
#   scripts/valgrind_kernels.sh [TARGET_DIR]     with the newest tests that are built there, else cargo builds them
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null; then
  echo "valgrind is not there: apt-get install valgrind" >&2
  exit 1
fi
if [ $# -gt 0 ]; then
  binary=$(find "$1/debug/deps" -maxdepth 1 -name 'leanburn_kernels-*' -type f -executable -printf '%T@ %p\n' | sort -n | tail -1 | cut -d ' ' -f 2)
else
  binary=$(cargo test --workspace --locked --lib --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*leanburn_kernels.*\))$/\1/p')
fi
LEANBURN_UNFILLED=1 PROPTEST_CASES=2 valgrind --quiet --error-exitcode=9 "$binary" \
  --skip what_is_left_out --skip every_shape --skip float16_converts --skip bfloat16_rounds --skip all_bit_patterns
