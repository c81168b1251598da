// WeightLoader: brings the weights of a model from files to a device, all of them in one go.
//
// Weights say what they want while the model is built; run() then reads in the order of the files.
// A few threads fill pieces of a ring in host memory that the device copies from (pinned, on CUDA),
// while it copies and lays out the pieces before them. Host memory is bounded by the ring, whatever
// the model. Generated tensors (synthetic models) are made on the device and pass no ring.
//
// Host code over operations and Device alone, so that a CPU device can stand in for a GPU in tests.
#ifndef ASHLAR_FORMATS_WEIGHT_LOADER_H_
#define ASHLAR_FORMATS_WEIGHT_LOADER_H_

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "checkpoint/load_wish.h"
#include "device/device.h"
#include "formats/piece_reader.h"

namespace ashlar {

struct LoadLimits {
  int64_t ring_bytes = int64_t{128} << 20;  // of pinned memory; at least two pieces are taken
  int64_t piece_bytes = int64_t{4} << 20;
  int threads = 0;  // that read; 0: as many as there are cores, 16 at most
};

class WeightLoader {
 public:
  explicit WeightLoader(Device& device, const LoadLimits& limits = {})
      : device_(device), limits_(limits) {}

  // Asks for one part of a matrix. What the target shows and the tensor must live until run().
  void add(LoadJob job) { jobs_.push_back(std::move(job)); }

  // Loads what was added since the last run; waits for the device. After an error targets hold
  // anything. kCancelled when the observer said so.
  Status run(const LoadObserver& observer = {});

 private:
  Device& device_;
  LoadLimits limits_;
  std::vector<LoadJob> jobs_;
};

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_WEIGHT_LOADER_H_
