// TokenHistory: how often each token occurred, for the penalties. Kept incrementally while a
// sequence runs and rebuilt from its tokens when it comes back after a preemption. Sparse: a
// context has far fewer distinct tokens than ids.
#ifndef ASHLAR_SAMPLING_TOKEN_HISTORY_H_
#define ASHLAR_SAMPLING_TOKEN_HISTORY_H_

#include <cstdint>
#include <span>
#include <unordered_map>

namespace ashlar {

class TokenHistory {
 public:
  // tokens: prompt, then output.
  void rebuild(std::span<const int32_t> tokens, int64_t prompt_tokens) {
    output_counts_.clear();
    for (size_t i = 0; i < tokens.size(); ++i) {
      output_counts_[tokens[i]] += static_cast<int64_t>(i) < prompt_tokens ? 0 : 1;
    }
  }
  void add_output(int32_t token) { ++output_counts_[token]; }
  void clear() { output_counts_.clear(); }

  // Every token of prompt or output, with its count in the output.
  const std::unordered_map<int32_t, int32_t>& output_counts() const { return output_counts_; }

 private:
  std::unordered_map<int32_t, int32_t> output_counts_;
};

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_TOKEN_HISTORY_H_
