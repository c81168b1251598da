// LogitRow: one row of logits cut into blocks, with the passes over it that choosing a token needs.
//
// The weight of a logit x is the integer round(2^40 * 2^fl(fl(x - max) * scale)), scale = log2(e) /
// temperature. Sums of integers do not depend on their order, so blocks, vectors, threads and
// devices cannot change a result, and a token is drawn without rounding. Tokens below 2^-41 of the
// likeliest one weigh 0 and are never drawn. A block keeps its maximum, so that most blocks need no
// second look.
#ifndef ASHLAR_SAMPLING_LOGIT_ROW_H_
#define ASHLAR_SAMPLING_LOGIT_ROW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/logit_scan.h"

namespace ashlar {

struct Candidate {
  float logit = 0;
  int32_t token = 0;
  uint64_t weight = 0;
  // The order in which tokens are preferred: higher logit first, ties to the lower id.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  }
};

class LogitRow {
 public:
  // For rows of at most `columns`; reused from row to row.
  explicit LogitRow(int64_t columns);

  // Looks at a row, which must stay valid. False: it has a NaN or +inf.
  bool load(std::span<float> logits);

  float max() const { return max_; }  // -inf: no token is allowed
  int32_t argmax() const;             // lowest id of the maximum
  float logit(int32_t token) const { return logits_[token]; }
  uint64_t weight(float logit, float scale) const;
  void set(int32_t token, float logit);
  void forbid(std::span<const uint32_t> allowed);  // -inf where the bit is clear
  void refresh();  // after set() and forbid(), before anything else is asked

  // Sum of all weights; 0 only if nothing is allowed. Keeps the sums of blocks for draw().
  uint64_t sum_weights(float scale);
  // The token whose weights, summed in order of ids, first exceed target < sum. After sum_weights
  // of the same scale.
  int32_t draw(float scale, uint64_t target) const;

  // Tokens with a weight above 0 and fl(fl(x - max) * scale) >= -octaves, in order of ids.
  void gather(float scale, float octaves, std::vector<Candidate>& to);
  // The n best tokens, best first; their weights are not set.
  void best(int64_t n, std::vector<Candidate>& to);

 private:
  std::span<const float> block(int64_t index) const;

  std::span<float> logits_;
  float max_ = 0;
  std::vector<float> block_max_;
  std::vector<uint64_t> block_sum_;
  std::vector<uint8_t> touched_;
  std::vector<float> block_order_;
  std::vector<int32_t> found_;  // of one block
  std::vector<float> found_logits_;
  std::vector<uint64_t> found_weights_;
};

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_LOGIT_ROW_H_
