#!/usr/bin/env python3
"""Shows that the GPU tests can fail: plants bugs in copies of the tree and sees which test catches each.

  gpu_plant.py build [--cuda build/cuda] [--out build/plants] [--timed] [NAME...]
  gpu_plant.py run [--pack build/plants/plants.tar.xz] [--jobs 4] [--seconds 90] [--timed]

`build` needs the compiled CUDA build and no GPU: for each bug of tools/gpu_plants.py it compiles what
the edited file reaches and links one test program, and packs all that were ever built, and the programs
without a bug, into one archive of a few megabytes. `run` needs a GPU, Python, these scripts and that
archive: neither sources nor a compiler. It prints a line a bug with the tests that failed, and fails when
a bug passes or a sound program does not.
--timed builds and runs the variants that measure what the row rule costs instead.
"""

import argparse
import concurrent.futures
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import gpu_plants

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIST = "plants.json"
PACK = "plants.tar.xz"


def planted_text(edit, text):
    """The text of a file with a bug in it."""
    count = text.count(edit.old)
    if count != 1:
        raise ValueError(
            f"{edit.file} has {edit.old!r} {count} times, not once: mend or remove the plant in tools/gpu_plants.py"
        )
    return text.replace(edit.old, edit.new)


class Build:
    """One CUDA build folder: how its objects are compiled and its programs linked."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        with open(os.path.join(self.folder, "compile_commands.json"), encoding="utf-8") as file:
            entries = json.load(file)
        self.compile = {}  # object -> command
        for entry in entries:
            words = shlex.split(entry["command"])
            self.compile[words[words.index("-o") + 1]] = words
        self.readers = self._readers()

    def ninja(self, *arguments):
        result = subprocess.run(
            ["ninja", "-C", self.folder, *arguments], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            sys.exit(f"gpu_plant: ninja {' '.join(arguments)} failed:\n{result.stdout[-3000:]}{result.stderr}")
        return result.stdout

    def _readers(self):
        """file of the tree -> the objects that are compiled from it."""
        readers, target = {}, None
        for line in self.ninja("-t", "deps").splitlines():
            if line and not line.startswith(" "):
                target = line.split(":")[0]
            elif line.strip():
                path = os.path.normpath(os.path.join(self.folder, line.strip()))
                if path.startswith(ROOT + os.sep):
                    readers.setdefault(os.path.relpath(path, ROOT), set()).add(target)
        return readers

    def link_command(self, program):
        last = self.ninja("-t", "commands", f"tests/{program}").strip().splitlines()[-1]
        return shlex.split(last.removeprefix(": && ").removesuffix(" && :"))

    def program(self, plant, tree, to):
        """Links the plant's program from the build's objects and those that `tree` changes."""
        link = self.link_command(plant.program)
        objects = {word for word in link if word.endswith(".o")}
        changed = sorted(objects & set().union(*(self.readers.get(e.file, set()) for e in plant.edits)))
        if not changed:
            sys.exit(f"gpu_plant: no object of {plant.program} reads {plant.edits[0].file}; build the program first")
        made = {}
        for target in changed:
            made[target] = os.path.join(tree, target.replace("/", "_"))
            command = [word.replace(ROOT + "/src", tree + "/src") for word in self.compile[target]]
            command[command.index("-o") + 1] = made[target]
            self._call(command, f"compile {target} with {plant.name}")
        link = [made.get(word, word) for word in link]
        link[link.index("-o") + 1] = to
        self._call(link + ["-s"], f"link {plant.name}")

    def _call(self, command, what):
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"gpu_plant: cannot {what}:\n{result.stderr[-3000:]}")


def pack(folder):
    """One archive of all programs: each is nearly the one before, so together they are small."""
    path = os.path.join(folder, PACK)
    # Fast, with a dictionary that reaches back over several programs.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 64 << 20}]
    with lzma.open(path, "wb", filters=filters) as file, tarfile.open(fileobj=file, mode="w") as archive:
        archive.add(os.path.join(folder, LIST), LIST)
        for one in read_list(folder):
            archive.add(os.path.join(folder, one["name"]), one["name"])
    print(f"{path}: {os.path.getsize(path) / 1e6:.1f} MB")


def entry(name, what, program, tests, sound=False):
    return {"name": name, "what": what, "program": program, "tests": tests, "sound": sound}


def build(arguments):
    plants = gpu_plants.TIMED if arguments.timed else gpu_plants.PLANTS
    unknown = set(arguments.names) - {p.name for p in plants}
    if unknown:
        sys.exit(f"gpu_plant: no such plant: {', '.join(sorted(unknown))}")
    plants = [p for p in plants if not arguments.names or p.name in arguments.names]
    cuda = Build(arguments.cuda)
    os.makedirs(arguments.out, exist_ok=True)
    entries = []
    with tempfile.TemporaryDirectory() as folder:
        for program in sorted({p.program for p in plants}):
            cuda.ninja("-j1", f"tests/{program}")
            bare = os.path.join(arguments.out, f"sound_{program}")
            subprocess.run(["strip", "-o", bare, os.path.join(cuda.folder, "tests", program)], check=True)
            tests = ":".join(dict.fromkeys(p.tests for p in plants if p.program == program))
            entries.append(entry(f"sound_{program}", "nothing planted", program, tests, sound=True))
        cuda.readers = cuda._readers()
        for plant in plants:
            begin = time.monotonic()
            tree = os.path.join(folder, plant.name)
            shutil.copytree(os.path.join(ROOT, "src"), os.path.join(tree, "src"))
            for edit in plant.edits:
                path = os.path.join(tree, edit.file)
                with open(path, encoding="utf-8") as file:
                    text = planted_text(edit, file.read())
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            cuda.program(plant, tree, os.path.join(arguments.out, plant.name))
            shutil.rmtree(tree)
            entries.append(entry(plant.name, plant.what, plant.program, plant.tests))
            print(f"{plant.name:20} built in {time.monotonic() - begin:.0f} s", flush=True)
    merge_list(arguments.out, entries)
    pack(arguments.out)
    return 0


def read_list(folder):
    with open(os.path.join(folder, LIST), encoding="utf-8") as file:
        return json.load(file)


def merge_list(folder, entries):
    """Replaces the entries of the same names; sound programs must run the tests of all."""
    path = os.path.join(folder, LIST)
    known = {e["name"]: e for e in read_list(folder)} if os.path.exists(path) else {}
    for new in entries:
        old = known.get(new["name"])
        if old and new["sound"]:
            tests = dict.fromkeys(old["tests"].split(":") + new["tests"].split(":"))
            new["tests"] = ":".join(tests)
        known[new["name"]] = new
    with open(path, "w", encoding="utf-8") as file:
        json.dump(list(known.values()), file, indent=1)


def run_program(folder, one, seconds, timed):
    begin = time.monotonic()
    command = [os.path.join(folder, one["name"]), "--gtest_filter=" + one["tests"]]
    if timed:
        command.append("--gtest_also_run_disabled_tests")
    try:
        # A sound program has the tests of all plants to do.
        limit = 3 * seconds if one["sound"] or timed else seconds
        result = subprocess.run(command, capture_output=True, timeout=limit, check=False)
        status, text = result.returncode, result.stdout
    except subprocess.TimeoutExpired as stopped:
        status, text = None, stopped.stdout or b""
    return status, text.decode(errors="replace"), time.monotonic() - begin


def judge(one, status, text):
    """(good, line) of what a program did; good: a bug was caught, or a sound program passed."""
    failed = list(dict.fromkeys(re.findall(r"\[  FAILED  \] ([\w/.]+)", text)))
    if re.search(r"\[  SKIPPED \]", text):
        return False, "not run: there is no device"
    if one["sound"]:
        if status == 0 and re.search(r"\[  PASSED  \] [1-9]", text):
            return True, "passes"
        return False, f"FAILS without a bug (exit {status}): {', '.join(failed[:4]) or text[-300:]}"
    if failed:
        more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        return True, "caught by " + ", ".join(failed[:3]) + more
    running = re.findall(r"\[ RUN      \] ([\w/.]+)", text)
    if status is None:
        return bool(running), f"caught by a hang in {running[-1]}" if running else "not run: it never began"
    if status < 0:
        return bool(running), f"caught by a crash in {running[-1]}" if running else "not run: it crashed at start"
    return False, "NOT CAUGHT"


def times_of(text):
    """What a speed test printed before each time -> microseconds."""
    return {" ".join(label.split()): float(us) for label, us in re.findall(r"^ *(\w.*?):? +([\d.]+) us\b", text, re.M)}


def report_cost(times):
    """What the tree's own choice costs against the best of all, for each case and together."""
    sound = next(times[name] for name in times if name.startswith("sound_"))
    variants = [name for name in times if not name.startswith("sound_")]
    total = best_total = 0.0
    print(f"{'microseconds':36} {'tree':>10} " + " ".join(f"{name:>11}" for name in variants) + "  tree over the best")
    for case, us in sound.items():
        found = [times[name].get(case) for name in variants]
        if all(other is None for other in found):
            continue
        best = min([us, *(other for other in found if other is not None)])
        total, best_total = total + us, best_total + best
        columns = " ".join(f"{'' if other is None else format(other, '.2f'):>11}" for other in found)
        print(f"{case:36} {us:10.2f} {columns}  {100 * (us / best - 1):5.1f} %")
    if best_total:
        print(f"all together: {100 * (total / best_total - 1):.1f} % over a free choice")


