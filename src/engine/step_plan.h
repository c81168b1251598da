// StepPlan: the decision for one step, as a plain value that can be printed, compared, stored and
// replayed.
//
// Prefill, chunked prefill, decode, draft verification and resume have the same shape: rows of some
// sequences at consecutive positions. With two steps in flight the host does not know how far the
// step before got: then a plan holds bounds, and the device uses its own length. Order on the
// device: page copies, slot copies, page clears, the forward part, (masks that come late,) the
// sample part, slot copies after.
#ifndef ASHLAR_ENGINE_STEP_PLAN_H_
#define ASHLAR_ENGINE_STEP_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/chunk_cursor.h"
#include "cache/page_list.h"

namespace ashlar {

using SequenceId = int64_t;  // rises with arrival

// The rows of one sequence.
struct SequenceRows {
  SequenceId sequence = 0;
  int32_t slot = 0;   // index into everything the device keeps a fixed size of per sequence
  int64_t first = 0;  // position of the first row; the least possible one when slack > 0
  int64_t slack =
      0;  // the device's length may lie beyond `first` by up to so many; 0: it equals `first`
  int64_t count = 0;          // rows, drafts included
  int64_t drafts = 0;         // the last so many rows are drafts, whose tokens lie on the device
  bool wants_logits = false;  // of the last 1 + drafts rows
  bool fed = false;     // the token of the first row is the newest one of this slot on the device
  bool starts = false;  // the slot was just taken: its length becomes `first`; recurrent state not
                        // copied is zero
  bool late =
      false;  // its sample part needs a mask that the host makes from tokens before this step
  std::vector<int32_t> tokens;  // of the rows, where the host knows them: unless fed
  std::vector<PageId> pages;    // enough for first + slack + count positions

  int64_t output_rows() const { return wants_logits ? 1 + drafts : 0; }
  // Rows that are sure to stay: all but the drafts.
  int64_t committed() const { return count - drafts; }
  friend bool operator==(const SequenceRows&, const SequenceRows&) = default;
};

struct StepPlan {
  int64_t step = 0;
  std::vector<PageCopy> page_copies;
  std::vector<SlotCopy> slot_copies;  // before the forward part
  std::vector<PageId> page_clears;
  std::vector<SequenceRows> rows;
  std::vector<SlotCopy> slot_copies_after;  // after the sample part: snapshots

  bool empty() const { return rows.empty(); }
  int64_t row_count() const;
  int64_t output_row_count() const;
  // The runner must wait for masks between the forward and the sample part.
  bool waits_for_masks() const;

  // One line a sequence: "a @12+0..2 x3 drafts=2 fed logits slot=1 pages=4,7". `name` turns an id
  // into a word.
  std::string text(const std::function<std::string(SequenceId)>& name = {}) const;
  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_STEP_PLAN_H_
