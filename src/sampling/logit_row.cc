// Passes over a row of logits. Inner loops have a fixed length of sixteen, which the compiler turns into vector code.
#include "sampling/logit_row.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "base/align.h"
#include "base/check.h"
#include "kernels/math/activation.h"

namespace ashlar {
namespace {

constexpr int64_t kBlock = 512;
constexpr int kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rounds to the nearest integer, ties to even, by adding 2^52; exact for 0 <= w <= 1.
[[gnu::always_inline]] inline uint64_t fixed_weight(float w) {
  const double shifted = static_cast<double>(w) * static_cast<double>(kFullWeight) + 0x1p52;
  return std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(0x1p52);
}

[[gnu::always_inline]] inline uint64_t weight_of(float x, float max, float scale) {
  return fixed_weight(exp2((x - max) * scale));
}

// The maximum of a block; NaN or +inf anywhere makes `sound` false.
float scan_block(std::span<const float> x, bool& sound) {
  float lanes[kLanes];
  uint32_t bad[kLanes] = {};
  std::fill(lanes, lanes + kLanes, -kInfinity);
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float v = x[i + l];
      lanes[l] = v > lanes[l] ? v : lanes[l];
      bad[l] |= v < kInfinity ? 0u : 1u;  // also true for NaN
    }
  }
  for (; i < x.size(); ++i) {
    lanes[0] = std::max(lanes[0], x[i]);
    bad[0] |= x[i] < kInfinity ? 0u : 1u;
  }
  for (uint32_t b : bad) sound = sound && b == 0;
  return *std::max_element(lanes, lanes + kLanes);
}

uint64_t sum_block(std::span<const float> x, float max, float scale) {
  float weights[kLanes];
  uint64_t sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (int l = 0; l < kLanes; ++l) weights[l] = exp2((x[i + l] - max) * scale);
    for (int l = 0; l < kLanes; ++l) sums[l] += fixed_weight(weights[l]);
  }
  for (; i < x.size(); ++i) sums[0] += weight_of(x[i], max, scale);
  uint64_t sum = 0;
  for (uint64_t s : sums) sum += s;
  return sum;
}

bool any_at_least(const float* x, float least) {
  uint32_t found[kLanes];
  for (int l = 0; l < kLanes; ++l) found[l] = x[l] >= least ? 1u : 0u;
  uint32_t any = 0;
  for (int l = 0; l < kLanes; ++l) any |= found[l];
  return any != 0;
}

// Calls visit(index) for each element >= least, ascending.
template <class Visit>
void visit_at_least(std::span<const float> x, float least, const Visit& visit) {
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    if (!any_at_least(&x[i], least)) continue;
    for (int l = 0; l < kLanes; ++l) {
      if (x[i + l] >= least) visit(i + l);
    }
  }
  for (; i < x.size(); ++i) {
    if (x[i] >= least) visit(i);
  }
}

}  // namespace

LogitRow::LogitRow(int64_t columns) {
  const size_t blocks = static_cast<size_t>(divide_up(columns, kBlock));
  block_max_.resize(blocks);
  block_sum_.resize(blocks);
  touched_.resize(blocks);
  block_order_.reserve(blocks);
}

std::span<const float> LogitRow::block(int64_t index) const {
  const size_t begin = static_cast<size_t>(index * kBlock);
  return std::span<const float>(logits_).subspan(
      begin, std::min(static_cast<size_t>(kBlock), logits_.size() - begin));
}

bool LogitRow::load(std::span<float> logits) {
  logits_ = logits;
  const size_t blocks = static_cast<size_t>(divide_up(static_cast<int64_t>(logits.size()), kBlock));
  CHECK_LE(blocks, block_sum_.capacity());
  block_max_.resize(blocks);
  block_sum_.resize(blocks);
  touched_.assign(blocks, 0);
  bool sound = true;
  for (size_t b = 0; b < blocks; ++b) block_max_[b] = scan_block(block(b), sound);
  max_ = *std::max_element(block_max_.begin(), block_max_.end());
  return sound;
}

