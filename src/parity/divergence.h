// How far logits are from a reference: Kullback-Leibler divergence a position, agreement of the
// most likely token, and their distribution over many positions.
//
// Divergence is KL(reference || ours) in nat, summed in double over the decodable vocabulary, both
// sides renormalised. A reference may keep its top ids only and the rest as one bucket; the
// divergence is then over those buckets, which is never more than the full one. A near tie is a
// position where the reference's own margin between its first and second token is no larger than
// its bf16 noise; top-1 must agree everywhere else.
#ifndef ASHLAR_PARITY_DIVERGENCE_H_
#define ASHLAR_PARITY_DIVERGENCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ashlar {

// One position of a reference that keeps its top ids, most likely first.
struct TopReference {
  std::span<const int32_t> ids;
  std::span<const float> logprobs;  // of ids, in nat
  double rest_logprob = 0;          // of all other ids together; -inf if there are none
  float margin = 0;                 // logprob of the first minus the second id, in float32
  float noise = 0;                  // |margin in bf16 - margin in float32|
};

// logits: our row over the decodable vocabulary. Every id must be below logits.size().
double top_divergence(std::span<const float> logits, const TopReference& reference);

// Both rows over the same decodable vocabulary, unnormalised.
double full_divergence(std::span<const float> logits, std::span<const float> reference_logits);

// Lowest id of the largest logit.
int32_t argmax(std::span<const float> logits);

struct DivergenceSummary {
  int64_t positions = 0;
  double mean = 0, median = 0, p99 = 0, p999 = 0, max = 0;
  int64_t compared = 0;    // positions whose most likely token was compared
  int64_t top1_equal = 0;  // of those
  int64_t top1_wrong = 0;  // differs although the margin exceeds the noise
  int64_t near_ties = 0;   // positions where a difference is excused
  int64_t non_finite = 0;  // positions with a NaN or +inf logit or a NaN divergence

  std::string text() const;
};

class DivergenceMeter {
 public:
  void add(std::span<const float> logits, const TopReference& reference);
  void add_value(double divergence) { values_.push_back(divergence); }
  DivergenceSummary summary() const;

 private:
  std::vector<double> values_;
  DivergenceSummary counts_;
};

}  // namespace ashlar

#endif  // ASHLAR_PARITY_DIVERGENCE_H_
