// Execution of step plans: inputs, forward part, sample part, results.
#include "engine/device_runner.h"

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "kernels/step_rows/step_rows.h"

namespace ashlar {
namespace {

using Clock = std::chrono::steady_clock;

// More time for steps of many rows: half a millisecond a row is a hundredth of what a GPU does.
constexpr std::chrono::microseconds kPatienceOfARow{500};
constexpr std::chrono::microseconds kBusyWait{200};
constexpr std::chrono::microseconds kPause{50};

}  // namespace

Result<std::unique_ptr<DeviceRunner>> DeviceRunner::create(Model& model, Device& device,
                                                           const RunnerOptions& options,
                                                           Speculator* speculator) {
  if (!model.state_needs().chunk.empty()) {
    return fail(ErrorCode::kUnsupported, "{}: recurrent state is not run by this engine",
                model.info().family);
  }
  std::unique_ptr<DeviceRunner> runner(new DeviceRunner(model, device, options, speculator));
  ASHLAR_TRY(runner->allocate());
  ASHLAR_TRY(runner->prime());
  ASHLAR_TRY(runner->stream_->synchronize());
  return runner;
}

DeviceRunner::~DeviceRunner() {
  if (stuck_ || stream_ == nullptr) return;
  if (stream_->synchronize()) return;  // a failure has been told, or nobody is left to tell
}

Status DeviceRunner::allocate_pages() {
  for (const Model::PagedShape& shape : model_.paged_shapes()) {
    const Shape pages{options_.pages, 2 * shape.heads, kPagePositions, shape.head_size};
    const int64_t bytes = pages.count() * static_cast<int64_t>(dtype_bytes(shape.type));
    ASHLAR_ASSIGN(Buffer buffer, device_.allocate(static_cast<size_t>(bytes)));
    pages_.push_back(buffer.view(shape.type, pages));
    kv_.push_back(std::move(buffer));
  }
  return {};
}

Status DeviceRunner::allocate() {
  stream_ = device_.new_stream();
  ASHLAR_TRY(allocate_pages());
  const int64_t drafts = speculator_ != nullptr ? speculator_->drafts() : 0;
  StepShape largest;
  largest.rows = options_.step_rows;
  largest.sequences = options_.slots;
  largest.output_rows = options_.slots * (1 + drafts);
  largest.table_pages = pages_for(options_.max_context);
  // One set more than steps in flight, for explain().
  const int64_t sets = options_.depth + 1;
  ASHLAR_ASSIGN(buffers_,
                StepBuffers::create(device_, *stream_, largest, options_.slots, drafts, sets));

  const int64_t workspace_bytes = model_.workspace_bytes(largest.rows, largest.output_rows);
  ASHLAR_ASSIGN(Buffer workspace, device_.allocate(static_cast<size_t>(workspace_bytes)));
  workspace_ = std::make_unique<Workspace>(std::move(workspace));
  const int64_t logits_bytes = largest.output_rows * model_.info().vocabulary * 4;
  ASHLAR_ASSIGN(logits_, device_.allocate(static_cast<size_t>(logits_bytes)));

  const SamplerSizes sizes{options_.slots, largest.output_rows, model_.info().decodable, sets};
  if (device_.backend() == Backend::kCpu && !options_.recorded) {
    sampler_ = new_host_sampler(device_, sizes, buffers_);
  } else {
    ASHLAR_ASSIGN(sampler_, new_device_sampler(device_, *stream_, sizes, buffers_));
  }
  return {};
}

int64_t DeviceRunner::kv_bytes() const {
  int64_t sum = 0;
  for (const Buffer& buffer : kv_) sum += static_cast<int64_t>(buffer.bytes());
  return sum;
}

TensorView DeviceRunner::logits(const StepShape& shape) const {
  return logits_.view(DType::kF32, {shape.output_rows, model_.info().vocabulary});
}

void DeviceRunner::set_slot(int32_t slot, const SlotSetup& setup) {
  sampler_->set_slot(*stream_, slot, setup);
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
    device_.clear(*stream_, base + static_cast<size_t>(page) * bytes, bytes);
  }
}

