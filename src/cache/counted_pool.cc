// Counting of holders and the queue of things that wait for submitted steps. Host bookkeeping only.
#include "cache/counted_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace ashlar {

CountedPool::CountedPool(int32_t size) : holders_(size, 0), marked_(size, false) {
  free_.reserve(size);
  for (int32_t id = size - 1; id >= 0; --id) free_.push_back(id);
}

bool CountedPool::is_free(int32_t id) const {
  return std::find(free_.begin(), free_.end(), id) != free_.end();
}

std::optional<int32_t> CountedPool::take() {
  if (free_.empty()) return std::nullopt;
  const int32_t id = free_.back();
  free_.pop_back();
  CHECK_EQ(holders_[id], 0);
  holders_[id] = 1;
  return id;
}

void CountedPool::hold(int32_t id) {
  CHECK_GT(holders_[id], 0);
  ++holders_[id];
}

void CountedPool::drop(int32_t id) {
  CHECK_GT(holders_[id], 0);
  if (--holders_[id] > 0) return;
  if (submitted_ == completed_) {
    free_.push_back(id);
  } else {
    returning_.push_back({id, submitted_});
  }
}

bool CountedPool::take_mark(int32_t id) {
  const bool was = marked_[id];
  marked_[id] = false;
  return was;
}

void CountedPool::step_completed() {
  CHECK_LT(completed_, submitted_);
  ++completed_;
  while (!returning_.empty() && returning_.front().step <= completed_) {
    free_.push_back(returning_.front().id);
    returning_.pop_front();
  }
}

std::string CountedPool::inconsistency() const {
  std::vector<int> places(holders_.size(), 0);
  for (int32_t id : free_) ++places[id];
  for (const Returning& r : returning_) ++places[r.id];
  for (size_t id = 0; id < places.size(); ++id) {
    const int wanted = holders_[id] == 0 ? 1 : 0;
    if (places[id] != wanted) {
      return fmt::format("{} has {} holders and is {} times free or returning", id, holders_[id],
                         places[id]);
    }
  }
  return {};
}

}  // namespace ashlar
