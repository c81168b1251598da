// Ranges and names of the sampling parameters. Refuses what has no meaning; corrects nothing
// silently.
#include "sampling/params.h"

#include <charconv>
#include <cmath>

namespace ashlar {

OptionFields SamplingParams::fields() {
  OptionFields f;
  f.add("temperature", temperature, "0 picks the likeliest token; higher is more random")
      .range(0, 100);
  f.add("top_k", top_k, "draw from the k likeliest tokens; 0: from all").range(0, 1e9);
  f.add("top_p", top_p, "draw from the fewest likeliest tokens that together have this probability")
      .range(0, 1);
  f.add("min_p", min_p, "drop tokens less likely than this share of the likeliest one").range(0, 1);
  f.add("repetition_penalty", repetition_penalty,
        "above 1 makes tokens of prompt and answer less likely")
      .range(0.01, 100);
  f.add("presence_penalty", presence_penalty, "lowers the logit of tokens that the answer contains")
      .range(-100, 100);
  f.add("frequency_penalty", frequency_penalty,
        "lowers it once for each time the answer contains them")
      .range(-100, 100);
  f.add("seed", seed,
        "makes the answer repeatable; without one a random seed is taken and reported");
  f.add("logprobs", logprobs,
        "report the log probability of each token and of so many likeliest ones")
      .range(0, static_cast<double>(kMaxTopLogprobs));
  return f;
}

Status SamplingParams::validate(int64_t decodable) const {
  SamplingParams copy = *this;
  const OptionFields fields = copy.fields();
  for (const OptionField& field : fields.list()) {
    std::optional<double> value;
    if (const auto* d = std::get_if<double*>(&field.target)) value = **d;
    if (const auto* i = std::get_if<int64_t*>(&field.target)) value = static_cast<double>(**i);
    if (const auto* o = std::get_if<std::optional<int64_t>*>(&field.target);
        o != nullptr && field.low) {
      if ((*o)->has_value()) value = static_cast<double>(***o);
    }
    if (!value || !field.low) continue;
    if (!(*value >= *field.low && *value <= *field.high)) {
      return fail(ErrorCode::kInvalidArgument, "{}: {} is out of range, {} to {}", field.name,
                  *value, *field.low, *field.high);
    }
  }
  if (static_cast<int64_t>(logit_bias.size()) > kMaxLogitBias) {
    return fail(ErrorCode::kInvalidArgument, "logit_bias: {} entries; at most {}",
                logit_bias.size(), kMaxLogitBias);
  }
  for (const TokenBias& b : logit_bias) {
    if (b.token < 0 || b.token >= decodable) {
      return fail(ErrorCode::kInvalidArgument, "logit_bias: there is no token {}; ids are below {}",
                  b.token, decodable);
    }
    if (!(std::abs(b.bias) <= 1000.0f)) {
      return fail(ErrorCode::kInvalidArgument,
                  "logit_bias: {} for token {} is out of range, -1000 to 1000", b.bias, b.token);
    }
  }
  return {};
}

Result<TokenBias> parse_token_bias(std::string_view text) {
  TokenBias result;
  const char* end = text.data() + text.size();
  const auto [after_id, id_error] = std::from_chars(text.data(), end, result.token);
  if (id_error == std::errc() && after_id != end && *after_id == '=') {
    const auto [after_bias, bias_error] = std::from_chars(after_id + 1, end, result.bias);
    if (bias_error == std::errc() && after_bias == end) return result;
  }
  return fail(ErrorCode::kInvalidArgument, "logit_bias: '{}' is not a token id, '=' and a number",
              text);
}

}  // namespace ashlar
