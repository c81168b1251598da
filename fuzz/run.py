#!/usr/bin/env python3
"""Runs the fuzz targets of a fuzz build, one after the other.

Usage: run.py [--build build/fuzz] [--seconds 60] [--targets gguf,...] [--record FILE]

The seconds are shared out evenly. Each target starts from fuzz/corpus/TARGET and fuzz/crashes/TARGET and
keeps what it finds to reach more in BUILD/corpus/TARGET, so that a later run goes on from there. A finding
(crash, failed check, 10 seconds or 2 GB for one input) is written to BUILD/findings/TARGET and ends that
target's turn; the exit code is then 1. --record appends one JSON line a target: executions, processor
seconds, findings.
"""

import argparse
import datetime
import json
import os
import re
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGETS = ["gguf", "safetensors", "config", "tokenizer_json", "chat_template", "http_body"]
SECONDS_AN_INPUT = 10
MEGABYTES = 2048
LARGEST_INPUT = {"gguf": 16384, "safetensors": 4096, "config": 4096, "tokenizer_json": 12288,
                 "chat_template": 6144, "http_body": 4096}


def command(build, target, seconds):
    own = os.path.join(build, "corpus", target)
    findings = os.path.join(build, "findings", target)
    os.makedirs(own, exist_ok=True)
    os.makedirs(findings, exist_ok=True)
    words = [os.path.join(build, "fuzz", "fuzz_" + target), own,
             os.path.join(ROOT, "fuzz", "corpus", target)]
    crashes = os.path.join(ROOT, "fuzz", "crashes", target)
    if os.path.isdir(crashes):
        words.append(crashes)
    words += [f"-max_total_time={seconds}", f"-timeout={SECONDS_AN_INPUT}", f"-rss_limit_mb={MEGABYTES}",
              f"-max_len={LARGEST_INPUT[target]}", f"-artifact_prefix={findings}/", "-print_final_stats=1",
              "-verbosity=0", "-use_value_profile=1"]
    dictionary = os.path.join(ROOT, "fuzz", "dictionaries", target + ".dict")
    if os.path.exists(dictionary):
        words.append(f"-dict={dictionary}")
    return words


def child_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stat(output, name):
    found = re.search(rf"stat::{name}:\s+(\d+)", output)
    return int(found.group(1)) if found else 0


def run_target(build, target, seconds):
    before = child_seconds()
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1",
                       UBSAN_OPTIONS="print_stacktrace=1")
    result = subprocess.run(command(build, target, seconds), capture_output=True, check=False,
                            env=environment)
    output = (result.stdout + result.stderr).decode(errors="replace")
    record = {"date": datetime.date.today().isoformat(), "target": target,
              "executions": stat(output, "number_of_executed_units"),
              "cpu_seconds": round(child_seconds() - before, 1),
              "peak_mb": stat(output, "peak_rss_mb"), "findings": 0 if result.returncode == 0 else 1}
    if result.returncode != 0:
        print(output[-6000:])
    return record


def main():
    parser = argparse.ArgumentParser(description="Run the fuzz targets of a fuzz build.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "fuzz"))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--record", default="")
    options = parser.parse_args()
    targets = options.targets.split(",")
    for target in targets:
        if target not in TARGETS:
            parser.error(f"there is no target '{target}'; {', '.join(TARGETS)} are")
    findings = 0
    for target in targets:
        record = run_target(os.path.abspath(options.build), target, max(1, options.seconds // len(targets)))
        findings += record["findings"]
        print(f"{target:<16} {record['executions']:>10} executions {record['cpu_seconds']:>8.1f} s "
              f"{record['peak_mb']:>6} MB  {'FOUND SOMETHING' if record['findings'] else 'nothing found'}",
              flush=True)
        if options.record:
            with open(options.record, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
