// BenchOptions: the knobs of `ashlar bench decode|prefill|op`, declared once (base/options.h).
// Each kind lists only what changes its own result; a flag of another kind is refused.
#ifndef ASHLAR_APPS_BENCH_OPTIONS_H_
#define ASHLAR_APPS_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/options.h"
#include "run_options.h"

namespace ashlar {

enum class BenchKind : uint8_t { kDecode, kPrefill, kOp };

std::string_view bench_kind_name(BenchKind kind);  // "decode"
Result<BenchKind> parse_bench_kind(std::string_view name);

struct BenchOptions {
  DeviceOptions device;
  std::string concurrency = "1,4,8";
  std::string lengths = "128,512,2048";
  std::string rows = "1,8,512";
  std::string contexts = "192";
  int64_t prompt_tokens = 128;
  int64_t tokens = 64;
  int64_t repetitions = 3;
  int64_t step_rows = 512;
  int64_t max_context = 0;
  int64_t depth = 2;
  std::string graphs = "auto";
  bool split = false;
  bool drawn = false;
  bool engine = true;
  bool read_speed = true;
  std::string baseline;
  bool json = false;
  std::string output;

  OptionFields fields(BenchKind kind);
};

// "1,2,4" as numbers from 1 to `most`, in the order given. The error names the flag.
Result<std::vector<int64_t>> parse_counts(std::string_view flag, std::string_view text,
                                          int64_t most);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_OPTIONS_H_
