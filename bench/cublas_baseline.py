#!/usr/bin/env python3
"""Times torch.matmul, which is cuBLAS, for the matmul shapes of models on one GPU and writes the
file that `ashlar bench --baseline FILE` compares with.

Needs PyTorch with CUDA. Weights lie as in a checkpoint, [outputs inputs], in bf16; the output is bf16.
Each shape has as many copies of its weight and activations as exceed twice the second-level cache;
all calls of a shape are captured in one CUDA graph, and the median of its replays counts. A gated or
residual epilogue, which Ashlar's kernels include, is not in these times.

  bench/cublas_baseline.py --model llama-3.1-8b --model qwen3-8b --rows 1,16,64,2048 --output FILE
  bench/cublas_baseline.py --shapes 6144x4096,4096x14336 --rows 1,16 --output FILE
"""

import argparse
import json
import statistics
import sys

# hidden, feed-forward, heads, key heads, head size, vocabulary
MODELS = {
    "llama-3.1-8b": (4096, 14336, 32, 8, 128, 128256),
    "mistral-7b": (4096, 14336, 32, 8, 128, 32768),
    "qwen3-0.6b": (1024, 3072, 16, 8, 128, 151936),
    "qwen3-4b": (2560, 9728, 32, 8, 128, 151936),
    "qwen3-8b": (4096, 12288, 32, 8, 128, 151936),
    "qwen3-14b": (5120, 17408, 40, 8, 128, 151936),
    "qwen3-32b": (5120, 25600, 64, 8, 128, 151936),
    "gemma3-12b": (3840, 15360, 16, 8, 256, 262208),
}
CACHE_BYTES = 60 << 20
MOST_HEAD_ROWS = 64  # of a prompt's part only the last row has logits


def model_shapes(name):
    """(outputs, inputs, is_head) of a model's fused matrices."""
    hidden, feed_forward, heads, kv_heads, size, vocabulary = MODELS[name]
    return [((heads + 2 * kv_heads) * size, hidden, False), (hidden, heads * size, False),
            (2 * feed_forward, hidden, False), (hidden, feed_forward, False),
            (vocabulary, hidden, True)]


def wanted(models, shapes, rows):
    """Every (rows, outputs, inputs) once, in a fixed order."""
    cases = set()
    for name in models:
        for outputs, inputs, is_head in model_shapes(name):
            for m in rows:
                cases.add((min(m, 1) if is_head and m > MOST_HEAD_ROWS else m, outputs, inputs))
            if is_head:
                cases.add((1, outputs, inputs))
    cases.update((m, outputs, inputs) for outputs, inputs in shapes for m in rows)
    return sorted(cases)


def measure(torch, m, n, k, seconds):
    """Microseconds of one product: median and 99th percentile of graph replays."""
    each = 2 * (n * k + m * k + m * n)
    copies = max(2, min(64, -(-2 * CACHE_BYTES // each)))
    new = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    weights = [new(n, k) * k**-0.5 for _ in range(copies)]
    inputs = [new(m, k) for _ in range(copies)]
    outputs = [new(m, n) for _ in range(copies)]

    def run():
        for w, x, y in zip(weights, inputs, outputs):
            torch.matmul(x, w.t(), out=y)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):  # the library chooses its kernel at first use
            run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run()
        event = lambda: torch.cuda.Event(enable_timing=True)

        def replay(count):
            marks = [event() for _ in range(count + 1)]
            marks[0].record(stream)
            for mark in marks[1:]:
                graph.replay()
                mark.record(stream)
            marks[-1].synchronize()
            return [a.elapsed_time(b) * 1e3 / copies for a, b in zip(marks, marks[1:])]

        first = statistics.median(replay(3))
        times = sorted(replay(max(5, min(200, int(seconds * 1e6 / (first * copies))))))
    return statistics.median(times), times[min(len(times) - 1, int(0.99 * len(times)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", action="append", default=[], choices=sorted(MODELS))
    parser.add_argument("--shapes", default="", help="OUTPUTSxINPUTS, a list")
    parser.add_argument("--rows", default="1,16,64,2048")
    parser.add_argument("--seconds", type=float, default=0.03, help="of replays for each shape")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    rows = [int(word) for word in args.rows.split(",")]
    shapes = [tuple(int(part) for part in word.split("x")) for word in args.shapes.split(",") if word]
    cases = wanted(args.model, shapes, rows)
    if not cases:
        parser.error("give --model or --shapes")

    import torch  # late: the help needs no GPU

    torch.manual_seed(1)
    results = []
    for m, n, k in cases:
        us, p99 = measure(torch, m, n, k, args.seconds)
        results.append({"rows": m, "outputs": n, "inputs": k, "us": round(us, 3),
                        "us_p99": round(p99, 3), "tflops": round(2e-6 * m * n * k / us, 2)})
        torch.cuda.empty_cache()
        print(f"{m:6d} x {n:6d} x {k:6d} {us:10.2f} us {results[-1]['tflops']:8.1f} TFLOP/s",
              file=sys.stderr)
    report = {"device": torch.cuda.get_device_name(), "results": results,
              "library": f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuBLAS"}
    with open(args.output, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
