// What a DeviceRunner does beside its steps: it runs every kind of step once before the first
// request, records those that are replayed, and finds the layer in which a value went wrong.
#include <algorithm>

#include "base/check.h"
#include "engine/device_runner.h"

namespace ashlar {
namespace {

// Row counts of prompts that between them start every kernel that a prompt can.
constexpr int64_t kPrimedRows[] = {24, 65, 80, 112, 129, 200, 300, 512, 1024, 2048};

// Tokens that differ from row to row, so that no kernel sees only equal rows.
int32_t priming_token(int64_t row, int64_t decodable) {
  return static_cast<int32_t>((row * 7919 + 13) % decodable);
}

}  // namespace

// Sequences of equal length over whatever pages there are; what they write there is never read,
// since pages are cleared before their first use.
StepPlan DeviceRunner::priming_plan(int64_t sequences, int64_t rows) const {
  StepPlan plan;
  for (int64_t s = 0; s < sequences; ++s) {
    SequenceRows r;
    r.sequence = s;
    r.slot = static_cast<int32_t>(s);
    r.count = rows;
    r.starts = true;
    r.wants_logits = true;
    for (int64_t i = 0; i < rows; ++i) {
      r.tokens.push_back(priming_token(s + i, model_.info().decodable));
    }
    for (int64_t p = 0; p < pages_for(rows); ++p) {
      r.pages.push_back(static_cast<PageId>((s + p) % options_.pages));
    }
    plan.rows.push_back(std::move(r));
  }
  return plan;
}

void DeviceRunner::run_directly(const StepPlan& plan, const StepShape& shape) {
  const StepViews views = buffers_.fill(*stream_, plan, shape, 0);
  issue_forward(views, shape, nullptr);
  issue_sample(views, shape);
}

// A kernel's first run loads it, which takes long, and cannot be recorded. After each run the host
// waits, since the next one fills the same image.
Status DeviceRunner::prime() {
  if (device_.backend() == Backend::kCuda) {
    const int64_t most = std::min(options_.step_rows, options_.max_context);
    for (const int64_t rows : kPrimedRows) {
      if (rows > most) break;
      const StepPlan plan = priming_plan(1, rows);
      run_directly(plan, shape_of(plan));
      ASHLAR_TRY(stream_->synchronize());
    }
    if (options_.slots > 1 && most >= 64) {  // a prompt beside a sequence that decodes
      StepPlan plan = priming_plan(2, 40);
      plan.rows[1].count = 1;
      plan.rows[1].tokens.resize(1);
      run_directly(plan, shape_of(plan));
      ASHLAR_TRY(stream_->synchronize());
    }
  }
  if (options_.recorded) ASHLAR_TRY(record());
  device_.clear(*stream_, buffers_.lengths().data(), static_cast<size_t>(options_.slots) * 4);
  device_.clear(*stream_, buffers_.feed().data(), static_cast<size_t>(options_.slots) * 4);
  return {};
}

Status DeviceRunner::record() {
  const int64_t most_drafts = speculator_ != nullptr ? speculator_->drafts() : 0;
  std::vector<int64_t> drafts = {0};
  if (most_drafts > 0) drafts.push_back(most_drafts);
  for (const int64_t width : drafts) {
    for (const int64_t sequences : recorded_sequences(options_.slots)) {
      RecordedStep step;
      step.sequences = sequences;
      step.drafts = width;
      step.shape = {sequences * (1 + width), sequences, sequences * (1 + width),
                    pages_for(options_.max_context)};
      run_directly(priming_plan(sequences, 1), step.shape);
      ASHLAR_TRY(stream_->synchronize());
      recorded_.push_back(std::move(step));
    }
  }
  const auto part = [&](const RecordedStep& step, const char* name,
                        auto issue) -> Result<std::unique_ptr<Recording>> {
    stream_->begin_recording();
    issue(buffers_.views(step.shape), step.shape);
    auto recording = stream_->end_recording();
    if (recording) return recording;
    return fail(recording.error().code, "the {} part of steps of {} sequences, {} rows: {}", name,
                step.sequences, step.shape.rows, recording.error().message);
  };
  for (RecordedStep& step : recorded_) {
    ASHLAR_ASSIGN(step.forward,
                  part(step, "forward", [this](const StepViews& views, const StepShape& shape) {
                    issue_forward(views, shape, nullptr);
                  }));
    ASHLAR_ASSIGN(step.sample,
                  part(step, "sample", [this](const StepViews& views, const StepShape& shape) {
                    issue_sample(views, shape);
                  }));
    counts_.recorded.push_back({step.sequences, step.shape.rows, 0});
  }
  return {};
}

}  // namespace ashlar
