# Finds or installs the CUDA compiler; sourced by ./do after tools/setup.sh.
#
# A toolkit of the system is used when it is new enough; else the packages of tools/cuda.txt are put into
# build/cuda_toolkit, where they need no root, no driver and no GPU. It never changes a system toolkit.

readonly MIN_CUDA_MAJOR=13
readonly CUDA_TOOLKIT=build/cuda_toolkit
readonly CUDA_TOOLKIT_NVCC=$CUDA_TOOLKIT/nvidia/cu13/bin/nvcc

# nvcc_version PATH: prints MAJOR.MINOR; fails when it cannot be run.
nvcc_version() {
  local text
  text=$("$1" --version 2>/dev/null) || return 1
  [[ $text =~ release\ ([0-9]+\.[0-9]+) ]] && printf '%s\n' "${BASH_REMATCH[1]}"
}

# find_system_nvcc: prints the path of the first nvcc that is new enough.
find_system_nvcc() {
  local candidate version
  while read -r candidate; do
    version=$(nvcc_version "$candidate") || continue
    if ((${version%%.*} >= MIN_CUDA_MAJOR)); then
      printf '%s\n' "$candidate"
      return
    fi
    say "do: $candidate is of CUDA $version; $MIN_CUDA_MAJOR.0 or newer is needed, so it is not used"
  done < <(type -aP nvcc; printf '%s\n' "${CUDA_FOLDER:-/usr/local/cuda}/bin/nvcc")
  return 1
}

# cuda_toolkit_is_there: whole, and of the versions that tools/cuda.txt names now.
cuda_toolkit_is_there() {
  cmp -s tools/cuda.txt "$CUDA_TOOLKIT/cuda.txt" && nvcc_version "$CUDA_TOOLKIT_NVCC" >/dev/null
}

install_cuda_toolkit() {
  python3 -c 'import pip' 2>/dev/null ||
    fail "the CUDA compiler is missing, and installing it needs pip for $(command -v python3 || echo python3)." \
      "Install python3-pip, or CUDA $MIN_CUDA_MAJOR (nvcc on PATH or in /usr/local/cuda)."
  say "Installing the CUDA compiler with pip into $CUDA_TOOLKIT (105 MB to fetch, 270 MB on disk)"
  rm -rf "$CUDA_TOOLKIT"
  # The copy of the list is written last: without it a broken installation is made anew.
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --require-hashes --target "$CUDA_TOOLKIT" -r tools/cuda.txt >&2 || {
    rm -rf "$CUDA_TOOLKIT"
    fail "pip could not install the packages of tools/cuda.txt." \
      "Its message is above. A CUDA $MIN_CUDA_MAJOR toolkit of the system is used when there is one."
  }
  # nvcc looks for the runtime library in lib64.
  ln -s lib "$CUDA_TOOLKIT/nvidia/cu13/lib64"
  nvcc_version "$CUDA_TOOLKIT_NVCC" >/dev/null || fail "the installed $CUDA_TOOLKIT_NVCC does not run." \
    "The packages are for x86-64 Linux with glibc 2.17 or newer."
  cp tools/cuda.txt "$CUDA_TOOLKIT/cuda.txt"
}

# setup_cuda: leaves the path of nvcc in $setup_dir/nvcc; quick and silent when it was done before.
setup_cuda() {
  local nvcc
  setup_dir=build/setup
  if ! nvcc=$(find_system_nvcc); then
    cuda_toolkit_is_there || install_cuda_toolkit
    nvcc=$PWD/$CUDA_TOOLKIT_NVCC
  fi
  mkdir -p "$setup_dir"
  printf '%s\n' "$nvcc" >"$setup_dir/nvcc.new"
  mv "$setup_dir/nvcc.new" "$setup_dir/nvcc"
}
