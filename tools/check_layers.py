#!/usr/bin/env python3
"""Checks the structure of the C++ sources: who includes whom, and what the preprocessor may do.

Usage: check_layers.py [ROOT]

Rules (docs/architecture.md gives the reasons):
  layers       an #include of another folder of src/ is allowed by that folder's line in src/LAYERS;
               a line names only folders above it, so a cycle cannot be written
  testing      testing/ is included only by tests and by itself
  cuda         CUDA headers only in files with a CUDA suffix and in .cuh files, which no other file
               includes; NCCL headers only in _nccl files
  conditional  no preprocessor conditionals beyond include guards, __CUDA_ARCH__ in device headers, and
               Highway's foreach_target frame in _cpu.cc files
  getenv       the environment is read in apps/ashlar/environment.cc alone
  guard        a header's include guard is ASHLAR_<PATH>_H_, or _CUH_
  opening      a file opens with a comment that says what it is

Prints file:line: rule: message for each violation; exit code 1 if there is one.
"""

import os
import re
import sys

SOURCE_SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".inc")
CUDA_FILE = re.compile(r"_cuda(_sm\d+a?)?(_test)?\.(cc|cu|h)$|\.cuh$")
NCCL_FILE = re.compile(r"_nccl(_test)?\.(cc|h)$")
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|nvrtc|nvtx3|cute|cutlass|cub|thrust)([_./]|[A-Z]|Lt)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
DIRECTIVE = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|elifdef|else|endif|define)\b(.*)$")
GETENV = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")
EXTERNAL_FOLDERS = ("hwy",)  # quoted by their own convention
HIGHWAY_CONDITIONS = ("HWY_ONCE", "defined(HWY_TARGET_TOGGLE)", "HWY_TARGET_TOGGLE")


class Checker:
    def __init__(self, root):
        self.root = root
        self.violations = []
        self.allowed = {}

    def violation(self, path, line, rule, message):
        self.violations.append(f"{path}:{line}: {rule}: {message}")

    def read_layers(self):
        """Reads src/LAYERS; a line may name only folders above it."""
        with open(os.path.join(self.root, "src", "LAYERS"), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                name, colon, rest = line.partition(":")
                if not colon or not re.fullmatch(r"[a-z_]+", name):
                    self.violation("src/LAYERS", number, "layers", f"cannot read '{line.strip()}'")
                    continue
                names = re.sub(r"\(.*\)", "", rest).split()
                for other in names:
                    if other != "any" and other not in self.allowed:
                        self.violation("src/LAYERS", number, "layers",
                                       f"{name} names {other}, which is not above it")
                allowed = set(self.allowed) if "any" in names else set(names)
                self.allowed[name] = allowed | {name}

    def layer_of(self, path):
        parts = as_source(path).split("/")
        if parts[0] == "src" and len(parts) > 2:
            return parts[1]
        return {"apps": "apps", "tests": "tests"}.get(parts[0])

    def check_include(self, path, number, quote, target):
        base = os.path.basename(path)
        if CUDA_HEADER.match(target) and not CUDA_FILE.search(base):
            self.violation(path, number, "cuda", f"<{target}> in a file without a CUDA suffix")
        if target.endswith((".cuh", "_cuda.h")) and not CUDA_FILE.search(base):
            self.violation(path, number, "cuda", f'"{target}" in a file without a CUDA suffix')
        if target.startswith("nccl") and not NCCL_FILE.search(base):
            self.violation(path, number, "cuda", f"<{target}> outside an _nccl file")
        folder = target.split("/")[0]
        if quote != '"' or "/" not in target or folder in EXTERNAL_FOLDERS:
            return
        layer = self.layer_of(path)
        is_test = layer == "tests" or layer == "testing" or base.endswith(("_test.cc", "_test.cu"))
        if folder == "testing":
            if not is_test:
                self.violation(path, number, "testing", f'"{target}" is for tests only')
            return
        if folder in ("apps", "ashlar"):
            if layer not in ("apps", "tests"):
                self.violation(path, number, "layers", f"{layer} may not include apps/")
            return
        if layer == "tests" or folder not in self.allowed:
            if folder not in self.allowed and not self.is_beside(path, target):
                self.violation(path, number, "layers", f'no layer "{folder}" in src/LAYERS')
            return
        if layer not in self.allowed:
            self.violation(path, number, "layers", f"folder {layer} has no line in src/LAYERS")
        elif folder not in self.allowed[layer]:
            self.violation(path, number, "layers",
                           f'{layer} may not include "{target}": its line in src/LAYERS does not '
                           f"name {folder}")

    def is_beside(self, path, target):
        """Files of tests/ and apps/ may name each other from the root of the repository."""
        return (target.split("/")[0] in ("tests",) or
                os.path.exists(os.path.join(self.root, os.path.dirname(path), target)))

    def check_conditional(self, path, number, word, rest, guard):
        condition = rest.split("//")[0].strip()
        if word in ("else", "endif", "define"):
            return
        if word == "ifndef" and condition == guard:
            return
        if "__CUDA_ARCH__" in condition and re.search(r"\.(h|cuh)$", path):
            return
        if path.endswith("_cpu.cc") and any(
                re.search(r"(^|\W)" + re.escape(c) + r"($|\W)", condition)
                for c in HIGHWAY_CONDITIONS):
            return
        self.violation(path, number, "conditional",
                       f"#{word} {condition}: choose by file suffix or at run time")

    def check_file(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            lines = file.read().splitlines()
        guard = guard_name(path)
        if not lines or not lines[0].startswith(("//", "/*")):
            self.violation(path, 1, "opening", "a file opens with a comment that says what it is")
        if path.endswith((".h", ".cuh")) and f"#ifndef {guard}" not in lines:
            self.violation(path, 1, "guard", f"the include guard is {guard}")
        for number, line in enumerate(lines, 1):
            if match := INCLUDE.match(line):
                self.check_include(path, number, match[1], match[2])
            elif match := DIRECTIVE.match(line):
                self.check_conditional(path, number, match[1], match[2], guard)
            elif GETENV.search(line.split("//")[0]) and path != "apps/ashlar/environment.cc":
                self.violation(path, number, "getenv",
                               "only apps/ashlar/environment.cc reads the environment")


def as_source(path):
    """The files of tests/walkthrough/src obey the rules of the place in src/ that they stand for."""
    return path.removeprefix("tests/walkthrough/") if path.startswith("tests/walkthrough/src/") else path


def guard_name(path):
    trimmed = re.sub(r"^src/", "", re.sub(r"^apps/ashlar/", "apps/", as_source(path)))
    return "ASHLAR_" + re.sub(r"[^A-Za-z0-9]", "_", trimmed).upper() + "_"


def sources(root):
    for top in ("src", "apps", "tests"):
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders[:] = sorted(f for f in folders if f not in ("rust", "target"))
            for name in sorted(files):
                if name.endswith(SOURCE_SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(__file__)) or "."
    checker = Checker(root)
    checker.read_layers()
    count = 0
    for path in sources(root):
        checker.check_file(path)
        count += 1
    for violation in checker.violations:
        print(violation)
    print(f"layers: {count} files, {len(checker.violations)} violations")
    return 1 if checker.violations else 0


if __name__ == "__main__":
    sys.exit(main())
