// ForwardHarness: a model with pages of its own, for tests that compare logits. It stands where
// cache and engine stand in the program: it hands out pages, keeps each sequence's length and fills
// steps. What a step reads and writes is memory of the device; what tests give and get is the
// host's.
//
// Pages are handed out from the last to the first and hold NaN before they are written, so a read
// of what was never written, or through the wrong page, shows in the logits.
#ifndef ASHLAR_TESTING_FORWARD_H_
#define ASHLAR_TESTING_FORWARD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "device/workspace.h"
#include "models/model.h"

namespace ashlar {

struct ForwardOptions {
  DType kv_type = DType::kF32;  // bf16 on CUDA
  int threads = 1;
  Device* device = nullptr;  // outlives the harness; null: a CPU device with these threads
  int64_t decodable = 0;
  int64_t positions = 1024;  // of one sequence, at most the model's context
  int64_t rows = 1024;       // of one step
  int64_t sequences = 4;
};

class ForwardHarness {
 public:
  // model_argument as Checkpoint::open takes it.
  static Result<std::unique_ptr<ForwardHarness>> load(const std::string& model_argument,
                                                      const ForwardOptions& options);

  // Tokens of one sequence at its next positions.
  struct Piece {
    int64_t sequence = 0;
    std::span<const int32_t> tokens;
  };
  // One step of these pieces, in this order; a sequence occurs once. Returns logits [T V], row by
  // row. Rows of padding with token 0 may follow.
  std::vector<float> forward(std::span<const Piece> pieces, int64_t padding = 0);

  // A sequence from its beginning, in steps of `chunk` tokens (0: one step). Returns logits [tokens
  // V].
  std::vector<float> logits(std::span<const int32_t> tokens, int64_t chunk = 0,
                            int64_t sequence = 0);

  // Forgets what a sequence wrote from `length` on; its pages keep their bytes.
  void truncate(int64_t sequence, int64_t length) { lengths_[sequence] = length; }

  Model& model() { return *model_; }
  size_t workspace_peak_bytes() const { return workspace_->peak_bytes(); }
  void set_tap(StepTap tap) { tap_ = std::move(tap); }

 private:
  Status allocate(const ForwardOptions& options);
  Status fill_with_nan(const Buffer& buffer);

  std::unique_ptr<Device> own_device_;
  Device* device_ = nullptr;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Stream> stream_;
  std::optional<Workspace> workspace_;
  std::vector<Buffer> page_buffers_;
  std::vector<TensorView> pages_;
  std::vector<int32_t> page_table_;  // [sequences pages_a_sequence]
  Buffer indices_;                   // of the step in flight
  Buffer logits_;                    // the same
  std::vector<int64_t> lengths_;
  int64_t pages_a_sequence_ = 0;
  StepTap tap_;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_FORWARD_H_
