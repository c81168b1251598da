// Contracts, costs and references of sample_tokens and count_tokens; the reference is the Sampler.
#include "sampling/sample_tokens.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "kernels/check_vector.h"

namespace ashlar {

[[gnu::weak]] void sample_tokens_cuda(Stream& stream, const SampleTokensArgs& args);
[[gnu::weak]] void count_tokens_cuda(Stream& stream, const CountTokensArgs& args);

namespace {

constexpr double kLeastTemperature = 1e-5;  // below it the sampler is greedy

void check_matrix(const ShapeCheck& check, const TensorView& view, int64_t rows, DType type,
                  const char* name) {
  check.require(view.shape().rank() == 2 && view.dim(0) == rows, name);
  check.dtype(view, type, name);
}

void sample_contract(const SampleTokensArgs& args, const ShapeCheck& check) {
  const int64_t rows = args.logits.dim(0);
  const int64_t slots = args.slots.dim(0);
  check_matrix(check, args.logits, rows, DType::kF32, "logits [R V]");
  check.require(args.decodable > 0 && args.decodable <= args.logits.dim(1),
                "decodable of 1 to V columns");
  check_matrix(check, args.slots, slots, DType::kU8, "slots [slots N]");
  check.require(args.slots.dim(1) == sizeof(SlotSampling), "slots of SlotSampling");
  check_matrix(check, args.bias_tokens, slots, DType::kI32, "bias_tokens [slots N]");
  check_matrix(check, args.bias_values, slots, DType::kF32, "bias_values [slots N]");
  check_matrix(check, args.end_tokens, slots, DType::kI32, "end_tokens [slots N]");
  if (!args.counts.empty()) {
    check_matrix(check, args.counts, slots, DType::kI32, "counts [slots N]");
    check.require(args.counts.dim(1) >= args.decodable, "a count for each decodable token");
  }
  check_vector(check, args.row_slot, rows, "row_slot");
  check_vector(check, args.row_draft, rows, "row_draft");
  check_vector(check, args.row_mask, rows, "row_mask");
  if (!args.masks.empty()) {
    check_matrix(check, args.masks, args.masks.dim(0), DType::kI32, "masks [N words]");
    check.require(args.masks.dim(1) * 32 >= args.decodable, "masks as wide as decodable");
  }
  check_matrix(check, args.drafts, slots, DType::kI32, "drafts [slots N]");
  check_vector(check, args.output_rows, rows, "output_rows");
  check.dtype(args.positions, DType::kI32, "positions");
  check_vector(check, args.tokens, rows, "tokens");
  check_vector(check, args.failures, rows, "failures");
  check.shape(args.logprobs, {rows}, "logprobs");
  check.dtype(args.logprobs, DType::kF32, "logprobs");
  check_matrix(check, args.top_tokens, rows, DType::kI32, "top_tokens [R N]");
  check_matrix(check, args.top_logprobs, rows, DType::kF32, "top_logprobs [R N]");
}

OpCost sample_cost(const SampleTokensArgs& args) {
  const int64_t count = args.logits.dim(0) * args.decodable;
  return {.bytes = 4 * count, .flops = count};
}

// What the slot of a row keeps on the device, as a sequence keeps it on the host.
SamplerState state_of(const SampleTokensArgs& args, int32_t slot, int32_t drafts) {
  SlotSampling from;
  std::memcpy(&from, args.slots.row<uint8_t>(slot), sizeof(from));
  SamplerState state;
  // The way back from temperature to scale rounds to f32 and ends at the same scale.
  state.params.temperature =
      from.scale == 0.0f ? 0.0 : std::numbers::log2e / static_cast<double>(from.scale);
  state.params.top_k = from.top_k;
  state.params.top_p = from.top_p;
  state.params.min_p = static_cast<double>(from.least_weight) / static_cast<double>(kFullWeight);
  state.params.repetition_penalty = from.repetition;
  state.params.presence_penalty = from.presence;
  state.params.frequency_penalty = from.frequency;
  if (from.logprobs >= 0) state.params.logprobs = from.logprobs;
  for (int32_t i = 0; i < from.biases; ++i) {
    state.params.logit_bias.push_back(
        {args.bias_tokens.row<int32_t>(slot)[i], args.bias_values.row<float>(slot)[i]});
  }
  state.seed = from.seed;
  state.choice = from.choice;
  state.end_allowed_from = from.end_allowed_from;
  const int32_t* ends = args.end_tokens.row<int32_t>(slot);
  state.end_tokens.assign(ends, ends + from.end_tokens);
  if (from.penalties == 0) return state;
  std::vector<int32_t> prompt;
  std::vector<int32_t> output;
  for (int32_t token = 0; token < args.decodable; ++token) {
    const int32_t count = args.counts.row<int32_t>(slot)[token];
    if ((count & kPromptToken) != 0) prompt.push_back(token);
    output.insert(output.end(), static_cast<size_t>(count & ~kPromptToken), token);
  }
  const int64_t prompt_tokens = static_cast<int64_t>(prompt.size());
  prompt.insert(prompt.end(), output.begin(), output.end());
  state.history.rebuild(prompt, prompt_tokens);
  for (int32_t i = 0; i < drafts; ++i) state.history.add_output(args.drafts.row<int32_t>(slot)[i]);
  return state;
}

void sample_reference(Stream&, const SampleTokensArgs& args) {
  Sampler sampler(args.decodable);
  for (int64_t r = 0; r < args.logits.dim(0); ++r) {
    int32_t& failure = args.failures.as<int32_t>()[r];
    int32_t& chosen = args.tokens.as<int32_t>()[r];
    failure = chosen = 0;
    const int32_t slot = args.row_slot.as<int32_t>()[r];
    if (slot < 0) continue;
    const SamplerState state = state_of(args, slot, args.row_draft.as<int32_t>()[r]);
    const int64_t position = args.positions.as<int32_t>()[args.output_rows.as<int32_t>()[r]] + 1;
    const int32_t mask = args.row_mask.as<int32_t>()[r];
    std::vector<uint32_t> allowed;
    if (mask >= 0) {
      const int32_t* words = args.masks.row<int32_t>(mask);
      allowed.assign(words, words + args.masks.dim(1));
    }
    GeneratedToken token;
    const std::span<float> logits(args.logits.row<float>(r),
                                  static_cast<size_t>(args.logits.dim(1)));
    failure = static_cast<int32_t>(sampler.sample(state, logits, position, allowed, token));
    if (failure != 0) continue;
    chosen = token.token;
    args.logprobs.as<float>()[r] = token.logprob;
    for (size_t i = 0; i < token.top.size(); ++i) {
      args.top_tokens.row<int32_t>(r)[i] = token.top[i].token;
      args.top_logprobs.row<float>(r)[i] = token.top[i].logprob;
    }
  }
}

void count_contract(const CountTokensArgs& args, const ShapeCheck& check) {
  check.require(args.tokens.shape().rank() == 1 && args.counts.shape().rank() == 1,
                "tokens [n] and counts [N]");
  check.dtype(args.tokens, DType::kI32, "tokens");
  check.dtype(args.counts, DType::kI32, "counts");
}

OpCost count_cost(const CountTokensArgs& args) {
  return {.bytes = 4 * (3 * args.tokens.dim(0) + args.counts.dim(0)), .flops = 0};
}

void count_reference(Stream&, const CountTokensArgs& args) {
  int32_t* counts = args.counts.as<int32_t>();
  std::fill_n(counts, args.counts.dim(0), 0);
  for (int64_t i = 0; i < args.tokens.dim(0); ++i) {
    const int32_t token = args.tokens.as<int32_t>()[i];
    if (token < 0 || token >= args.counts.dim(0)) continue;
    if (i < args.prompt_tokens) {
      counts[token] |= kPromptToken;
    } else {
      ++counts[token];
    }
  }
}

}  // namespace

SlotSampling slot_sampling(const SamplerState& state, std::span<int32_t> bias_tokens,
                           std::span<float> bias_values, std::span<int32_t> end_tokens) {
  const SamplingParams& p = state.params;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  CHECK_LE(p.logit_bias.size(), std::min(bias_tokens.size(), bias_values.size()));
  CHECK_LE(state.end_tokens.size(), end_tokens.size());
  SlotSampling to;
  to.seed = state.seed;
  to.least_weight = static_cast<uint64_t>(std::ceil(p.min_p * static_cast<double>(kFullWeight)));
  to.top_p = p.top_p;
  to.scale = p.temperature < kLeastTemperature
                 ? 0.0f
                 : static_cast<float>(std::numbers::log2e / p.temperature);
  to.repetition = static_cast<float>(p.repetition_penalty);
  to.presence = static_cast<float>(p.presence_penalty);
  to.frequency = static_cast<float>(p.frequency_penalty);
  to.choice = state.choice;
  to.top_k = static_cast<int32_t>(std::min(p.top_k, kMost));
  to.logprobs = p.logprobs ? static_cast<int32_t>(*p.logprobs) : -1;
  to.end_allowed_from = static_cast<int32_t>(std::min(state.end_allowed_from, kMost));
  to.biases = static_cast<int32_t>(p.logit_bias.size());
  for (size_t i = 0; i < p.logit_bias.size(); ++i) {
    bias_tokens[i] = p.logit_bias[i].token;
    bias_values[i] = p.logit_bias[i].bias;
  }
  to.end_tokens = static_cast<int32_t>(state.end_tokens.size());
  std::copy(state.end_tokens.begin(), state.end_tokens.end(), end_tokens.begin());
  to.penalties = state.penalties() ? 1 : 0;
  return to;
}

constinit const Op<SampleTokensArgs> sample_tokens = {
    "sample_tokens", sample_contract, sample_cost, sample_reference, {nullptr, sample_tokens_cuda}};

constinit const Op<CountTokensArgs> count_tokens = {
    "count_tokens", count_contract, count_cost, count_reference, {nullptr, count_tokens_cuda}};

}  // namespace ashlar
