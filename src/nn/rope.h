// Rope: cosines and sines of rotary positions (Su et al. 2021), for every position a model may see,
// and the ways in which families stretch them: linear, llama3, yarn (Peng et al. 2023), or divisors
// that a file states.
//
// Frequencies and angles are double and round once, to the f32 of the table. The table ends with
// the context length; an operation that meets a later position ends the process, so the engine
// admits none.
#ifndef ASHLAR_NN_ROPE_H_
#define ASHLAR_NN_ROPE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "tensor/buffer.h"

namespace ashlar {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double original_context = 0.0;  // llama3, yarn: positions before stretching
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;         // yarn
  bool truncate = true;           // yarn: whole bounds of the ramp
  double attention_factor = 1.0;  // multiplies cosines and sines
  std::vector<double> divisors;   // [K/2] of the inverse frequencies, or empty
};

// Factor of cosines and sines that yarn implies when a configuration states none.
double yarn_attention_factor(double factor, std::optional<double> mscale,
                             std::optional<double> mscale_all_dim);

// [K/2], after scaling.
std::vector<double> rope_inverse_frequencies(const RopeConfig& config, int64_t head_size);

class Rope {
 public:
  // Refuses a table of more than 1 GiB: a context of millions of positions has to be asked for
  // smaller.
  static Result<std::shared_ptr<const Rope>> make(Device& device, const RopeConfig& config,
                                                  int64_t head_size, int64_t positions);

  // [positions K] f32: K/2 cosines, then K/2 sines.
  TensorView cos_sin() const { return table_.view(DType::kF32, {positions_, head_size_}); }

 private:
  Buffer table_;
  int64_t positions_ = 0;
  int64_t head_size_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_NN_ROPE_H_
