// The rules of choosing a token. Nothing here sorts a vocabulary: candidates are gathered from the
// top, in widening steps where their number is not known, and only the border is selected among
// them.
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.h"
#include "sampling/philox.h"

namespace ashlar {
namespace {

constexpr double kLeastTemperature = 1e-5;
constexpr float kForbidden = -std::numeric_limits<float>::infinity();
// Octaves below the likeliest token that are gathered in turn until the wanted mass is found.
constexpr float kOctaves[] = {5, 12, 22, kWeightBits + 2};

uint64_t sum_of(const std::vector<Candidate>& candidates) {
  uint64_t sum = 0;
  for (const Candidate& c : candidates) sum += c.weight;
  return sum;
}

uint64_t mass_target(double top_p, uint64_t sum) {
  const double target = std::ceil(top_p * static_cast<double>(sum));
  return std::clamp<uint64_t>(static_cast<uint64_t>(target), 1, sum);
}

uint64_t scaled(uint64_t bits, uint64_t sum) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * sum >> 64);
}

void order_by_id(std::vector<Candidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

}  // namespace

Sampler::Sampler(int64_t decodable) : decodable_(decodable), row_(decodable) {}

SampleFailure Sampler::sample(const SamplerState& state, std::span<float> logits, int64_t position,
                              std::span<const uint32_t> allowed, GeneratedToken& to) {
  CHECK_GE(static_cast<int64_t>(logits.size()), decodable_);
  to = {};
  raw_.clear();
  if (!row_.load(logits.first(static_cast<size_t>(decodable_)))) return SampleFailure::kNotFinite;
  if (row_.max() == kForbidden) return SampleFailure::kNothingAllowed;
  if (state.params.logprobs) measure(state, to);
  adjust(state, position, allowed);
  if (row_.max() == kForbidden) return SampleFailure::kNothingAllowed;
  to.token = choose(state, position);
  if (state.params.logprobs) {
    float raw = row_.logit(to.token);
    for (auto change = raw_.rbegin(); change != raw_.rend(); ++change) {
      if (change->first == to.token) raw = change->second;  // the first change holds the original
    }
    to.logprob = static_cast<float>(static_cast<double>(raw) - raw_max_ - log_sum_);
  }
  return SampleFailure::kNone;
}

void Sampler::measure(const SamplerState& state, GeneratedToken& to) {
  const uint64_t sum = row_.sum_weights(std::numbers::log2e_v<float>);
  raw_max_ = row_.max();
  log_sum_ = std::log(static_cast<double>(sum) / static_cast<double>(kFullWeight));
  row_.best(*state.params.logprobs, order_);
  for (const Candidate& c : order_) {
    to.top.push_back(
        {c.token, static_cast<float>(static_cast<double>(c.logit) - raw_max_ - log_sum_)});
  }
}

void Sampler::change(int32_t token, float logit) {
  raw_.emplace_back(token, row_.logit(token));
  row_.set(token, logit);
}

void Sampler::adjust(const SamplerState& state, int64_t position,
                     std::span<const uint32_t> allowed) {
  const SamplingParams& p = state.params;
  for (const TokenBias& b : p.logit_bias) change(b.token, row_.logit(b.token) + b.bias);
  if (state.penalties()) {
    const float repetition = static_cast<float>(p.repetition_penalty);
    const float presence = static_cast<float>(p.presence_penalty);
    const float frequency = static_cast<float>(p.frequency_penalty);
    for (const auto& [token, count] : state.history.output_counts()) {
      if (token < 0 || token >= decodable_) continue;
      float x = row_.logit(token);
      x = x > 0 ? x / repetition : x * repetition;
      if (count > 0) x -= frequency * static_cast<float>(count) + presence;
      change(token, x);
    }
  }
  if (!allowed.empty()) row_.forbid(allowed);
  if (position < state.end_allowed_from) {
    for (int32_t token : state.end_tokens) {
      if (token >= 0 && token < decodable_) change(token, kForbidden);
    }
  }
  row_.refresh();
}

int32_t Sampler::choose(const SamplerState& state, int64_t position) {
  const SamplingParams& p = state.params;
  if (p.temperature < kLeastTemperature || p.top_k == 1) return row_.argmax();
  const float scale = static_cast<float>(std::numbers::log2e / p.temperature);
  const uint64_t bits = random_bits(state.seed, state.choice, position, RandomPurpose::kToken);
  const bool cut_k = p.top_k > 0 && p.top_k < decodable_;
  const bool cut_p = p.top_p < 1;
  if (!cut_k && !cut_p && p.min_p <= 0) {
    return row_.draw(scale, scaled(bits, row_.sum_weights(scale)));
  }
  if (cut_k) {
    keep_best(scale, p.top_k);
    if (cut_p) cut_at_mass(scale, mass_target(p.top_p, sum_of(candidates_)));
  } else if (cut_p) {
    cut_at_mass(scale, keep_likely(scale, p.top_p));
  } else {
    row_.gather(scale, static_cast<float>(1 - std::log2(p.min_p)), candidates_);
  }
  const uint64_t least =
      static_cast<uint64_t>(std::ceil(p.min_p * static_cast<double>(kFullWeight)));
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < least; });
  uint64_t target = scaled(bits, sum_of(candidates_));
  for (const Candidate& c : candidates_) {
    if (target < c.weight) return c.token;
    target -= c.weight;
  }
  CHECK(false);
  return 0;
}

void Sampler::keep_best(float scale, int64_t k) {
  row_.best(k, candidates_);
  for (Candidate& c : candidates_) c.weight = row_.weight(c.logit, scale);
  order_by_id(candidates_);
}

// Gathers at least the tokens that reach the mass, which it returns.
uint64_t Sampler::keep_likely(float scale, double top_p) {
  const uint64_t target = mass_target(top_p, row_.sum_weights(scale));
  for (float octaves : kOctaves) {
    row_.gather(scale, octaves, candidates_);
    if (sum_of(candidates_) >= target) break;
  }
  return target;
}

// Keeps the shortest beginning, in order of preference, whose weights reach the target. Bins of an
// eighth of an octave find where the border lies; only that bin is sorted.
void Sampler::cut_at_mass(float scale, uint64_t target) {
  constexpr int32_t kBins = 8 * (kWeightBits + 3);
  const float max = row_.max();
  const auto bin_of = [&](const Candidate& c) {
    return static_cast<int32_t>(std::min((max - c.logit) * scale * 8.0f, kBins - 1.0f));
  };
  bin_mass_.assign(kBins, 0);
  for (const Candidate& c : candidates_) bin_mass_[bin_of(c)] += c.weight;
  int32_t border_bin = 0;
  while (target > bin_mass_[border_bin]) target -= bin_mass_[border_bin++];
  order_.clear();
  for (const Candidate& c : candidates_) {
    if (bin_of(c) == border_bin) order_.push_back(c);
  }
  std::sort(order_.begin(), order_.end());
  auto last = order_.begin();
  while (target > last->weight) target -= (last++)->weight;
  const Candidate border = *last;
  std::erase_if(candidates_, [&](const Candidate& c) { return border < c; });
}

}  // namespace ashlar