def chosen(entries, timed_wanted):
    """The plants; or the variants, with the sound program to compare with."""
    timed_names = {plant.name for plant in gpu_plants.TIMED}
    timed = [e for e in entries if e["name"] in timed_names]
    plain = [e for e in entries if e["name"] not in timed_names]
    if timed_wanted:
        tests = ":".join(dict.fromkeys(e["tests"] for e in timed))
        programs = {e["program"] for e in timed}
        timed = [dict(e, tests=tests) for e in plain if e["sound"] and e["program"] in programs] + timed
    return timed if timed_wanted else plain


def run(arguments):
    bad, times = 0, {}
    jobs = 1 if arguments.timed else arguments.jobs
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        with tarfile.open(arguments.pack) as archive:
            archive.extractall(folder)
        entries = chosen(read_list(folder), arguments.timed)
        if not entries:
            sys.exit(f"gpu_plant: {arguments.pack} holds none of these; `gpu_plant.py build` makes them")
        results = [(one, pool.submit(run_program, folder, one, arguments.seconds, arguments.timed)) for one in entries]
        for one, result in results:
            status, text, seconds = result.result()
            good, line = judge(dict(one, sound=True) if arguments.timed else one, status, text)
            bad += not good
            times[one["name"]] = times_of(text)
            print(f"{one['name']:24} {seconds:4.0f} s  {line}   ({one['what']})", flush=True)
    if arguments.timed and not bad:
        report_cost(times)
    print(f"{len(entries) - bad} of {len(entries)} as wanted")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("build", "run"):
        verb = verbs.add_parser(name)
        verb.add_argument("--timed", action="store_true")
    verbs.choices["build"].add_argument("--cuda", default=os.path.join(ROOT, "build", "cuda"))
    verbs.choices["build"].add_argument("--out", default=os.path.join(ROOT, "build", "plants"))
    verbs.choices["build"].add_argument("names", nargs="*")
    verbs.choices["run"].add_argument("--pack", default=os.path.join(ROOT, "build", "plants", PACK))
    verbs.choices["run"].add_argument("--jobs", type=int, default=4)
    verbs.choices["run"].add_argument("--seconds", type=int, default=90)
    arguments = parser.parse_args()
    return build(arguments) if arguments.verb == "build" else run(arguments)


if __name__ == "__main__":
    sys.exit(main())
