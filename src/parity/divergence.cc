// The sums behind divergence.h, in double: a divergence of 1e-9 nat is a difference of sums near 1,
// which float cannot show. Quantiles are of the sorted values, nearest rank.
#include "parity/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ashlar {

namespace {

double log_sum_exp(std::span<const float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float v : logits) sum += std::exp(static_cast<double>(v) - top);
  return top + std::log(sum);
}

double quantile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

double top_divergence(std::span<const float> logits, const TopReference& reference) {
  CHECK_EQ(reference.ids.size(), reference.logprobs.size());
  const double ours_total = log_sum_exp(logits);
  double sum = 0;
  double kept = 0;  // reference mass of the kept ids, for renormalisation
  std::vector<bool> is_kept(logits.size());
  for (size_t i = 0; i < reference.ids.size(); ++i) {
    const auto id = static_cast<size_t>(reference.ids[i]);
    CHECK_LT(id, logits.size());
    is_kept[id] = true;
    const double p = std::exp(static_cast<double>(reference.logprobs[i]));
    kept += p;
    sum += p * (reference.logprobs[i] - (logits[id] - ours_total));
  }
  const double rest = std::exp(reference.rest_logprob);
  if (rest > 0) {
    double ours_rest = 0;
    for (size_t id = 0; id < logits.size(); ++id) {
      if (!is_kept[id]) ours_rest += std::exp(logits[id] - ours_total);
    }
    sum += rest * (reference.rest_logprob - std::log(ours_rest));
  }
  // The stored logprobs are float32, so their masses add up to 1 within 1e-7 only; without this the
  // rounding would show as a divergence of either sign.
  const double mass = kept + rest;
  return sum / mass - std::log(mass);
}

double full_divergence(std::span<const float> logits, std::span<const float> reference_logits) {
  CHECK_EQ(logits.size(), reference_logits.size());
  const double ours_total = log_sum_exp(logits);
  const double reference_total = log_sum_exp(reference_logits);
  double sum = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    const double reference = reference_logits[id] - reference_total;
    sum += std::exp(reference) * (reference - (logits[id] - ours_total));
  }
  return sum;
}

int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void DivergenceMeter::add(std::span<const float> logits, const TopReference& reference) {
  const bool finite = std::all_of(logits.begin(), logits.end(),
                                  [](float v) { return !std::isnan(v) && v < INFINITY; });
  const double divergence = finite ? top_divergence(logits, reference) : NAN;
  if (!finite || std::isnan(divergence)) ++counts_.non_finite;
  values_.push_back(divergence);
  const bool equal = argmax(logits) == reference.ids[0];
  const bool near_tie = reference.margin <= reference.noise;
  ++counts_.compared;
  counts_.top1_equal += equal;
  counts_.near_ties += near_tie;
  counts_.top1_wrong += !equal && !near_tie;
}

DivergenceSummary DivergenceMeter::summary() const {
  DivergenceSummary summary = counts_;
  summary.positions = static_cast<int64_t>(values_.size());
  if (values_.empty()) return summary;
  std::vector<double> sorted = values_;
  // A NaN sorts last, as the worst value that it is.
  std::sort(sorted.begin(), sorted.end(),
            [](double a, double b) { return std::isnan(a) ? false : std::isnan(b) || a < b; });
  for (double v : sorted) summary.mean += v;
  summary.mean /= static_cast<double>(sorted.size());
  summary.median = quantile(sorted, 0.5);
  summary.p99 = quantile(sorted, 0.99);
  summary.p999 = quantile(sorted, 0.999);
  summary.max = sorted.back();
  return summary;
}

std::string DivergenceSummary::text() const {
  std::string out = fmt::format(
      "{} positions: KL mean {:.3e} median {:.3e} p99 {:.3e} p99.9 {:.3e} max {:.3e}, non-finite "
      "{}",
      positions, mean, median, p99, p999, max, non_finite);
  if (compared == 0) return out;
  const double share = static_cast<double>(top1_equal) / static_cast<double>(compared);
  return out + fmt::format("; top-1 equal {:.3f} %, wrong outside near ties {} (near ties {})",
                           100 * share, top1_wrong, near_ties);
}

}  // namespace ashlar
