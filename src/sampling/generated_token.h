// GeneratedToken: a chosen token with what was asked to be told about it.
#ifndef ASHLAR_SAMPLING_GENERATED_TOKEN_H_
#define ASHLAR_SAMPLING_GENERATED_TOKEN_H_

#include <cstdint>
#include <vector>

namespace ashlar {

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct GeneratedToken {
  int32_t token = 0;
  float logprob = 0;              // only when logprobs were asked for
  std::vector<TokenLogprob> top;  // likeliest first; as many as were asked for
  friend bool operator==(const GeneratedToken&, const GeneratedToken&) = default;
};

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_GENERATED_TOKEN_H_
