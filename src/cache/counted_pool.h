// CountedPool: numbered things of one kind (pages, slots) that are held by counting and return
// late.
//
// A thing is free, held by one or more holders, or returning: nobody holds it any more, but a step
// that was submitted before the last holder let go may still read or write it on the device. It
// becomes free when that step is completed. The pool knows step numbers only as a rising count; it
// is a plain value (copy it to ask "what if") and does not know what the things contain, except
// that their content may need to be cleared before the next use.
#ifndef ASHLAR_CACHE_COUNTED_POOL_H_
#define ASHLAR_CACHE_COUNTED_POOL_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace ashlar {

class CountedPool {
 public:
  explicit CountedPool(int32_t size);

  int32_t size() const { return static_cast<int32_t>(holders_.size()); }
  int32_t free_count() const { return static_cast<int32_t>(free_.size()); }
  int32_t returning_count() const { return static_cast<int32_t>(returning_.size()); }
  int32_t holders(int32_t id) const { return holders_[id]; }
  bool is_free(int32_t id) const;

  // One free thing with one holder; the one that was freed last comes first. Nothing when none is
  // free.
  std::optional<int32_t> take();
  void hold(int32_t id);  // one more holder of something that is held
  void drop(int32_t id);  // one holder less; the last one sends it back

  // Marks content that must not be seen again (not-a-number, for one). Whoever takes it next asks
  // take_mark() once and, if true, has it cleared first.
  void mark(int32_t id) { marked_[id] = true; }
  bool take_mark(int32_t id);

  // Steps are submitted and completed in order, each one once.
  void step_submitted() { ++submitted_; }
  void step_completed();

  // What is wrong with the bookkeeping, or "". For tests.
  std::string inconsistency() const;

 private:
  struct Returning {
    int32_t id;
    int64_t step;  // free once so many steps are completed
  };
  std::vector<int32_t> holders_;
  std::vector<bool> marked_;
  std::vector<int32_t> free_;  // the back is taken first
  std::deque<Returning> returning_;
  int64_t submitted_ = 0;
  int64_t completed_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_CACHE_COUNTED_POOL_H_
