// The sample part as operations over device memory: what a slot asks for lies there from the time
// that a sequence takes it, and only tokens and what was asked to be told of them travel back.
#include <algorithm>

#include "base/align.h"
#include "base/check.h"
#include "engine/step_sampler.h"
#include "engine/view_cutter.h"
#include "kernels/step_rows/step_rows.h"
#include "sampling/sample_tokens.h"

namespace ashlar {
namespace {

// What slots keep on the device from the time that a sequence takes them.
struct SlotArrays {
  TensorView slots;        // [slots 72] u8
  TensorView bias_tokens;  // [slots kMaxLogitBias]
  TensorView bias_values;  // [slots kMaxLogitBias] f32
  TensorView end_tokens;   // [slots kMaxEndTokens]
  TensorView counts;       // [slots decodable]
  TensorView counted;      // [slots]
  TensorView masks;        // [slots words], of a step

  SlotArrays(ViewCutter& cut, const SamplerSizes& sizes)
      : slots(cut.take(DType::kU8, {sizes.slots, static_cast<int64_t>(sizeof(SlotSampling))})),
        bias_tokens(cut.take_i32({sizes.slots, kMaxLogitBias})),
        bias_values(cut.take(DType::kF32, {sizes.slots, kMaxLogitBias})),
        end_tokens(cut.take_i32({sizes.slots, kMaxEndTokens})),
        counts(cut.take_i32({sizes.slots, sizes.decodable})),
        counted(cut.take_i32({sizes.slots})),
        masks(cut.take_i32({sizes.slots, divide_up(sizes.decodable, 32)})) {}
};

// The results of a step; first what every step needs.
struct ResultArrays {
  TensorView accepted;      // [slots]: of the first S sequences
  TensorView tokens;        // [R]
  TensorView failures;      // [R]
  TensorView logprobs;      // [R] f32
  TensorView top_tokens;    // [R N]
  TensorView top_logprobs;  // [R N] f32

  ResultArrays(ViewCutter& cut, const SamplerSizes& sizes)
      : accepted(cut.take_i32({sizes.slots})),
        tokens(cut.take_i32({sizes.output_rows})),
        failures(cut.take_i32({sizes.output_rows})),
        logprobs(cut.take(DType::kF32, {sizes.output_rows})),
        top_tokens(cut.take_i32({sizes.output_rows, kMaxTopLogprobs})),
        top_logprobs(cut.take(DType::kF32, {sizes.output_rows, kMaxTopLogprobs})) {}
};

template <class Arrays>
Arrays cut_arrays(const Buffer& buffer, const SamplerSizes& sizes) {
  ViewCutter cut(buffer);
  return Arrays(cut, sizes);
}

template <class Arrays>
int64_t bytes_of(const SamplerSizes& sizes) {
  ViewCutter count;
  Arrays(count, sizes);
  return count.used();
}

class DeviceSampler : public StepSampler {
 public:
  DeviceSampler(Device& device, const SamplerSizes& sizes, const StepBuffers& buffers, Buffer kept,
                Buffer results, std::vector<Buffer> images)
      : device_(device),
        sizes_(sizes),
        buffers_(buffers),
        kept_buffer_(std::move(kept)),
        results_buffer_(std::move(results)),
        images_(std::move(images)),
        kept_(cut_arrays<SlotArrays>(kept_buffer_, sizes)),
        out_(cut_arrays<ResultArrays>(results_buffer_, sizes)),
        logprobs_(static_cast<size_t>(sizes.slots), -1) {
    for (const Buffer& image : images_) {
      images_out_.push_back(cut_arrays<ResultArrays>(image, sizes));
    }
  }

  void clear(Stream& stream) {
    device_.clear(stream, kept_.slots.data(), static_cast<size_t>(kept_.slots.shape().count()));
    device_.clear(stream, kept_.counted.data(), static_cast<size_t>(sizes_.slots) * 4);
  }
  void set_slot(Stream& stream, int32_t slot, const SlotSetup& setup) override;
  void put_masks(Stream& stream, const StepMasks& masks) override;
  void run(Stream& stream, const StepViews& views, TensorView logits) override;
  void fetch(Stream& stream, std::span<OutputRows> rows, int64_t set) override;
  std::vector<SequenceResult> results(std::span<const OutputRows> rows, int64_t set) override;

 private:
  void copy_out(Stream& stream, const TensorView& to, const TensorView& from, int64_t rows);
  GeneratedToken token_at(const ResultArrays& from, int64_t row, int64_t asked) const;

