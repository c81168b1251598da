#!/usr/bin/env bash
# What a change must pass beside its tests; called by `./do check [PART...]`. Every part runs even when
# an earlier one failed, so that one call shows all there is to mend; a table of times comes at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly SELF=tools/check.sh
source ./do

readonly PARTS='format layers sizes scripts docs cuda asan tsan fuzz'

check_format() { clang_format --dry-run -Werror; }
check_layers() { python3 -I -S tools/check_layers.py .; }
check_sizes() { python3 -I -S tools/check_sizes.py .; }
check_scripts() { python3 -m unittest discover --start-directory tools/tests --pattern '*_test.py'; }
check_docs() { command_docs --check; }
# Compiles the CUDA backend, which needs no GPU, and lists its tests: as skipped where there is none.
check_cuda() {
  build cuda ashlar cuda_tests
  run_cuda_tests
}
check_asan() { sanitized asan; }
# Only where threads meet: the pool, the kernels that cut work for it, and what runs them.
check_tsan() { sanitized tsan device kernels nn models engine serve; }
# A minute over all targets (docs/fuzzing.md); a longer run is fuzz/run.py with --seconds.
check_fuzz() {
  setup fuzz
  build fuzz fuzzers
  python3 -I -S fuzz/run.py --build build/fuzz --seconds 60
}

# sanitized PRESET [LAYER...]: builds and runs all test programs, or those of the layers named. A fault
# in any thread ends the program; leaks count as faults.
sanitized() {
  local preset=$1
  shift
  build "$preset" "${@/%/_test}"
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 run_tests "$preset" "$@"
}

# Each part is a process of its own, since `if` and `||` would switch errexit off inside a function.
run_part() {
  local start=$SECONDS result=0
  say "== check: $1"
  "$SELF" --part "$1" || result=$?
  times+=("$(printf '%-8s %5d s  %s' "$1" $((SECONDS - start)) "$([[ $result -eq 0 ]] && echo passed || echo FAILED)")")
  if [[ $result -eq 0 ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

main_check() {
  if [[ ${1:-} == --part ]]; then
    "check_$2"
    return
  fi
  local part parts=("$@") passed=0 failed=0 times=()
  [[ $# -gt 0 ]] || read -ra parts <<<"$PARTS"
  for part in "${parts[@]}"; do
    [[ " $PARTS " == *" $part "* ]] || fail "there is no check '$part'." "There are: $PARTS"
  done
  for part in "${parts[@]}"; do
    run_part "$part"
  done
  printf 'Checks by time:\n'
  printf '  %s\n' "${times[@]}"
  printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
  [[ $failed -eq 0 ]]
}

main_check "$@"
