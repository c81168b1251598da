// BenchBed: a model with pages, workspaces and inputs of its own, without an engine: the bare
// device path that a benchmark times. A step is what an engine runs on a device: tokens and
// positions of its rows, the network, the sampler, and what becomes of the tokens.
//
// Steps are at fixed positions and can run any number of times, directly or recorded. Nothing is
// planned and no text is made; keys and values are a pattern of random numbers. Everything is
// allocated before a step runs. One thread.
#ifndef ASHLAR_APPS_BENCH_BED_H_
#define ASHLAR_APPS_BENCH_BED_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "device/workspace.h"
#include "kernels/step_rows/step_rows.h"
#include "models/model.h"
#include "sampling/sample_tokens.h"

namespace ashlar {

struct BedShape {
  int64_t sequences = 1;
  int64_t rows = 1;          // of each sequence
  int64_t context = 1;       // positions of each sequence, those rows included
  bool wants_tokens = true;  // of the last row of each sequence

  int64_t all_rows() const { return sequences * rows; }
  int64_t output_rows() const { return wants_tokens ? sequences : 0; }
  int64_t pages() const;  // of all sequences
};

struct BedOptions {
  std::vector<BedShape> shapes;  // no step is larger than the largest of them
  int64_t copies = 1;            // of pages and workspace, that steps can take in turns
  SamplingParams sampling;
};

// What a step reads and writes besides the model, in device memory.
struct BedStep {
  BedShape shape;
  int64_t copy = 0;
  Buffer memory;
  TensorView page_table;
  ResolveRowsArgs resolve;
  SampleTokensArgs sample;  // but for the logits
  AcceptTokensArgs accept;
};

using OpCall = std::function<void(Stream&)>;

class BenchBed {
 public:
  // model and device outlive it.
  static Result<std::unique_ptr<BenchBed>> create(Model& model, Device& device,
                                                  const BedOptions& options);

  Stream& stream() { return *stream_; }
  Device& device() { return device_; }
  Model& model() { return model_; }

  Result<BedStep> make_step(const BedShape& shape, int64_t copy = 0);
  // Issues the step on any stream of the device.
  void issue(Stream& stream, const BedStep& step);
  // The operations of issue(), one by one, not run. They may run in any number and order: all their
  // memory belongs to the bed and the step.
  std::vector<OpCall> calls(const BedStep& step);

  // Waits; an error if the step gave no token where it should have.
  Result<std::vector<int32_t>> tokens(const BedStep& step);

 private:
  BenchBed(Model& model, Device& device) : model_(model), device_(device) {}
  Status allocate(const BedOptions& options);

  Model& model_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  SamplingParams sampling_;
  int64_t pages_a_copy_ = 0;
  std::vector<Buffer> kv_;
  std::vector<TensorView> pages_;   // by PagedState id
  std::vector<int32_t> page_list_;  // of the first copy, shuffled
  std::vector<Workspace> workspaces_;
};

// Copies `pattern` again and again until all of `to` is written, in stream order.
void fill_repeating(Stream& stream, void* to, size_t bytes, std::span<const std::byte> pattern);

// Runs an operation now, or adds it to what the stream is recording.
void run_call(Stream& stream, const OpCall& call);

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_BED_H_