  Device& device_;
  const SamplerSizes sizes_;
  const StepBuffers& buffers_;
  Buffer kept_buffer_;
  Buffer results_buffer_;
  std::vector<Buffer> images_;  // of results, in host memory, one a set
  SlotArrays kept_;
  ResultArrays out_;
  std::vector<ResultArrays> images_out_;
  std::vector<int64_t> logprobs_;  // by slot: alternatives asked for, -1: no logprobs
};

// Host memory of these copies is done with when they return: it is not of allocate_host().
void DeviceSampler::set_slot(Stream& stream, int32_t slot, const SlotSetup& setup) {
  const SamplerState state = sampler_state(setup);
  std::vector<int32_t> bias_tokens(state.params.logit_bias.size());
  std::vector<float> bias_values(state.params.logit_bias.size());
  std::vector<int32_t> ends(state.end_tokens.size());
  CHECK_LE(static_cast<int64_t>(bias_tokens.size()), kMaxLogitBias);
  CHECK_LE(static_cast<int64_t>(ends.size()), kMaxEndTokens);
  const SlotSampling sampling = slot_sampling(state, bias_tokens, bias_values, ends);
  const int32_t counted = sampling.penalties;
  device_.copy(stream, kept_.slots.row<uint8_t>(slot), &sampling, sizeof(sampling));
  device_.copy(stream, kept_.bias_tokens.row<int32_t>(slot), bias_tokens.data(),
               bias_tokens.size() * 4);
  device_.copy(stream, kept_.bias_values.row<float>(slot), bias_values.data(),
               bias_values.size() * 4);
  device_.copy(stream, kept_.end_tokens.row<int32_t>(slot), ends.data(), ends.size() * 4);
  device_.copy(stream, kept_.counted.as<int32_t>() + slot, &counted, sizeof(counted));
  logprobs_[static_cast<size_t>(slot)] = sampling.logprobs;
  if (counted == 0) return;
  // Few requests ask for penalties; counting on the host saves a buffer for the longest context.
  std::vector<int32_t> counts(static_cast<size_t>(sizes_.decodable));
  const int64_t known = static_cast<int64_t>(setup.tokens.size());
  const TensorView tokens(const_cast<int32_t*>(setup.tokens.data()), DType::kI32, {known});
  const TensorView to(counts.data(), DType::kI32, {sizes_.decodable});
  count_tokens.reference(stream, {tokens, setup.prompt_tokens, to});
  device_.copy(stream, kept_.counts.row<int32_t>(slot), counts.data(), counts.size() * 4);
}

void DeviceSampler::put_masks(Stream& stream, const StepMasks& masks) {
  if (masks.bits.empty()) return;
  const size_t row_bytes = static_cast<size_t>(kept_.masks.dim(1)) * 4;
  const size_t given_bytes = static_cast<size_t>(masks.words) * 4;
  const size_t rows = masks.bits.size() / static_cast<size_t>(masks.words);
  CHECK_LE(static_cast<int64_t>(rows), kept_.masks.dim(0));
  CHECK_GE(given_bytes, row_bytes);
  device_.copy_rows(stream, kept_.masks.data(), row_bytes, masks.bits.data(), given_bytes,
                    row_bytes, rows);
}

void DeviceSampler::run(Stream& stream, const StepViews& views, TensorView logits) {
  const int64_t rows = views.output_rows.dim(0);
  if (rows > 0) {
    sample_tokens(stream, {.logits = logits,
                           .decodable = sizes_.decodable,
                           .slots = kept_.slots,
                           .bias_tokens = kept_.bias_tokens,
                           .bias_values = kept_.bias_values,
                           .end_tokens = kept_.end_tokens,
                           .counts = kept_.counts,
                           .row_slot = views.row_slot,
                           .row_draft = views.row_draft,
                           .row_mask = views.row_mask,
                           .masks = kept_.masks,
                           .drafts = buffers_.drafts(),
                           .output_rows = views.output_rows,
                           .positions = views.positions,
                           .tokens = out_.tokens.slice_rows(0, rows),
                           .failures = out_.failures.slice_rows(0, rows),
                           .logprobs = out_.logprobs.slice_rows(0, rows),
                           .top_tokens = out_.top_tokens.slice_rows(0, rows),
                           .top_logprobs = out_.top_logprobs.slice_rows(0, rows)});
  }
  accept_tokens(stream, {.slots = views.slots,
                         .sequence_starts = views.sequence_starts,
                         .first_output = views.first_output,
                         .draft_counts = views.draft_counts,
                         .sampled = out_.tokens.slice_rows(0, rows),
                         .failures = out_.failures.slice_rows(0, rows),
                         .feed = buffers_.feed(),
                         .lengths = buffers_.lengths(),
                         .drafts = buffers_.drafts(),
                         .counts = kept_.counts,
                         .counted = kept_.counted,
                         .accepted = out_.accepted.slice_rows(0, views.slots.dim(0))});
}

void DeviceSampler::copy_out(Stream& stream, const TensorView& to, const TensorView& from,
                             int64_t rows) {
  const int64_t row_bytes =
      from.shape().rank() == 1 ? 4 : from.dim(1) * static_cast<int64_t>(dtype_bytes(from.dtype()));
  device_.copy(stream, to.data(), from.data(), static_cast<size_t>(rows * row_bytes));
}

// Accepted counts, tokens and failures lie side by side: one copy brings them, with the little that
// is between. Log probabilities travel when somebody asked for them.
void DeviceSampler::fetch(Stream& stream, std::span<OutputRows> rows, int64_t set) {
  if (rows.empty()) return;
  const ResultArrays& to = images_out_[static_cast<size_t>(set)];
  const int64_t used = rows.back().first + rows.back().drafts + 1;
  const auto* begin = static_cast<const std::byte*>(out_.accepted.data());
  const auto* end = reinterpret_cast<const std::byte*>(out_.failures.as<int32_t>() + used);
  device_.copy(stream, to.accepted.data(), begin, static_cast<size_t>(end - begin));
  int64_t most = -1;
  for (OutputRows& r : rows) {
    r.logprobs = logprobs_[static_cast<size_t>(r.slot)];
    most = std::max(most, r.logprobs);
  }
  if (most >= 0) copy_out(stream, to.logprobs, out_.logprobs, used);
  if (most <= 0) return;
  copy_out(stream, to.top_tokens, out_.top_tokens, used);
  copy_out(stream, to.top_logprobs, out_.top_logprobs, used);
}

GeneratedToken DeviceSampler::token_at(const ResultArrays& o, int64_t row, int64_t asked) const {
  GeneratedToken token;
  token.token = o.tokens.as<int32_t>()[row];
  if (asked < 0) return token;
  token.logprob = o.logprobs.as<float>()[row];
  const int64_t count = std::min(asked, sizes_.decodable);
  for (int64_t i = 0; i < count; ++i) {
    token.top.push_back({o.top_tokens.row<int32_t>(row)[i], o.top_logprobs.row<float>(row)[i]});
  }
  return token;
}

std::vector<SequenceResult> DeviceSampler::results(std::span<const OutputRows> rows, int64_t set) {
  const ResultArrays& o = images_out_[static_cast<size_t>(set)];
  std::vector<SequenceResult> results;
  for (const OutputRows& r : rows) {
    SequenceResult result;
    result.sequence = r.sequence;
    const int64_t accepted = o.accepted.as<int32_t>()[r.index];
    CHECK(accepted >= 0 && accepted <= 1 + r.drafts);
    for (int64_t i = 0; i < accepted; ++i) {
      result.tokens.push_back(token_at(o, r.first + i, r.logprobs));
    }
    if (accepted == 0) {
      const int32_t* failures = o.failures.as<int32_t>() + r.first;
      int64_t failed = 0;
      while (failed < r.drafts && failures[failed] == 0) ++failed;
      set_failure(result, static_cast<SampleFailure>(failures[failed]), r.position + failed);
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace

DeviceSamplerBytes device_sampler_bytes(const SamplerSizes& sizes) {
  return {bytes_of<SlotArrays>(sizes), bytes_of<ResultArrays>(sizes)};
}

Result<std::unique_ptr<StepSampler>> new_device_sampler(Device& device, Stream& stream,
                                                        const SamplerSizes& sizes,
                                                        const StepBuffers& buffers) {
  const DeviceSamplerBytes bytes = device_sampler_bytes(sizes);
  ASHLAR_ASSIGN(Buffer kept, device.allocate(static_cast<size_t>(bytes.kept)));
  ASHLAR_ASSIGN(Buffer results, device.allocate(static_cast<size_t>(bytes.results)));
  std::vector<Buffer> images;
  for (int64_t i = 0; i < sizes.sets; ++i) {
    ASHLAR_ASSIGN(Buffer image, device.allocate_host(static_cast<size_t>(bytes.results)));
    images.push_back(std::move(image));
  }
  auto sampler = std::make_unique<DeviceSampler>(device, sizes, buffers, std::move(kept),
                                                 std::move(results), std::move(images));
  sampler->clear(stream);
  return sampler;
}

}  // namespace ashlar
