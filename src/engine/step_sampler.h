// StepSampler: the sample part of a step: chooses tokens from the logits, and moves on what the
// slots keep on the device. Two of them exist, with the same tokens: one of them runs where the
// logits are in host memory, the other is made of device operations and can be recorded.
//
// run() is issued in stream order after the forward part; its results are there once an event
// recorded after fetch() is done. Used by one thread.
#ifndef ASHLAR_ENGINE_STEP_SAMPLER_H_
#define ASHLAR_ENGINE_STEP_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "engine/runner.h"
#include "engine/step_buffers.h"
#include "engine/step_result.h"
#include "sampling/sampler.h"

namespace ashlar {

// What a result needs to know of a plan whose step is in flight.
struct OutputRows {
  SequenceId sequence = 0;
  int32_t slot = 0;
  int64_t index = 0;  // of the sequence in the step
  int64_t first = 0;  // output row of its first token
  int64_t drafts = 0;
  int64_t position = 0;   // that its first logits follow; the least possible one with slack
  int64_t logprobs = -1;  // alternatives to report, -1: no logprobs; set by fetch()
};
std::vector<OutputRows> output_rows_of(const StepPlan& plan);

class StepSampler {
 public:
  virtual ~StepSampler() = default;
  // Issued before the step in which the slot's rows start.
  virtual void set_slot(Stream& stream, int32_t slot, const SlotSetup& setup) = 0;
  // Copies the masks of late rows. Not recorded; before run().
  virtual void put_masks(Stream& stream, const StepMasks& masks) = 0;
  // logits [R V]. Recorded, or run directly.
  virtual void run(Stream& stream, const StepViews& views, TensorView logits) = 0;
  // Starts bringing the results of the step that run() was for into set `set`. Not recorded.
  virtual void fetch(Stream& stream, std::span<OutputRows> rows, int64_t set) = 0;
  // The results of that set, once they are there.
  virtual std::vector<SequenceResult> results(std::span<const OutputRows> rows, int64_t set) = 0;
};

struct SamplerSizes {
  int64_t slots = 0;
  int64_t output_rows = 0;
  int64_t decodable = 0;
  int64_t sets = 1;
};

// For a device whose memory the host reads and writes: the Sampler of sampling/sampler.h, sequences
// spread over the threads of the device.
std::unique_ptr<StepSampler> new_host_sampler(Device& device, const SamplerSizes& sizes,
                                              const StepBuffers& buffers);

// Operations alone: sample_tokens and accept_tokens.
Result<std::unique_ptr<StepSampler>> new_device_sampler(Device& device, Stream& stream,
                                                        const SamplerSizes& sizes,
                                                        const StepBuffers& buffers);

// What that allocates on the device: what slots keep, and results.
struct DeviceSamplerBytes {
  int64_t kept = 0;
  int64_t results = 0;
};
DeviceSamplerBytes device_sampler_bytes(const SamplerSizes& sizes);

// What a slot is told, as a sampler keeps it; its history is empty.
SamplerState sampler_state(const SlotSetup& setup);

// Says why the logits after that position gave no token.
void set_failure(SequenceResult& result, SampleFailure failure, int64_t position);

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_STEP_SAMPLER_H_
