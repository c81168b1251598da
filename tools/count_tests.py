#!/usr/bin/env python3
"""Counts test cases after a CTest run: prints "N passed, N failed, N skipped" and the skip reasons.

Usage: count_tests.py BUILD_FOLDER

CTest sees a program, not its cases. The cases are in the JSON that each GoogleTest program writes; a
program that CTest calls failed but that left no failed case there (a crash, a time-out) counts as one
failure. The exit code says whether anything failed.
"""

import glob
import json
import os
import sys


def program_counts(path, counts, skipped):
    """Adds the cases of one result file; returns whether one of them failed."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    failed = False
    for suite in report["testsuites"]:
        for case in suite["testsuite"]:
            if case["status"] == "NOTRUN":
                continue
            if case.get("failures"):
                counts["failed"] += 1
                failed = True
            elif case["result"] == "SKIPPED":
                counts["skipped"] += 1
                skipped.append(f"{suite['name']}.{case['name']}")
            else:
                counts["passed"] += 1
    return failed


def failed_programs(build_folder):
    """Names of the programs that CTest itself calls failed, from its log of the last run."""
    try:
        with open(os.path.join(build_folder, "Testing", "Temporary", "LastTestsFailed.log"),
                  encoding="utf-8") as file:
            return {line.strip().partition(":")[2] for line in file if line.strip()}
    except FileNotFoundError:
        return set()


def main():
    build_folder = sys.argv[1]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    skipped = []
    explained = set()
    for path in sorted(glob.glob(os.path.join(build_folder, "tests", "results", "*.json"))):
        name = os.path.splitext(os.path.basename(path))[0]
        try:
            if program_counts(path, counts, skipped):
                explained.add(name)
        except ValueError:
            pass  # cut short by a crash: CTest's own verdict counts it below
    counts["failed"] += len(failed_programs(build_folder) - explained)
    for name in skipped:
        print(f"skipped: {name}")
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
