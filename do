#!/usr/bin/env bash
# The one front door: sets up, builds, runs, tests and checks Ashlar. `./do help` lists the commands.
#
# Each command first does what it needs (packages, build, models) and is quick and silent about what is
# already there. Everything it says about that goes to stderr; stdout belongs to the program that runs.
set -euo pipefail
readonly CALLED_FROM=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
readonly ROOT=$PWD
source tools/setup.sh
source tools/setup_cuda.sh

readonly MODELS_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/ashlar/models
readonly DEFAULT_MODEL=$MODELS_DIR/SmolLM2-135M-Instruct.Q4_1.gguf
readonly PRESETS='cpu cuda asan tsan'

usage() {
  cat <<'HELP'
usage: ./do COMMAND [ARGUMENT...]

  run [PROMPT] [FLAG...]   set up, build, fetch the default model, answer the prompt
                           (without one: a chat); flags are those of `ashlar run --help`
  bench KIND [MODEL] [FLAG...]  measure speed (docs/bench.md); KIND: decode, prefill, op;
                           without MODEL the default model
  test [PRESET] [NAME...]  set up, build, fetch the test models, run every test
                           (or the test programs named); PRESET: cpu (default), asan, tsan;
                           cuda: the tests that need an NVIDIA GPU
  build [PRESET] [TARGET...]  set up and build; the program is build/PRESET/ashlar; PRESET cuda
                           (the program and its GPU tests) needs no GPU, and fetches the CUDA
                           compiler where there is none
  setup                    install what is missing, looking anew
  check [PART...]          all that a change must pass; parts: format layers sizes scripts docs cuda
                           asan tsan fuzz
  format                   format the C++ sources in place
  docs                     write the generated parts of README.md and docs/
  verify                   compare the fetched models with the stored reference results
  clean                    remove build/ (fetched models stay)

Models are kept in ${XDG_CACHE_HOME:-~/.cache}/ashlar/models.
HELP
}

is_preset() { [[ " $PRESETS " == *" $1 "* ]]; }

# build PRESET [TARGET...]: configures when needed and lets ninja decide the rest; silent when nothing
# is to do. Without targets everything is built, tests included.
build() {
  local preset=$1 lock
  mkdir -p "build/$preset"
  # Two builds in one folder would spoil each other's log.
  exec {lock}>"build/$preset/.lock"
  flock --nonblock "$lock" || {
    say "Waiting for another build in build/$preset"
    flock "$lock"
  }
  configure_and_build "$@" {lock}>&-
  exec {lock}>&-
}

configure_and_build() {
  local preset=$1 cargo settings log built nvcc=()
  shift
  cargo=$(<build/setup/cargo)
  if [[ $preset == cuda ]]; then
    setup_cuda
    nvcc=("-DASHLAR_NVCC=$(<build/setup/nvcc)")
  fi
  settings="$PWD $MODELS_DIR $cargo ${CXX:-}${nvcc:+ ${nvcc[0]}}"
  log=build/$preset/configure.log
  if [[ ! -e build/$preset/build.ninja || $(cat "build/$preset/settings" 2>/dev/null) != "$settings" ]]; then
    say "Configuring build/$preset"
    # A half-made or moved cache would keep old answers.
    rm -f "build/$preset/CMakeCache.txt"
    cmake --preset "$preset" -DASHLAR_CARGO="$cargo" -DASHLAR_MODELS_DIR="$MODELS_DIR" "${nvcc[@]}" >"$log" 2>&1 || {
      rm -f "build/$preset/build.ninja"
      grep -A6 'CMake Error' "$log" >&2 || tail -n 15 "$log" >&2
      fail "cmake could not configure the build." "All it said: $PWD/$log. \`./do setup\` looks again for what is missing."
    }
    printf '%s\n' "$settings" >"build/$preset/settings"
  fi
  built=build/$preset/.built.$(tr ' /' '+_' <<<"${*:-all}")
  if [[ -e $built || -e build/$preset/.built.all ]]; then
    # Most calls find nothing to do and should say nothing; a longer one should not look like a hang.
    (sleep 2 >/dev/null 2>&1 && say "Building what changed in build/$preset") &
    local notice=$! result=0
    ninja --quiet -C "build/$preset" "$@" 2>&1 | without_chatter >&2 || result=$?
    kill "$notice" 2>/dev/null || true
    wait "$notice" 2>/dev/null || true
    [[ $result -eq 0 ]] || build_failed "$preset"
  else
    say "Building build/$preset (the first time takes minutes)"
    ninja -C "build/$preset" "$@" >&2 || build_failed "$preset"
    touch "$built"
  fi
}

# What ninja and cmake say even when asked to be quiet.
without_chatter() {
  grep -vE '^(ninja: no work to do\.|-- (GLOB mismatch!|Configuring done|Generating done|Build files .*))' || true
}

build_failed() {
  fail "the build failed; the first error is above." "\`./do build $1\` tries again; \`./do clean\` starts from nothing."
}

fetch() { python3 -I -S tools/fetch_models.py --dir "$MODELS_DIR" "$@"; }