// Where the device works inside the calls, the host sees that its lengths are within the plan's
// bounds.
void DeviceRunner::check_lengths(const StepPlan& plan) const {
  if (device_.backend() != Backend::kCpu || options_.recorded) return;
  for (const SequenceRows& r : plan.rows) {
    const int32_t length = buffers_.lengths().as<int32_t>()[r.slot];
    CHECK(r.starts || (length >= r.first && length <= r.first + r.slack));
  }
}

void DeviceRunner::issue_forward(const StepViews& views, const StepShape& shape,
                                 const StepTap* tap) {
  resolve_rows(*stream_, {.host_tokens = views.host_tokens,
                          .row_sequence = views.row_sequence,
                          .sequence_starts = views.sequence_starts,
                          .slots = views.slots,
                          .starts = views.starts,
                          .feed = buffers_.feed(),
                          .lengths = buffers_.lengths(),
                          .drafts = buffers_.drafts(),
                          .tokens = views.tokens,
                          .positions = views.positions});
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
            tap};
  const Workspace::Scope scope(*workspace_);
  model_.forward(step, logits(shape));
}

void DeviceRunner::issue_sample(const StepViews& views, const StepShape& shape) {
  sampler_->run(*stream_, views, logits(shape));
}

void DeviceRunner::forward(const StepPlan& plan) {
  CHECK_LT(static_cast<int64_t>(submitted_.size()), options_.depth);  // else its image is in use
  for (const PageCopy& copy : plan.page_copies) copy_page(copy.from, copy.to);
  for (PageId page : plan.page_clears) clear_page(page);
  check_lengths(plan);
  current_ = {};
  const auto choice = choose_recording(recorded_, plan);
  if (const size_t* index = std::get_if<size_t>(&choice)) {
    current_.recorded = &recorded_[*index];
    ++counts_.recorded[*index].steps;
  } else {
    ++counts_.direct[static_cast<size_t>(std::get<DirectReason>(choice))];
  }
  current_.shape = current_.recorded != nullptr ? current_.recorded->shape : shape_of(plan);
  current_.views = buffers_.fill(*stream_, plan, current_.shape, plan.step % options_.depth);
  if (current_.recorded != nullptr) {
    stream_->replay(*current_.recorded->forward);
  } else {
    issue_forward(current_.views, current_.shape, nullptr);
  }
}

void DeviceRunner::sample(const StepPlan& plan, const StepMasks& masks) {
  sampler_->put_masks(*stream_, masks);
  if (current_.recorded != nullptr) {
    stream_->replay(*current_.recorded->sample);
  } else {
    issue_sample(current_.views, current_.shape);
  }
  if (speculator_ != nullptr) {
    speculator_->propose(*stream_, current_.views.output_slots, buffers_.feed(), buffers_.lengths(),
                         buffers_.drafts());
  }
  Submitted step;
  step.step = plan.step;
  step.set = plan.step % options_.depth;
  step.rows = plan.row_count();
  step.output = output_rows_of(plan);
  sampler_->fetch(*stream_, step.output, step.set);
  step.event = stream_->record();
  submitted_.push_back(std::move(step));
}

// Polls, because a wait of the driver has no end: a kernel that hangs would hang everybody.
Status DeviceRunner::finish(Submitted& step) {
  const Clock::time_point begin = Clock::now();
  const auto patience = options_.patience + step.rows * kPatienceOfARow;
  while (!step.event->done()) {
    const Clock::duration waited = Clock::now() - begin;
    if (waited > patience) {
      stuck_ = true;
      return fail(ErrorCode::kDevice,
                  "step {} ({} rows) has not ended on {} after {:.1f} s: the device is stuck",
                  step.step, step.rows, device_.name(),
                  std::chrono::duration<double>(waited).count());
    }
    if (waited > kBusyWait) std::this_thread::sleep_for(kPause);
  }
  return step.event->wait();
}

Result<StepResult> DeviceRunner::wait() {
  CHECK(!submitted_.empty());
  Submitted step = std::move(submitted_.front());
  submitted_.pop_front();
  ASHLAR_TRY(finish(step));
  if (failure_) return tl::unexpected<Error>(*failure_);
  StepResult result;
  result.step = step.step;
  result.rows = sampler_->results(step.output, step.set);
  return result;
}

}  // namespace ashlar
