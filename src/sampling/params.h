// SamplingParams: how the next token of a request is chosen from its logits, and the check of every
// field's range.
//
// The order of processing and the exact meaning of each field are stated in sampling/sampler.h.
// Stop rules and lengths are not here: they belong to the request (engine/request.h).
#ifndef ASHLAR_SAMPLING_PARAMS_H_
#define ASHLAR_SAMPLING_PARAMS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/options.h"

namespace ashlar {

constexpr int64_t kMaxTopLogprobs = 100;
constexpr int64_t kMaxLogitBias = 1024;  // entries of a request

struct TokenBias {
  int32_t token = 0;
  float bias = 0;  // added to the logit
  friend bool operator==(const TokenBias&, const TokenBias&) = default;
};

struct SamplingParams {
  double temperature = 1.0;         // 0: greedy, the highest logit
  int64_t top_k = 0;                // 0: off
  double top_p = 1.0;               // 1: off
  double min_p = 0.0;               // 0: off
  double repetition_penalty = 1.0;  // 1: off; prompt and output
  double presence_penalty = 0.0;    // output only
  double frequency_penalty = 0.0;   // output only
  std::optional<int64_t> seed;      // absent: a random one, reported with the result
  std::optional<int64_t> logprobs;  // absent: none; N: of the chosen token and of the N likeliest
  std::vector<TokenBias> logit_bias;

  // Every single-valued field, for flags, files and documents. logit_bias is a list of pairs and
  // has its own parser.
  OptionFields fields();

  // Refuses a value out of range by the field's name; decodable is the number of ids a bias may
  // name.
  Status validate(int64_t decodable) const;
};

// "12=-1.5" as of a flag: token id, bias.
Result<TokenBias> parse_token_bias(std::string_view text);

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_PARAMS_H_
