// sample_tokens: the sampler of sampling/sampler.h as one operation over the output rows of a step,
// so that tokens are chosen where the logits are. What it computes is defined there, to the bit:
// weights are integers, so no order of summation shows.
//
// Everything a slot asks for lies in device memory in a fixed-size form (SlotSampling and three
// lists), written when a sequence takes the slot. A device keeps the history of a slot as one count
// per token: kPromptToken is set if it is in the prompt, the rest counts it in the output. The
// tokens chosen here are not yet counted: accept_tokens (kernels/step_rows) does that, since drafts
// decide which of them stay.
#ifndef ASHLAR_SAMPLING_SAMPLE_TOKENS_H_
#define ASHLAR_SAMPLING_SAMPLE_TOKENS_H_

#include <cstdint>
#include <span>

#include "kernels/op.h"
#include "sampling/sampler.h"

namespace ashlar {

constexpr int32_t kPromptToken = INT32_MIN;  // a bit

// SamplerState as a device reads it, without its lists and history.
struct SlotSampling {
  uint64_t seed = 0;
  uint64_t least_weight = 0;  // of min_p
  double top_p = 1.0;         // 1: off
  float scale = 0.0f;         // log2(e) / temperature; 0: greedy
  float repetition = 1.0f;
  float presence = 0.0f;
  float frequency = 0.0f;
  uint32_t choice = 0;
  int32_t top_k = 0;      // 0: off
  int32_t logprobs = -1;  // alternatives to report; -1: no logprobs at all
  int32_t end_allowed_from = 0;
  int32_t biases = 0;
  int32_t end_tokens = 0;
  int32_t penalties = 0;
  int32_t unused = 0;
};
static_assert(sizeof(SlotSampling) == 72);

// The lists must have room for those of the state (CHECK).
SlotSampling slot_sampling(const SamplerState& state, std::span<int32_t> bias_tokens,
                           std::span<float> bias_values, std::span<int32_t> end_tokens);

struct SampleTokensArgs {
  TensorView logits;       // [R V] f32; changed by the CPU's cell alone
  int64_t decodable = 0;   // columns beyond are not read
  TensorView slots;        // [slots sizeof(SlotSampling)] u8
  TensorView bias_tokens;  // [slots N] i32
  TensorView bias_values;  // [slots N] f32
  TensorView end_tokens;   // [slots N] i32
  TensorView counts;       // [slots N] i32, N >= decodable; read only for slots with penalties
  TensorView row_slot;     // [R] i32; -1: padding, which gets token 0, no failure and no logprobs,
                           // and of which nothing else is read
  TensorView row_draft;    // [R] i32: so many drafts of the slot come before the row
  TensorView row_mask;     // [R] i32: row of masks, or -1
  TensorView masks;        // [N words] i32, or empty; bit i % 32 of word i / 32: token i may come
  TensorView drafts;       // [slots N] i32
  TensorView output_rows;  // [R] i32 in [0, T)
  TensorView positions;    // [T] i32; the token of row r is at positions[output_rows[r]] + 1
  TensorView tokens;       // [R] i32, written
  TensorView failures;  // [R] i32, written: SampleFailure; if not 0, the rest of the row is not set
  TensorView logprobs;  // [R] f32, written where asked for
  TensorView top_tokens;    // [R N] i32, written where asked for, likeliest first; N >= asked
  TensorView top_logprobs;  // [R N] f32
};

// Sets one row of counts from a sequence that comes (back) to a slot.
struct CountTokensArgs {
  TensorView tokens;  // [n] i32: prompt, then output; ids that have no count are skipped
  int64_t prompt_tokens = 0;
  TensorView counts;  // [N] i32, overwritten
};

extern const Op<SampleTokensArgs> sample_tokens;
extern const Op<CountTokensArgs> count_tokens;

}  // namespace ashlar

#endif  // ASHLAR_SAMPLING_SAMPLE_TOKENS_H_
