#!/usr/bin/env bash
# Runs the tests of the kernels under valgrind: nothing is read or written outside of the slices, or read before it is written.
#
# Buffers are not filled before they are written (LEANBURN_UNFILLED), as tests otherwise do. The tests left out go over all bit patterns or
# random shapes, or measure errors, rates or workspaces; what they reach is reached by the named shapes too. Convolutions are not compared with plain loops,
# which would take most of the time: what they write is read. valgrind has no AVX-512: the kernels take AVX2 there. AMX, which tests emulate, is slow
# there, too: products of tiles alone take it.
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
left_out='what_is_left_out|every_shape|float16_converts|bfloat16_rounds|all_bit_patterns|the_sums_stay_exact|blocks_do_not_change|a_large_mean_costs|rates_are_numbers'

export LEANBURN_UNFILLED=1 PROPTEST_CASES=2
checked() {
  valgrind --quiet --error-exitcode=9 "$binary" "$@"
}
# Two at a time: valgrind runs all threads of a program on one core. Every second test, so that a module is spread over both.
part() {
  mapfile -t tests < <("$binary" --list 2>/dev/null | sed -n 's/: test$//p' | grep -vE "$left_out" | awk "NR % 2 == $1")
  LEANBURN_NOT_EMULATED=1 checked --exact "${tests[@]}"
}
checked tile_products
part 0 &
first=$!
part 1
wait $first
