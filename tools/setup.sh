# Installs what a build needs and finds cargo; sourced by ./do.
#
# It looks before it installs, prints what it installs, and remembers a finished look by a copy of
# tools/packages.txt under build/setup/, so that the next call costs one file comparison. It never
# edits the configuration of apt, pip, cargo or npm: mirrors and proxies are the user's to set there.

readonly MIN_CARGO_MINOR=87  # 1.87: what the crate llguidance asks for
readonly MIN_GXX_MAJOR=12    # C++20 as this code uses it

say() { printf '%s\n' "$*" >&2; }

# fail WHAT [WHAT TO DO]: ends the command with a message.
fail() {
  say "do: $1"
  [[ $# -lt 2 ]] || say "    $2"
  exit 1
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

probe_succeeds() {
  case $1 in
    python:*) python3 -c "import ${1#python:}" >/dev/null 2>&1 ;;
    */*) [[ -e /usr/include/$1 || -e /usr/local/include/$1 ]] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# missing_packages GROUP: prints the packages of the group (test includes build) whose probe fails.
missing_packages() {
  local group package probe
  while read -r group package probe; do
    case $group in '#'* | '') continue ;; esac
    [[ $group == build || $group == "$1" ]] || continue
    probe_succeeds "$probe" || printf '%s\n' "$package"
  done <tools/packages.txt
}

# apt_install PACKAGE...: installs or ends the command with a message.
apt_install() {
  local by_hand="apt-get install --no-install-recommends $*"
  command -v apt-get >/dev/null ||
    fail "these packages are missing and there is no apt-get here: $*" \
      "Install their equivalents with this system's package manager, then run the command again."
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null ||
      fail "these packages are missing, and installing them needs root or sudo: $*" \
        "As root: $by_hand"
    sudo -v 2>/dev/null || sudo -n true 2>/dev/null ||
      fail "these packages are missing, and sudo refused: $*" "As root: $by_hand"
  fi
  say "Installing with apt-get: $*"
  # A third-party source that fails to update must not stop an install that does not need it.
  as_root apt-get update -qq >&2 || say "do: apt-get update reported errors; trying to install all the same"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" >"$setup_dir/apt.log" 2>&1 || {
    tail -n 15 "$setup_dir/apt.log" >&2
    fail "apt-get could not install: $*" \
      "The lines above say why (all of it: $setup_dir/apt.log). By hand, as root: $by_hand"
  }
}

# cargo_is_new_enough PATH
cargo_is_new_enough() {
  local version
  version=$("$1" --version 2>/dev/null) || return 1
  [[ $version =~ ^cargo\ ([0-9]+)\.([0-9]+) ]] || return 1
  ((BASH_REMATCH[1] > 1 || BASH_REMATCH[2] >= MIN_CARGO_MINOR))
}

# find_cargo: prints the path of the first cargo that is new enough. Versioned names are Ubuntu's.
find_cargo() {
  local candidate
  while read -r candidate; do
    if cargo_is_new_enough "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done < <(type -aP cargo; printf '%s\n' "$HOME/.cargo/bin/cargo" /usr/bin/cargo
    compgen -c cargo-1. | sort -ruV | while read -r candidate; do type -P "$candidate"; done)
  return 1
}

# cargo_package: prints the distribution's package with a new enough cargo, if it has one: Debian 12
# keeps one for its browsers (cargo-web), Ubuntu has versioned ones (cargo-1.89).
cargo_package() {
  local name version
  for name in cargo cargo-web $(apt-cache search --names-only '^cargo-1\.[0-9]+$' | cut -d' ' -f1 | sort -rV); do
    version=$(apt-cache policy "$name" | sed -n 's/^  Candidate: //p')
    [[ $name =~ ^cargo-1\.([0-9]+)$ ]] && version=1.${BASH_REMATCH[1]}
    if [[ $version =~ ^1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= MIN_CARGO_MINOR)); then
      printf '%s\n' "$name"
      return
    fi
  done
  return 1
}

# cargo_setup: leaves the path of a new enough cargo in $setup_dir/cargo.
setup_cargo() {
  local path package=''
  if ! path=$(find_cargo); then
    if command -v apt-get >/dev/null; then
      [[ -n $(apt-cache policy g++ 2>/dev/null) ]] || as_root apt-get update -qq >&2 || true
      package=$(cargo_package) || package=''
    fi
    [[ -n $package ]] ||
      fail "cargo 1.$MIN_CARGO_MINOR or newer is needed for the Rust part, and no package here has it." \
        "Get Rust from https://rustup.rs (or your administrator), then run the command again."
    apt_install "$package"
    path=$(find_cargo) ||
      fail "the package $package is installed, but no cargo 1.$MIN_CARGO_MINOR or newer is found."
  fi
  printf '%s\n' "$path" >"$setup_dir/cargo.new"
  mv "$setup_dir/cargo.new" "$setup_dir/cargo"
}

check_compiler() {
  local compiler=${CXX:-g++} major
  command -v "$compiler" >/dev/null ||
    fail "the C++ compiler '$compiler' is missing." \
      "Install g++ $MIN_GXX_MAJOR or newer (as root: apt-get install g++), or set CXX to one that exists."
  major=$("$compiler" -dumpversion | cut -d. -f1)
  [[ $major =~ ^[0-9]+$ ]] && ((major >= MIN_GXX_MAJOR)) ||
    fail "the C++ compiler '$compiler' is version $major; $MIN_GXX_MAJOR or newer is needed." \
      "Install a newer one and set CXX to its name."
}

# setup GROUP: everything that a command of the group needs; quick and silent when it was done before.
setup() {
  local group=$1 missing
  setup_dir=build/setup
  if [[ -e $setup_dir/$group.done && -s $setup_dir/cargo ]] &&
    cmp -s tools/packages.txt "$setup_dir/$group.done" && [[ -x $(<"$setup_dir/cargo") ]]; then
    return
  fi
  mkdir -p "$setup_dir" 2>/dev/null || fail "cannot create the folder $PWD/$setup_dir." \
    "The repository must be writable by the user who builds."
  mapfile -t missing < <(missing_packages "$group")
  [[ ${#missing[@]} -eq 0 ]] || apt_install "${missing[@]}"
  check_compiler
  setup_cargo
  cp tools/packages.txt "$setup_dir/$group.new"
  mv "$setup_dir/$group.new" "$setup_dir/$group.done"
}
