// A row of logits in blocks of 512; the passes over a block are in sampling/logit_scan_cpu.cc.
#include "sampling/logit_row.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/align.h"
#include "base/check.h"

namespace ashlar {
namespace {

constexpr int64_t kBlock = 512;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

float block_maximum(std::span<const float> x, bool& sound) {
  return max_of_logits(x.data(), static_cast<int64_t>(x.size()), sound);
}

uint64_t block_sum(std::span<const float> x, float max, float scale) {
  return sum_of_weights(x.data(), static_cast<int64_t>(x.size()), max, scale);
}

}  // namespace

LogitRow::LogitRow(int64_t columns) {
  const size_t blocks = static_cast<size_t>(divide_up(columns, kBlock));
  block_max_.resize(blocks);
  block_sum_.resize(blocks);
  touched_.resize(blocks);
  block_order_.reserve(blocks);
  found_.resize(kBlock + 16);
  found_logits_.resize(kBlock + 16);
  found_weights_.resize(kBlock);
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
  for (size_t b = 0; b < blocks; ++b) block_max_[b] = block_maximum(block(b), sound);
  max_ = *std::max_element(block_max_.begin(), block_max_.end());
  return sound;
}

int32_t LogitRow::argmax() const {
  const auto b = std::find(block_max_.begin(), block_max_.end(), max_) - block_max_.begin();
  const std::span<const float> x = block(b);
  return static_cast<int32_t>(b * kBlock + (std::find(x.begin(), x.end(), max_) - x.begin()));
}

uint64_t LogitRow::weight(float logit, float scale) const {
  return logit_weight(logit, max_, scale);
}

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
    if (touched_[b] != 0) block_max_[b] = block_maximum(block(b), sound);
    touched_[b] = 0;
  }
  max_ = *std::max_element(block_max_.begin(), block_max_.end());
}

uint64_t LogitRow::sum_weights(float scale) {
  uint64_t sum = 0;
  for (size_t b = 0; b < block_max_.size(); ++b) {
    const bool light = (block_max_[b] - max_) * scale < -(kWeightBits + 2.0f);
    block_sum_[b] = light ? 0 : block_sum(block(b), max_, scale);
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
    const uint64_t weight = logit_weight(x[i], max_, scale);
    if (target < weight) break;
    target -= weight;
  }
  return static_cast<int32_t>(b * kBlock + i);
}

void LogitRow::gather(float scale, float octaves, std::vector<Candidate>& to) {
  to.clear();
  // A little below the border in terms of logits; the exact test follows.
  const float margin = 1e-3f + 1e-6f * (max_ < 0 ? -max_ : max_);
  const float least = max_ - octaves / scale * 1.0001f - margin;
  for (size_t b = 0; b < block_max_.size(); ++b) {
    if (!(block_max_[b] >= least)) continue;
    const std::span<const float> x = block(static_cast<int64_t>(b));
    const int64_t found = find_at_least(x.data(), static_cast<int64_t>(x.size()), least,
                                        found_.data(), found_logits_.data());
    weights_of_logits(found_logits_.data(), found, max_, scale, found_weights_.data());
    for (int64_t f = 0; f < found; ++f) {
      if (found_weights_[f] == 0 || !((found_logits_[f] - max_) * scale >= -octaves)) continue;
      to.push_back(
          {found_logits_[f], static_cast<int32_t>(b * kBlock) + found_[f], found_weights_[f]});
    }
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
    const int64_t found = find_at_least(x.data(), static_cast<int64_t>(x.size()), least,
                                        found_.data(), found_logits_.data());
    for (int64_t f = 0; f < found; ++f) {
      to.push_back({found_logits_[f], static_cast<int32_t>(b * kBlock) + found_[f], 0});
    }
  }
  std::partial_sort(to.begin(), to.begin() + n, to.end());
  to.resize(static_cast<size_t>(n));
}

}  // namespace ashlar
