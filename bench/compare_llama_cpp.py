#!/usr/bin/env python3
"""Compares the speed and the memory of `ashlar bench` with llama-cpp-python on one GGUF file.

Usage: compare_llama_cpp.py MODEL --program build/cpu/ashlar --peer-python PYTHON [--peer-path DIR]
           [--threads 2] [--rounds 5] [--cases decode1,prefill512,...] [--output FILE]

Each measurement is a process of its own; the two programs take turns (A B A B ...), so that what the
machine does beside them falls on both. A round gives one ratio for each case, and the medians over the
rounds are reported. Both get the same threads, the same context, an f16 cache and batches of 512 rows.

The peer is called through its C interface and given its next tokens, so it neither samples nor prints
text; ashlar does both within its steps. Peak memory is of the whole process; the peer's includes Python
and its packages, so what it held before the model was loaded is recorded beside it.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

BATCH_ROWS = 512
REPETITIONS = 3
# name: (kind, sequences, prompt tokens, output tokens)
CASES = {
    "decode1": ("decode", 1, 128, 128),
    "decode8": ("decode", 8, 128, 64),
    "prefill512": ("prefill", 1, 512, 1),
    "prefill2048": ("prefill", 1, 2048, 1),
}


def context_of(case):
    """Positions of all sequences together, in whole pages of either program's making."""
    _, sequences, prompt, output = case
    return sequences * -(-(prompt + output) // 32) * 32


# The peer's side: runs in the python that has llama_cpp.


def resident_bytes(field):
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


class Peer:
    """One context of llama.cpp, and batches for it."""

    def __init__(self, model, threads, case):
        import llama_cpp  # only the peer's python has it

        self.api = llama_cpp
        self.before_bytes = resident_bytes("VmHWM")
        quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(quiet, None)
        self.keep = quiet
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            model.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            sys.exit(f"the peer cannot load {model}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context_of(case)
        params.n_batch = params.n_ubatch = BATCH_ROWS
        params.n_seq_max = case[1]
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = True
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.batch = llama_cpp.llama_batch_init(BATCH_ROWS, 0, 1)

    def clear(self):
        self.api.llama_memory_clear(self.memory, True)

    def decode(self, rows):
        """rows: (token, position, sequence, wants logits). Returns the seconds until the logits are there."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wants) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wants
        start = time.perf_counter()
        if self.api.llama_decode(self.context, batch) != 0:
            sys.exit("the peer could not decode")
        if rows[-1][3]:
            self.api.llama_get_logits_ith(self.context, len(rows) - 1)
        return time.perf_counter() - start

    def prefill(self, tokens, sequence):
        rows = [(token_at(i, sequence), i, sequence, i == tokens - 1) for i in range(tokens)]
        return sum(self.decode(rows[i:i + BATCH_ROWS]) for i in range(0, tokens, BATCH_ROWS))


def token_at(index, sequence):
    return (index * 37 + sequence * 7919) % 20000 + 100


def peer_samples(peer, case):
    """Seconds: of whole prefills, or of decode steps."""
    kind, sequences, prompt, output = case
    if kind == "prefill":
        peer.prefill(64, 0)
        samples = []
        for _ in range(REPETITIONS):
            peer.clear()
            samples.append(peer.prefill(prompt, 0))
        return samples
    for sequence in range(sequences):
        peer.prefill(prompt, sequence)
    return [
        peer.decode([(token_at(step * 3 + 1, s), prompt + step, s, 1) for s in range(sequences)])
        for step in range(output - 1)
    ]


def run_peer_worker(model, threads, name):
    case = CASES[name]
    peer = Peer(model, threads, case)
    middle = statistics.median(peer_samples(peer, case))
    print(json.dumps({
        "tok_s": (case[2] if case[0] == "prefill" else case[1]) / middle,
        "peak_resident_bytes": resident_bytes("VmHWM"),
        "resident_before_model_bytes": peer.before_bytes,
        "version": peer.api.__version__,
        "system_info": peer.api.llama_print_system_info().decode(),
    }))


# This side.


def call(words, environment=None):
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        sys.exit(f"compare_llama_cpp: {' '.join(words)} failed:\n{result.stderr.strip()}")
    return json.loads(result.stdout)


def run_peer(options, name):
    environment = dict(os.environ)
    if options.peer_path:
        environment["PYTHONPATH"] = options.peer_path
    return call([options.peer_python, os.path.abspath(__file__), options.model, "--worker", name,
                 "--threads", str(options.threads)], environment)


def ashlar_words(options, name):
    kind, sequences, prompt, output = CASES[name]
    words = [options.program, "bench", kind, options.model, "--json", "--no-read-speed",
             "--threads", str(options.threads), "--step-rows", str(BATCH_ROWS)]
    if kind == "prefill":
        return words + ["--lengths", str(prompt), "--repetitions", str(REPETITIONS)]
    return words + ["--concurrency", str(sequences), "--prompt-tokens", str(prompt), "--tokens",
                    str(output), "--repetitions", "1"]


def run_ashlar(options, name):
    report = call(ashlar_words(options, name))
    row = report["rows"][0]
    if CASES[name][0] == "prefill":
        tok_s = row["tok_s"]
    else:
        tok_s = row["concurrency"] / row["step_ms_median"] * 1e3
    return {"tok_s": tok_s, "peak_resident_bytes": report["peak_resident_bytes"],
            "commit": report["commit"], "device": report["device"]}


def summary(rounds):
    """rounds: pairs of results (ashlar, peer) of one case."""
    ratios = [a["tok_s"] / b["tok_s"] for a, b in rounds]
    memory = [statistics.median(side["peak_resident_bytes"] for side in sides) for sides in zip(*rounds)]
    return {
        "ashlar_tok_s": round(statistics.median(a["tok_s"] for a, _ in rounds), 2),
        "peer_tok_s": round(statistics.median(b["tok_s"] for _, b in rounds), 2),
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ashlar_peak_resident_bytes": int(memory[0]),
        "peer_peak_resident_bytes": int(memory[1]),
        "peer_resident_before_model_bytes": int(
            statistics.median(b["resident_before_model_bytes"] for _, b in rounds)),
    }


def processor_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown"


def compare(options):
    results = {name: [] for name in options.cases}
    for number in range(options.rounds):
        for name in options.cases:
            pair = (run_ashlar(options, name), run_peer(options, name))
            results[name].append(pair)
            print(f"round {number + 1} {name:<12} ashlar {pair[0]['tok_s']:9.2f}  peer "
                  f"{pair[1]['tok_s']:9.2f} tok/s", file=sys.stderr)
    first = results[options.cases[0]][0]
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "processor": processor_name(),
        "device": first[0]["device"],
        "commit": first[0]["commit"],
        "model": os.path.basename(options.model),
        "threads": options.threads,
        "batch_rows": BATCH_ROWS,
        "rounds": options.rounds,
        "peer": "llama-cpp-python " + first[1]["version"],
        "peer_system_info": first[1]["system_info"],
        "cases": {name: dict(summary(rounds), context=context_of(CASES[name]))
                  for name, rounds in results.items()},
    }


def print_table(result):
    print(f"{result['model']}, {result['threads']} threads, {result['processor']}; medians of "
          f"{result['rounds']} rounds against {result['peer']}")
    print(f"{'case':<12} {'ashlar':>10} {'peer':>10} {'ratio':>7} {'least':>7} {'most':>7}"
          f" {'MB':>8} {'peer MB':>8} {'before':>8}")
    for name, case in result["cases"].items():
        mega = [case[key] / 1e6 for key in ("ashlar_peak_resident_bytes", "peer_peak_resident_bytes",
                                            "peer_resident_before_model_bytes")]
        print(f"{name:<12} {case['ashlar_tok_s']:>10.2f} {case['peer_tok_s']:>10.2f}"
              f" {case['ratio_median']:>7.2f} {case['ratio_min']:>7.2f} {case['ratio_max']:>7.2f}"
              f" {mega[0]:>8.1f} {mega[1]:>8.1f} {mega[2]:>8.1f}")


def case_list(text):
    names = text.split(",")
    for name in names:
        if name not in CASES:
            raise argparse.ArgumentTypeError(f"there is no case '{name}'; {', '.join(CASES)} are")
    return names


def main():
    parser = argparse.ArgumentParser(description="Compare ashlar with llama-cpp-python.")
    parser.add_argument("model")
    parser.add_argument("--program", default="build/cpu/ashlar")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--peer-path", default="", help="PYTHONPATH of the peer")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", type=case_list, default=list(CASES))
    parser.add_argument("--output", default="")
    parser.add_argument("--worker", choices=sorted(CASES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        run_peer_worker(options.model, options.threads, options.worker)
        return
    result = compare(options)
    print_table(result)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
