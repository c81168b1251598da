#!/usr/bin/env python3
"""Checks that files and functions stay small enough to read.

Usage: check_sizes.py [ROOT]

Limits: a file 500 lines, a function 70, a kernel 120 (any function in a file whose name ends in _cpu.cc,
_cpu_<set>.cc, _cuda.cu or similar: tiles unroll). Functions are found by braces, after comments and
strings are blanked: a body is what follows a parameter list outside any other function; a lambda counts
as part of the function that holds it. The allow-list below is for exceptions that were argued for.
"""

import os
import re
import sys

FILE_LINES = 500
FUNCTION_LINES = 70
KERNEL_LINES = 120
KERNEL_FILE = re.compile(r"_(cpu|cpu_[a-z0-9]+|cuda|cuda_sm\d+a?)\.(cc|cu|cuh)$")

# path -> limit in lines, with the reason beside it.
ALLOWED_FILES = {}
# (path, function) -> limit in lines, with the reason beside it.
ALLOWED_FUNCTIONS = {}

CPP_SUFFIXES = (".h", ".cc", ".cu", ".cuh")
OTHER_SUFFIXES = (".rs", ".py", ".sh", ".cmake")
TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
NOT_FUNCTIONS = ("if", "for", "while", "switch", "catch", "return", "constexpr", "defined")


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def without_text(source):
    """Comments, strings and preprocessor lines become spaces, so that braces can be counted."""
    source = re.sub(r"(?<=\d)'(?=\d)", " ", source)  # digit separators are no quotes
    source = TOKENS.sub(blank, source)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, source, flags=re.M)


# What may stand between a parameter list and the body: qualifiers, a return type, initialisers.
BODY_FOLLOWS = re.compile(
    r"\)\s*((const|noexcept|override|final|mutable|&&?)\s*)*(->[^;]*|:[^;]*|requires[^;]*)?$")
INITIALISER = re.compile(r"\)\s*(noexcept\s*)?:[^;]*\w$")  # Type(...) : member_{


def function_name(header):
    """The name before the first parameter list of a header, or None when it is no function."""
    if not BODY_FOLLOWS.search(header):
        return None
    match = re.search(r"(~?[A-Za-z_]\w*|operator[^\s(]*)\s*\(", header)
    if not match or match[1] in NOT_FUNCTIONS:
        return None
    return match[1]


def functions(source):
    """Yields (name, first line, lines) of each outermost function body."""
    text = without_text(source)
    header_start = 0
    stack = []  # an open brace each: (name, line) of a function, None of a type, "" of an initialiser
    inside = 0
    for match in re.finditer(r"[{};]", text):
        position, character = match.start(), match[0]
        if character == "{":
            header = text[header_start:position]
            if not inside and INITIALISER.search(header):
                stack.append("")
                continue
            name = None if inside else function_name(header)
            if name:
                start = header_start + len(header) - len(header.lstrip())
                stack.append((name, text.count("\n", 0, start) + 1))
                inside += 1
            else:
                stack.append(None)
        elif character == "}" and stack:
            opened = stack.pop()
            if opened == "":
                continue
            if opened:
                inside -= 1
                yield opened[0], opened[1], text.count("\n", 0, position) + 2 - opened[1]
        if not inside and "" not in stack:
            header_start = position + 1


def check(root):
    violations = []
    count = 0
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            source = file.read()
        count += 1
        lines = source.count("\n")
        limit = ALLOWED_FILES.get(path, FILE_LINES)
        if lines > limit:
            violations.append(f"{path}:1: file: {lines} lines, the limit is {limit}")
        if not path.endswith(CPP_SUFFIXES):
            continue
        usual = KERNEL_LINES if KERNEL_FILE.search(path) else FUNCTION_LINES
        for name, line, length in functions(source):
            limit = ALLOWED_FUNCTIONS.get((path, name), usual)
            if length > limit:
                violations.append(f"{path}:{line}: function: {name} has {length} lines, the limit is "
                                  f"{limit}")
    return count, violations


def sources(root):
    for top in ("src", "apps", "tests", "tools", "cmake"):
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders[:] = sorted(f for f in folders if f not in ("target", "__pycache__"))
            for name in sorted(files):
                if name.endswith(CPP_SUFFIXES + OTHER_SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(__file__)) or "."
    count, violations = check(root)
    for violation in violations:
        print(violation)
    print(f"sizes: {count} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