int32_t LogitRow::argmax() const {
  const auto b = std::find(block_max_.begin(), block_max_.end(), max_) - block_max_.begin();
  const std::span<const float> x = block(b);
  return static_cast<int32_t>(b * kBlock + (std::find(x.begin(), x.end(), max_) - x.begin()));
}

uint64_t LogitRow::weight(float logit, float scale) const { return weight_of(logit, max_, scale); }

void LogitRow::set(int32_t token, float logit) {
  logits_[token] = logit;
  touched_[token / kBlock] = 1;
}

void LogitRow::forbid(std::span<const uint32_t> allowed) {
  for (size_t word = 0; word * 32 < logits_.size(); ++word) {
    const uint32_t bits = allowed[word];
    if (bits == ~0u) continue;
    const size_t begin = word * 32;
    const size_t count = std::min<size_t>(32, logits_.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      if ((bits >> i & 1u) == 0) logits_[begin + i] = -kInfinity;
    }
    touched_[begin / kBlock] = 1;
  }
}

void LogitRow::refresh() {
  bool sound = true;
  for (size_t b = 0; b < touched_.size(); ++b) {
    if (touched_[b] != 0) block_max_[b] = scan_block(block(b), sound);
    touched_[b] = 0;
  }
  max_ = *std::max_element(block_max_.begin(), block_max_.end());
}

uint64_t LogitRow::sum_weights(float scale) {
  uint64_t sum = 0;
  for (size_t b = 0; b < block_max_.size(); ++b) {
    const bool light = (block_max_[b] - max_) * scale < -(kWeightBits + 2.0f);
    block_sum_[b] = light ? 0 : sum_block(block(b), max_, scale);
    sum += block_sum_[b];
  }
  return sum;
}

int32_t LogitRow::draw(float scale, uint64_t target) const {
  size_t b = 0;
  while (target >= block_sum_[b]) target -= block_sum_[b++];
  const std::span<const float> x = block(static_cast<int64_t>(b));
  size_t i = 0;
  for (;; ++i) {
    CHECK_LT(i, x.size());
    const uint64_t weight = weight_of(x[i], max_, scale);
    if (target < weight) break;
    target -= weight;
  }
  return static_cast<int32_t>(b * kBlock + i);
}

void LogitRow::gather(float scale, float octaves, std::vector<Candidate>& to) const {
  to.clear();
  // A little below the border in terms of logits; the exact test follows.
  const float margin = 1e-3f + 1e-6f * (max_ < 0 ? -max_ : max_);
  const float least = max_ - octaves / scale * 1.0001f - margin;
  for (size_t b = 0; b < block_max_.size(); ++b) {
    if (!(block_max_[b] >= least)) continue;
    const std::span<const float> x = block(static_cast<int64_t>(b));
    visit_at_least(x, least, [&](size_t i) {
      const float exponent = (x[i] - max_) * scale;
      if (!(exponent >= -octaves)) return;
      const uint64_t weight = fixed_weight(exp2(exponent));
      if (weight > 0) to.push_back({x[i], static_cast<int32_t>(b * kBlock + i), weight});
    });
  }
}

void LogitRow::best(int64_t n, std::vector<Candidate>& to) {
  to.clear();
  n = std::min<int64_t>(n, static_cast<int64_t>(logits_.size()));
  if (n <= 0) return;
  // The n-th best block maximum is no better than the n-th best token.
  float least = -kInfinity;
  if (n <= static_cast<int64_t>(block_max_.size())) {
    block_order_.assign(block_max_.begin(), block_max_.end());
    std::nth_element(block_order_.begin(), block_order_.begin() + (n - 1), block_order_.end(),
                     std::greater<>());
    least = block_order_[n - 1];
  }
  for (size_t b = 0; b < block_max_.size(); ++b) {
    if (!(block_max_[b] >= least)) continue;
    const std::span<const float> x = block(static_cast<int64_t>(b));
    visit_at_least(x, least, [&](size_t i) {
      to.push_back({x[i], static_cast<int32_t>(b * kBlock + i), 0});
    });
  }
  std::partial_sort(to.begin(), to.begin() + n, to.end());
  to.resize(static_cast<size_t>(n));
}

}  // namespace ashlar
