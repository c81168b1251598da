// LoadWish: what whoever loads a model wants to know and to decide about the way of its weights.
#ifndef ASHLAR_CHECKPOINT_LOAD_WISH_H_
#define ASHLAR_CHECKPOINT_LOAD_WISH_H_

#include <cstdint>
#include <functional>

namespace ashlar {

// How far a load is, and at its end where the time went.
struct LoadProgress {
  int64_t done_bytes = 0;  // of files, or generated
  int64_t total_bytes = 0;
  double seconds = 0;
  double read_wait_seconds = 0;    // that the device waited for readers
  double device_wait_seconds = 0;  // that readers waited for copies and layout
  double reading_seconds = 0;      // of all threads together
  int threads = 0;
  int64_t ring_bytes = 0;
};

// Told about ten times a second, and at the end; false stops the load.
using LoadObserver = std::function<bool(const LoadProgress&)>;

struct LoadWish {
  bool values = true;     // false: sizes alone; the model cannot run (device/counting_device.h)
  LoadObserver observer;  // of weights that go to a device; the CPU maps its own and tells nothing
};

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_LOAD_WISH_H_