command_run() {
  setup build
  build cpu ashlar
  fetch smollm2
  cd "$CALLED_FROM"  # paths in flags are the caller's
  exec "$ROOT/build/cpu/ashlar" run "$DEFAULT_MODEL" "$@"
}

# What comes after the kind is the model unless it is a flag.
command_bench() {
  local kind=${1:-} model=()
  setup build
  build cpu ashlar
  [[ $# -eq 0 ]] || shift
  if [[ -n $kind && $kind != -* && ( $# -eq 0 || $1 == -* ) ]]; then
    fetch smollm2
    model=("$DEFAULT_MODEL")
  fi
  cd "$CALLED_FROM"
  exec "$ROOT/build/cpu/ashlar" bench ${kind:+"$kind"} "${model[@]}" "$@"
}

command_build() {
  local preset=cpu
  if [[ $# -gt 0 ]] && is_preset "$1"; then
    preset=$1
    shift
  fi
  setup build
  # The tests that need no GPU are those of the cpu preset.
  if [[ $preset == cuda && $# -eq 0 ]]; then
    set -- ashlar cuda_tests
  fi
  build "$preset" "$@"
}

# run_tests PRESET [NAME...]: every program goes through CTest; the counts are of test cases.
run_tests() {
  local preset=$1 select=() result=0
  shift
  [[ $# -eq 0 ]] || select=(--tests-regex "^($(IFS='|'; printf '%s' "$*"))\$")
  # CTest leaves the list of an earlier failure in place when everything passes.
  rm -rf "build/$preset/tests/results" "build/$preset/Testing/Temporary/LastTestsFailed.log"
  ctest --test-dir "build/$preset" --parallel "$(nproc)" --output-on-failure --no-tests=error \
    "${select[@]}" || result=$?
  python3 -I -S tools/count_tests.py "build/$preset" || result=1
  return "$result"
}

command_test() {
  local preset=cpu
  if [[ $# -gt 0 ]] && is_preset "$1"; then
    preset=$1
    shift
  fi
  if [[ $preset == cuda ]]; then
    test_cuda "$@"
    return
  fi
  setup test
  build "$preset"
  [[ $preset != cpu ]] || fetch smollm2 gemma3 qwen3-tokenizer
  run_tests "$preset" "$@"
}

# Tests for a GPU must not pass by being skipped: without a device that they can use the command fails.
test_cuda() {
  local answer
  [[ -e ${NVIDIA_DEVICE_FILE:-/dev/nvidiactl} ]] ||
    fail "no CUDA device: /dev/nvidiactl does not exist on this machine." \
      "\`./do test\` runs the CPU tests."
  setup test
  build cuda ashlar cuda_tests
  answer=$(build/cuda/tests/device_cuda_test --gtest_filter='CudaDevice.HasANameForPeopleAndMemory' 2>&1) || true
  if [[ $answer == *'skipped: no CUDA device'* ]]; then
    fail "the CUDA device cannot be used." \
      "$(grep -m1 'skipped: no CUDA device' <<<"$answer" | sed 's/^.*skipped: no CUDA device: //')"
  fi
  run_cuda_tests "$@"
}

# run_cuda_tests [NAME...]: all programs <name>_cuda_test, or those named.
run_cuda_tests() {
  if [[ $# -eq 0 ]]; then
    run_tests cuda '.*_cuda'
  else
    run_tests cuda "$@"
  fi
}

command_verify() {
  setup test
  build cpu
  fetch smollm2 gemma3 qwen3-tokenizer
  build/cpu/tests/end_to_end_test --gtest_filter='RealModel*'
}

# Python packages of tools/python.txt, in a folder of the build.
setup_python() {
  cmp -s tools/python.txt build/python/python.txt && return
  say "Installing with pip into build/python: $(grep -o '^[a-z][^ ]*' tools/python.txt | tr '\n' ' ')"
  rm -rf build/python
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --target build/python -r tools/python.txt >&2 ||
    fail "pip could not install the packages of tools/python.txt." "Its message is above."
  cp tools/python.txt build/python/python.txt
}

# clang_format FLAG...: over every C++ source of the repository.
clang_format() {
  setup_python
  git ls-files -z --cached --others --exclude-standard '*.cc' '*.h' '*.cu' '*.cuh' |
    while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
    xargs -0 -r -n 20 -P "$(nproc)" build/python/clang_format/data/bin/clang-format "$@"
}

command_docs() {
  setup build
  build cpu ashlar
  python3 -I -S tools/generate_docs.py --program build/cpu/ashlar "$@"
}

command_check() {
  setup test
  exec tools/check.sh "$@"
}

main() {
  local command=${1:-help}
  [[ $# -eq 0 ]] || shift
  case $command in
    run | bench | test | build | check | docs | verify) "command_$command" "$@" ;;
    setup)
      rm -f build/setup/*.done
      setup test
      say "Everything that a build and its tests need is here."
      ;;
    format) setup test && clang_format -i ;;
    clean) rm -rf build ;;
    help | --help | -h) usage ;;
    *)
      fail "there is no command '$command'." "\`./do help\` lists the commands."
      ;;
  esac
}

# tools/check.sh sources this file for its functions.
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
