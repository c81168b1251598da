// Execution of step plans: inputs, forward part, sample part, results.
#include "engine/device_runner.h"

#include <algorithm>

#include "base/check.h"

namespace ashlar {

Result<std::unique_ptr<DeviceRunner>> DeviceRunner::create(Model& model, Device& device,
                                                           const RunnerOptions& options,
                                                           Speculator* speculator) {
  if (!model.state_needs().chunk.empty()) {
    return fail(ErrorCode::kUnsupported, "{}: recurrent state is not run by this engine",
                model.info().family);
  }
  std::unique_ptr<DeviceRunner> runner(new DeviceRunner(model, device, speculator));
  ASHLAR_TRY(runner->allocate(options));
  return runner;
}

Status DeviceRunner::allocate(const RunnerOptions& options) {
  depth_ = options.depth;
  stream_ = device_.new_stream();
  int64_t largest_page = 0;
  for (const Model::PagedShape& shape : model_.paged_shapes()) {
    const Shape pages{options.pages, 2 * shape.heads, kPagePositions, shape.head_size};
    const int64_t bytes = pages.count() * static_cast<int64_t>(dtype_bytes(shape.type));
    ASHLAR_ASSIGN(Buffer buffer, device_.allocate(static_cast<size_t>(bytes)));
    pages_.push_back(buffer.view(shape.type, pages));
    kv_.push_back(std::move(buffer));
    largest_page = std::max(largest_page, bytes / std::max<int64_t>(options.pages, 1));
  }
  zeros_.resize(static_cast<size_t>(largest_page));

  const int64_t drafts = speculator_ != nullptr ? speculator_->drafts() : 0;
  StepSizes sizes;
  sizes.rows = options.step_rows;
  sizes.sequences = options.slots;
  sizes.output_rows = options.slots * (1 + drafts);
  sizes.table_pages = pages_for(options.max_context);
  sizes.slots = options.slots;
  sizes.drafts = drafts;
  ASHLAR_ASSIGN(buffers_, StepBuffers::create(device_, sizes, depth_));

  const int64_t workspace_bytes = model_.workspace_bytes(sizes.rows, sizes.output_rows);
  ASHLAR_ASSIGN(Buffer workspace, device_.allocate(static_cast<size_t>(workspace_bytes)));
  workspace_ = std::make_unique<Workspace>(std::move(workspace));
  const int64_t logits_bytes = sizes.output_rows * model_.info().vocabulary * 4;
  ASHLAR_ASSIGN(logits_, device_.allocate(static_cast<size_t>(logits_bytes)));

  const ThreadPool* pool = device_.thread_pool();
  const int threads = pool != nullptr ? pool->threads() : 1;
  slots_.resize(static_cast<size_t>(options.slots));
  samplers_.assign(static_cast<size_t>(threads), Sampler(model_.info().decodable));
  return {};
}

int64_t DeviceRunner::kv_bytes() const {
  int64_t sum = 0;
  for (const Buffer& buffer : kv_) sum += static_cast<int64_t>(buffer.bytes());
  return sum;
}

void DeviceRunner::set_slot(int32_t slot, const SlotSetup& setup) {
  SamplerState& state = slots_[static_cast<size_t>(slot)];
  state.params = setup.sampling;
  state.seed = static_cast<uint64_t>(setup.seed);
  state.choice = static_cast<uint32_t>(setup.choice);
  state.end_allowed_from = setup.prompt_tokens + setup.min_tokens;
  state.end_tokens.assign(setup.end_tokens.begin(), setup.end_tokens.end());
  state.history.clear();
  if (state.penalties()) state.history.rebuild(setup.tokens, setup.prompt_tokens);
}

void DeviceRunner::copy_page(PageId from, PageId to) {
  for (const TensorView& pages : pages_) {
    const size_t bytes = static_cast<size_t>(pages.row_count()) * dtype_bytes(pages.dtype());
    std::byte* base = static_cast<std::byte*>(pages.data());
    device_.copy(*stream_, base + static_cast<size_t>(to) * bytes,
                 base + static_cast<size_t>(from) * bytes, bytes);
  }
}

void DeviceRunner::clear_page(PageId page) {
  for (const TensorView& pages : pages_) {
    const size_t bytes = static_cast<size_t>(pages.row_count()) * dtype_bytes(pages.dtype());
    std::byte* base = static_cast<std::byte*>(pages.data());
    device_.copy(*stream_, base + static_cast<size_t>(page) * bytes, zeros_.data(), bytes);
  }
}

void DeviceRunner::forward(const StepPlan& plan) {
  for (const PageCopy& copy : plan.page_copies) copy_page(copy.from, copy.to);
  for (PageId page : plan.page_clears) clear_page(page);
  const StepViews views = buffers_.fill(plan, plan.step % depth_);
  Step step{*stream_,
            *workspace_,
            views.tokens,
            views.positions,
            views.row_sequence,
            views.sequence_starts,
            views.page_table,
            views.slots,
            views.output_rows,
            pages_,
            nullptr};
  const Workspace::Scope scope(*workspace_);
  model_.forward(step,
                 logits_.view(DType::kF32, {plan.output_row_count(), model_.info().vocabulary}));
}

void DeviceRunner::sample(const StepPlan& plan, const StepMasks& masks) {
  const TensorView logits =
      logits_.view(DType::kF32, {plan.output_row_count(), model_.info().vocabulary});
  struct Work {
    const SequenceRows* rows;
    int64_t first_logits;
    std::span<const uint32_t> mask;
  };
  std::vector<Work> work;
  Finished finished;
  finished.result.step = plan.step;
  int64_t output_row = 0;
  int64_t mask_index = 0;
  for (const SequenceRows& r : plan.rows) {
    if (!r.wants_logits) {
      buffers_.lengths().as<int32_t>()[r.slot] += static_cast<int32_t>(r.count);
      continue;
    }
    work.push_back(
        {&r, output_row, r.late ? masks.mask(mask_index++) : std::span<const uint32_t>()});
    output_row += r.output_rows();
  }
  finished.result.rows.resize(work.size());
  const auto run = [&](int64_t part, int thread) {
    const Work& w = work[static_cast<size_t>(part)];
    sample_sequence(*w.rows, logits.slice_rows(w.first_logits, w.rows->output_rows()), w.mask,
                    samplers_[static_cast<size_t>(thread)],
                    finished.result.rows[static_cast<size_t>(part)]);
  };
  ThreadPool* pool = device_.thread_pool();
  if (pool != nullptr && work.size() > 1) {
    pool->run(static_cast<int64_t>(work.size()), run);
  } else {
    for (size_t i = 0; i < work.size(); ++i) run(static_cast<int64_t>(i), 0);
  }
  propose(plan);
  finished.event = stream_->record();
  finished_.push_back(std::move(finished));
}

// Row after row: the token of a row stays, and the next row counts only if its draft is that token.
void DeviceRunner::sample_sequence(const SequenceRows& rows, TensorView logits,
                                   std::span<const uint32_t> mask, Sampler& sampler,
                                   SequenceResult& result) {
  SamplerState& state = slots_[static_cast<size_t>(rows.slot)];
  int32_t& length = buffers_.lengths().as<int32_t>()[rows.slot];
  int32_t& feed = buffers_.feed().as<int32_t>()[rows.slot];
  result.sequence = rows.sequence;
  length += static_cast<int32_t>(rows.committed());
  for (int64_t i = 0; i <= rows.drafts; ++i) {
    GeneratedToken token;
    const std::span<float> row(logits.row<float>(i), static_cast<size_t>(logits.dim(1)));
    const SampleFailure failure = sampler.sample(state, row, length, mask, token);
    if (failure != SampleFailure::kNone) {
      result.tokens.clear();
      result.failure = failure == SampleFailure::kNotFinite
                           ? fmt::format("the logits after position {} are not finite", length - 1)
                           : fmt::format("no token is allowed at position {}", length);
      feed = 0;  // a step in flight may still read it
      return;
    }
    state.accept(token.token);
    feed = token.token;
    result.tokens.push_back(std::move(token));
    if (i == rows.drafts || buffers_.drafts().row<int32_t>(rows.slot)[i] != feed) return;
    ++length;
  }
}

void DeviceRunner::propose(const StepPlan& plan) {
  if (speculator_ == nullptr) return;
  propose_slots_.clear();
  for (const SequenceRows& r : plan.rows) {
    if (r.wants_logits) propose_slots_.push_back(r.slot);
  }
  if (propose_slots_.empty()) return;
  const TensorView slots(propose_slots_.data(), DType::kI32,
                         {static_cast<int64_t>(propose_slots_.size())});
  speculator_->propose(*stream_, slots, buffers_.feed(), buffers_.lengths(), buffers_.drafts());
}

Result<StepResult> DeviceRunner::wait() {
  CHECK(!finished_.empty());
  Finished finished = std::move(finished_.front());
  finished_.pop_front();
  ASHLAR_TRY(finished.event->wait());
  return std::move(finished.result);
}

}  // namespace ashlar
