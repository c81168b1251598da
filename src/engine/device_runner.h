// DeviceRunner: the Runner of a model on one device. Owns the KV pages, the step buffers, the
// logits and the workspace, all allocated at creation and none after.
//
// A step is two parts, forward and sample, made of operations alone, so that both can be recorded:
// for each row count of a list (recorded_step.h) they are recorded once, and a step that fits is
// padded to it and replayed. Any other step runs the same calls directly. On the CPU the device
// works inside the calls, so recordings and two steps in flight cost and gain nothing there; both
// run all the same when asked for, because then every machine tests the path of a GPU.
#ifndef ASHLAR_ENGINE_DEVICE_RUNNER_H_
#define ASHLAR_ENGINE_DEVICE_RUNNER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/workspace.h"
#include "engine/recorded_step.h"
#include "engine/runner.h"
#include "engine/speculator.h"
#include "engine/step_buffers.h"
#include "engine/step_sampler.h"
#include "models/model.h"

namespace ashlar {

struct RunnerOptions {
  int64_t pages = 0;
  int64_t slots = 1;  // sequences that run at once
  int64_t step_rows = 1;
  int64_t max_context = 0;
  int64_t depth = 1;
  bool recorded = false;  // decode steps are recorded; tokens are then chosen by operations
  // A step that takes longer has got stuck; steps of many rows get more. Noticed within 5 s.
  std::chrono::milliseconds patience{4500};
};

class DeviceRunner : public Runner {
 public:
  // model, device and speculator (or null) must outlive it.
  static Result<std::unique_ptr<DeviceRunner>> create(Model& model, Device& device,
                                                      const RunnerOptions& options,
                                                      Speculator* speculator);
  // Waits for what is in flight, unless the device is stuck.
  ~DeviceRunner() override;

  void set_slot(int32_t slot, const SlotSetup& setup) override;
  void forward(const StepPlan& plan) override;
  void sample(const StepPlan& plan, const StepMasks& masks) override;
  Result<StepResult> wait() override;
  std::string explain(const SequenceRows& row) override;

  int64_t kv_bytes() const;
  void observe(StreamObserver* observer) { stream_->set_observer(observer); }
  const Workspace& workspace() const { return *workspace_; }
  const StepCounts& counts() const { return counts_; }

 private:
  struct Submitted {
    int64_t step = 0;
    int64_t set = 0;
    int64_t rows = 0;
    std::vector<OutputRows> output;
    std::unique_ptr<Event> event;
  };
  // The step whose forward part was issued last.
  struct Current {
    StepViews views;
    StepShape shape;
    RecordedStep* recorded = nullptr;
  };

  DeviceRunner(Model& model, Device& device, const RunnerOptions& options, Speculator* speculator)
      : model_(model), device_(device), options_(options), speculator_(speculator) {}
  Status allocate();
  Status allocate_pages();
  Status prime();
  Status record();
  StepPlan priming_plan(int64_t sequences, int64_t rows) const;
  void run_directly(const StepPlan& plan, const StepShape& shape);
  void issue_forward(const StepViews& views, const StepShape& shape, const StepTap* tap);
  void issue_sample(const StepViews& views, const StepShape& shape);
  TensorView logits(const StepShape& shape) const;
  Status finish(Submitted& step);
  void check_lengths(const StepPlan& plan) const;
  void copy_page(PageId from, PageId to);
  void clear_page(PageId page);

  Model& model_;
  Device& device_;
  const RunnerOptions options_;
  Speculator* speculator_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> kv_;
  std::vector<TensorView> pages_;  // by PagedState id: [pages 2G B K]
  std::unique_ptr<Workspace> workspace_;
  StepBuffers buffers_;
  Buffer logits_;
  std::unique_ptr<StepSampler> sampler_;
  std::vector<RecordedStep> recorded_;
  StepCounts counts_;
  Current current_;
  std::deque<Submitted> submitted_;
  std::optional<Error> failure_;  // found by another wait than that of its step
  bool stuck_ = false;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_DEVICE_RUNNER_H_
