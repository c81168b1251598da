// DeviceRunner: the Runner of a model on one device. Owns the KV pages, the step buffers, the
// logits and the workspace, all allocated at creation and none after.
//
// On the CPU the device works inside the calls, so two steps in flight cost and gain nothing there;
// they are run all the same, because tokens and lengths then take the path that they take on a GPU.
#ifndef ASHLAR_ENGINE_DEVICE_RUNNER_H_
#define ASHLAR_ENGINE_DEVICE_RUNNER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "device/device.h"
#include "device/workspace.h"
#include "engine/runner.h"
#include "engine/speculator.h"
#include "engine/step_buffers.h"
#include "models/model.h"
#include "sampling/sampler.h"

namespace ashlar {

struct RunnerOptions {
  int64_t pages = 0;
  int64_t slots = 1;  // sequences that run at once
  int64_t step_rows = 1;
  int64_t max_context = 0;
  int64_t depth = 1;
};

class DeviceRunner : public Runner {
 public:
  // model, device and speculator (or null) must outlive it.
  static Result<std::unique_ptr<DeviceRunner>> create(Model& model, Device& device,
                                                      const RunnerOptions& options,
                                                      Speculator* speculator);

  void set_slot(int32_t slot, const SlotSetup& setup) override;
  void forward(const StepPlan& plan) override;
  void sample(const StepPlan& plan, const StepMasks& masks) override;
  Result<StepResult> wait() override;

  int64_t kv_bytes() const;
  void observe(StreamObserver* observer) { stream_->set_observer(observer); }
  const Workspace& workspace() const { return *workspace_; }

 private:
  struct Finished {
    StepResult result;
    std::unique_ptr<Event> event;
  };

  DeviceRunner(Model& model, Device& device, Speculator* speculator)
      : model_(model), device_(device), speculator_(speculator) {}
  Status allocate(const RunnerOptions& options);
  void copy_page(PageId from, PageId to);
  void clear_page(PageId page);
  void sample_sequence(const SequenceRows& rows, TensorView logits, std::span<const uint32_t> mask,
                       Sampler& sampler, SequenceResult& result);
  void propose(const StepPlan& plan);

  Model& model_;
  Device& device_;
  Speculator* speculator_;
  int64_t depth_ = 1;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> kv_;
  std::vector<TensorView> pages_;  // by PagedState id: [pages 2G B K]
  std::vector<std::byte> zeros_;   // a page's worth
  std::unique_ptr<Workspace> workspace_;
  StepBuffers buffers_;
  Buffer logits_;
  std::vector<SamplerState> slots_;
  std::vector<Sampler> samplers_;  // one a thread
  std::vector<int32_t> propose_slots_;
  std::deque<Finished> finished_;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_DEVICE_RUNNER_H_
