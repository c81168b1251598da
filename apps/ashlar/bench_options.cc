// The option table of `bench` and the lists of numbers in it.
// What the numbers mean to an engine is worked out where it is made (bench_measure.cc).
#include "bench_options.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ashlar {

namespace {

constexpr std::array<std::string_view, 3> kKindNames = {"decode", "prefill", "op"};

}  // namespace

std::string_view bench_kind_name(BenchKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Result<BenchKind> parse_bench_kind(std::string_view name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) {
    return fail(ErrorCode::kInvalidArgument, "bench: there is no '{}'; decode, prefill and op are",
                name);
  }
  return static_cast<BenchKind>(found - kKindNames.begin());
}

OptionFields BenchOptions::fields(BenchKind kind) {
  OptionFields f;
  device.add_to(f);
  if (kind == BenchKind::kDecode) {
    f.add("concurrency", concurrency, "sequences that decode together, a list: 1,4,8");
    f.add("prompt_tokens", prompt_tokens, "prompt tokens of a decoding sequence").range(1, 1 << 20);
    f.add("tokens", tokens, "output tokens of a decoding sequence").range(4, 1 << 20);
  } else if (kind == BenchKind::kPrefill) {
    f.add("lengths", lengths, "prompt lengths, a list: 128,512");
  } else {
    f.add("rows", rows,
          "rows of the steps, a list: up to 64 are sequences that decode, more are a part of a "
          "prompt");
    f.add("contexts", contexts,
          "positions of each sequence, its rows included, a list; a part of a prompt has at least "
          "its own rows");
    f.add("split", split, "one line for each size of an operation");
    f.add("drawn", drawn,
          "draw tokens (temperature 0.7, top-p 0.95) instead of taking the likeliest");
  }
  if (kind != BenchKind::kOp) {
    f.add("repetitions", repetitions, "how often each row is measured").range(1, 1000);
    f.add("step_rows", step_rows, "rows of a step; a longer prompt is computed in several steps")
        .range(1, 65536);
    f.add("max_context", max_context,
          "positions that a sequence may have; 0: as many as the measurement needs")
        .range(0, 1e12);
    f.add("depth", depth, "steps in flight").range(1, 2);
    f.add("graphs", graphs,
          "whether the engine records decode steps and replays them; auto: on a GPU")
        .one_of({"auto", "on", "off"});
    f.add("engine", engine, "measure through the engine, besides the device alone");
  }
  f.add("baseline", baseline, "file of bench/cublas_baseline.py that matmuls are compared with");
  f.add("read_speed", read_speed, "measure as well how fast plain reading is");
  f.add("json", json, "print one JSON object instead of a table");
  f.add("output", output, "file that the JSON object is written to as well");
  return f;
}

Result<std::vector<int64_t>> parse_counts(std::string_view flag, std::string_view text,
                                          int64_t most) {
  std::vector<int64_t> counts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, comma - begin);
    int64_t count = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (error != std::errc() || end != word.data() + word.size() || count < 1 || count > most) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: '{}' is not a list of whole numbers from 1 to {}, like 1,4,8", flag, text,
                  most);
    }
    counts.push_back(count);
    begin = comma + 1;
  }
  return counts;
}

}  // namespace ashlar
