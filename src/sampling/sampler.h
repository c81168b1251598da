// Sampler: chooses the next token of one sequence from its logits.
//
// Order of processing: the decodable width (columns beyond are not looked at) · logprobs are taken
// here · logit bias · penalties (repetition over prompt and output: x > 0 ? x / r : x * r; then
// minus frequency * count + presence for tokens of the output) · mask and suppressed end tokens ·
// temperature · top-k · top-p · min-p · draw. Exact meaning. Tokens are ordered by logit, ties to
// the lower id; weights are integers (sampling/logit_row.h). top-k keeps the first k. top-p keeps
// the shortest beginning of what is left whose weights reach ceil(top_p * their sum), at least one
// token. min-p then drops weights below min_p * 2^40, never the first token. The draw takes target
// = floor(bits * sum / 2^64) with 64 bits of (seed, choice, position), and the token where the
// weights of the kept tokens, summed in order of ids, first exceed it. Temperature below 1e-5 is
// greedy: the first token.
#ifndef ASHLAR_SAMPLING_SAMPLER_H_
#define ASHLAR_SAMPLING_SAMPLER_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sampling/generated_token.h"
#include "sampling/logit_row.h"
#include "sampling/params.h"
#include "sampling/token_history.h"

namespace ashlar {

// What one sequence brings along from token to token.
struct SamplerState {
  SamplingParams params;
  uint64_t seed = 0;
  uint32_t choice = 0;
  int64_t end_allowed_from = 0;  // positions before it suppress end_tokens
  std::vector<int32_t> end_tokens;
  TokenHistory history;  // kept only if penalties() holds

  bool penalties() const {
    return params.repetition_penalty != 1 || params.presence_penalty != 0 ||
           params.frequency_penalty != 0;
  }
  // The token that was chosen stays.
  void accept(int32_t token) {
    if (penalties()) history.add_output(token);
  }
};

enum class SampleFailure : uint8_t { kNone, kNotFinite, kNothingAllowed };

class Sampler {
 public:
  // decodable: columns that may be chosen.
  explicit Sampler(int64_t decodable);

  // logits: one row of at least decodable columns, which is changed. position: absolute, of the
  // token to be chosen. allowed: a bit a token, or empty. The result is in `to`, unless it failed.
  SampleFailure sample(const SamplerState& state, std::span<float> logits, int64_t position,
                       std::span<const uint32_t> allowed, GeneratedToken& to);

 private:
  void measure(const SamplerState& state, GeneratedToken& to);
  void adjust(const SamplerState& state, int64_t position, std::span<const uint32_t> allowed);
  void change(int32_t token, float logit);
  int32_t choose(const SamplerState& state, int64_t position);
  void keep_best(float scale, int64_t k);
  uint64_t keep_likely(float scale, double top_p);
  void cut_at_mass(float scale, uint64_t target);

  int64_t decodable_;
  LogitRow row_;
  float raw_max_ = 0;
  double log_sum_ = 0;  // log of the sum of exp(logit - raw_max_)
  std::vector<std::pair<int32_t, float>>
      raw_;                            // logits as they were, of the tokens that were changed
  std::vector<Candidate> candidates_;  // kept tokens, in order of ids
  std::vector<Candidate> order_;
  std::vector<uint64_t> bin_mass_;
};

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_SAMPLER_H_
