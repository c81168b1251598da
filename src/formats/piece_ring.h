// PieceRing: who may use which slot of the ring, between threads that read pieces into slots and
// the one thread that gives slots to a device. Pieces are numbers here, and so are slots.
//
// A slot is free, taken by a reader, ready, or with the device. Readers take pieces in ascending
// order; they become ready in any. Every wait ends when stop() is called.
#ifndef ASHLAR_FORMATS_PIECE_RING_H_
#define ASHLAR_FORMATS_PIECE_RING_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"

namespace ashlar {

class PieceRing {
 public:
  struct Place {
    size_t piece = 0;
    size_t slot = 0;
  };
  enum class Next {
    kReady,        // a slot to give to the device
    kFreeOne,      // readers wait for a slot that the device has
    kNothingYet,   // a tenth of a second passed
    kReaderFailed  // see failure()
  };

  PieceRing(size_t pieces, size_t slots) : pieces_(pieces) {
    for (size_t slot = 0; slot < slots; ++slot) free_.push_back(slot);
  }

  // For readers: the next piece and a slot for it; nullopt when there is no more to do.
  std::optional<Place> take() {
    std::unique_lock lock(mutex_);
    slot_freed_.wait(lock, [&] { return stopped_ || next_ == pieces_ || !free_.empty(); });
    if (stopped_ || next_ == pieces_) return std::nullopt;
    const Place place = {next_++, free_.back()};
    free_.pop_back();
    if (free_.empty()) changed_.notify_one();
    return place;
  }
  void deliver(const Place& place) {
    const std::lock_guard lock(mutex_);
    ready_.push_back(place);
    changed_.notify_one();
  }
  void fail(Error error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
    stop_locked();
  }

  // For the thread of the device. with_device: whether it has slots that it could free.
  Next next(bool with_device, Place& place) {
    std::unique_lock lock(mutex_);
    const auto starved = [&] { return with_device && free_.empty() && next_ < pieces_; };
    changed_.wait_for(lock, std::chrono::milliseconds(100),
                      [&] { return failure_ || !ready_.empty() || starved(); });
    if (failure_) return Next::kReaderFailed;
    if (ready_.empty()) return starved() ? Next::kFreeOne : Next::kNothingYet;
    place = ready_.front();
    ready_.pop_front();
    return Next::kReady;
  }
  void release(size_t slot) {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
    slot_freed_.notify_one();
  }
  // Sends readers home; what they are reading they finish.
  void stop() {
    const std::lock_guard lock(mutex_);
    stop_locked();
  }
  const Error& failure() const { return *failure_; }

 private:
  void stop_locked() {
    stopped_ = true;
    slot_freed_.notify_all();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable slot_freed_;
  std::condition_variable changed_;
  const size_t pieces_;
  size_t next_ = 0;
  std::vector<size_t> free_;
  std::deque<Place> ready_;
  std::optional<Error> failure_;
  bool stopped_ = false;
};

}  // namespace ashlar

#endif  // ASHLAR_FORMATS_PIECE_RING_H_
