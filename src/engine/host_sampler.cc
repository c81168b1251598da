// The sample part where the host reads logits: sequences in parallel, rows of a sequence one after
// the other.
#include "base/check.h"
#include "engine/step_sampler.h"
#include "kernels/step_rows/step_rows.h"
#include "sampling/sampler.h"

namespace ashlar {
namespace {

class HostSampler : public StepSampler {
 public:
  HostSampler(Device& device, const SamplerSizes& sizes, const StepBuffers& buffers)
      : device_(device), buffers_(buffers) {
    const ThreadPool* pool = device.thread_pool();
    samplers_.assign(static_cast<size_t>(pool != nullptr ? pool->threads() : 1),
                     Sampler(sizes.decodable));
    slots_.resize(static_cast<size_t>(sizes.slots));
    results_.resize(static_cast<size_t>(sizes.sets));
  }

  void set_slot(Stream&, int32_t slot, const SlotSetup& setup) override {
    SamplerState& state = slots_[static_cast<size_t>(slot)];
    state = sampler_state(setup);
    if (state.penalties()) state.history.rebuild(setup.tokens, setup.prompt_tokens);
  }

  void put_masks(Stream&, const StepMasks& masks) override { masks_ = &masks; }

  void run(Stream& stream, const StepViews& views, TensorView logits) override {
    CHECK(!stream.defers());
    chosen_.assign(static_cast<size_t>(views.slots.dim(0)), {});
    const auto one = [&](int64_t sequence, int thread) {
      sample_sequence(views, sequence, logits, samplers_[static_cast<size_t>(thread)],
                      chosen_[static_cast<size_t>(sequence)]);
    };
    ThreadPool* pool = device_.thread_pool();
    if (pool != nullptr && chosen_.size() > 1) {
      pool->run(static_cast<int64_t>(chosen_.size()), one);
    } else {
      for (size_t i = 0; i < chosen_.size(); ++i) one(static_cast<int64_t>(i), 0);
    }
  }

  void fetch(Stream&, std::span<OutputRows> rows, int64_t set) override {
    std::vector<SequenceResult>& results = results_[static_cast<size_t>(set)];
    results.clear();
    for (const OutputRows& r : rows) {
      Chosen& chosen = chosen_[static_cast<size_t>(r.index)];
      SequenceResult result;
      result.sequence = r.sequence;
      result.tokens = std::move(chosen.tokens);
      if (chosen.failure != SampleFailure::kNone) {
        set_failure(result, chosen.failure, chosen.position);
      }
      results.push_back(std::move(result));
    }
  }

  std::vector<SequenceResult> results(std::span<const OutputRows>, int64_t set) override {
    return std::move(results_[static_cast<size_t>(set)]);
  }

 private:
  struct Chosen {
    std::vector<GeneratedToken> tokens;
    SampleFailure failure = SampleFailure::kNone;
    int64_t position = 0;  // that the failed logits follow
  };

  // Row after row: the token of a row stays, and the next row counts only if its draft is that
  // token. The meaning of accept_tokens, with the tokens chosen on the way.
  void sample_sequence(const StepViews& views, int64_t s, TensorView logits, Sampler& sampler,
                       Chosen& chosen) {
    const int32_t slot = views.slots.as<int32_t>()[s];
    if (slot < 0) return;
    SamplerState& state = slots_[static_cast<size_t>(slot)];
    int32_t& length = buffers_.lengths().as<int32_t>()[slot];
    int32_t& feed = buffers_.feed().as<int32_t>()[slot];
    const int32_t* starts = views.sequence_starts.as<int32_t>();
    const int32_t first = views.first_output.as<int32_t>()[s];
    const int32_t drafts = views.draft_counts.as<int32_t>()[s];
    length += starts[s + 1] - starts[s] - drafts;
    if (first == kNoOutput) return;
    for (int32_t i = 0; i <= drafts; ++i) {
      GeneratedToken token;
      const int32_t mask = views.row_mask.as<int32_t>()[first + i];
      const std::span<float> row(logits.row<float>(first + i), static_cast<size_t>(logits.dim(1)));
      chosen.failure = sampler.sample(
          state, row, length, mask < 0 ? std::span<const uint32_t>() : masks_->mask(mask), token);
      if (chosen.failure != SampleFailure::kNone) {
        chosen.tokens.clear();
        chosen.position = length - 1;
        feed = 0;  // a step in flight may still read it
        return;
      }
      state.accept(token.token);
      feed = token.token;
      chosen.tokens.push_back(std::move(token));
      if (i == drafts || buffers_.drafts().row<int32_t>(slot)[i] != feed) return;
      ++length;
    }
  }

  Device& device_;
  const StepBuffers& buffers_;
  std::vector<SamplerState> slots_;
  std::vector<Sampler> samplers_;  // one a thread
  const StepMasks* masks_ = nullptr;
  std::vector<Chosen> chosen_;                        // by sequence of the step
  std::vector<std::vector<SequenceResult>> results_;  // by set
};

}  // namespace

std::vector<OutputRows> output_rows_of(const StepPlan& plan) {
  std::vector<OutputRows> list;
  int64_t row = 0;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const SequenceRows& r = plan.rows[i];
    if (!r.wants_logits) continue;
    list.push_back({r.sequence, r.slot, static_cast<int64_t>(i), row, r.drafts,
                    r.first + r.committed() - 1, -1});
    row += r.output_rows();
  }
  return list;
}

void set_failure(SequenceResult& result, SampleFailure failure, int64_t position) {
  if (failure == SampleFailure::kNotFinite) {
    result.failure = fmt::format("the logits after position {} are not finite", position);
    result.bad_position = position;
  } else {
    result.failure = fmt::format("no token is allowed at position {}", position + 1);
  }
}

SamplerState sampler_state(const SlotSetup& setup) {
  SamplerState state;
  state.params = setup.sampling;
  state.seed = static_cast<uint64_t>(setup.seed);
  state.choice = static_cast<uint32_t>(setup.choice);
  state.end_allowed_from = setup.prompt_tokens + setup.min_tokens;
  state.end_tokens.assign(setup.end_tokens.begin(), setup.end_tokens.end());
  return state;
}

std::unique_ptr<StepSampler> new_host_sampler(Device& device, const SamplerSizes& sizes,
                                              const StepBuffers& buffers) {
  return std::make_unique<HostSampler>(device, sizes, buffers);
}

}  // namespace ashlar
