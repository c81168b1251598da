// RecordedStep: one row count for which the two parts of a step are recorded, and the rule that
// says which steps it serves.
//
// A recorded step serves every plan in which each sequence has one row and at most `drafts` drafts
// after it: the plan is padded with sequences that have no rows. A step that no recording serves
// runs directly, and is counted under the reason: a fast path that is off must be seen.
#ifndef ASHLAR_ENGINE_RECORDED_STEP_H_
#define ASHLAR_ENGINE_RECORDED_STEP_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "device/device.h"
#include "engine/step_buffers.h"
#include "engine/step_plan.h"

namespace ashlar {

struct RecordedStep {
  int64_t sequences = 0;
  int64_t drafts = 0;  // of one sequence
  StepShape shape;
  std::unique_ptr<Recording> forward;
  std::unique_ptr<Recording> sample;
  int64_t steps = 0;  // replayed
};

// Why a step ran directly.
enum class DirectReason : uint8_t { kNotRecording, kPromptRows, kManySequences, kManyDrafts };
constexpr int kDirectReasons = 4;
std::string_view direct_reason_name(DirectReason reason);  // "prompt rows"

struct RecordedCount {
  int64_t sequences = 0;  // of the recording
  int64_t rows = 0;
  int64_t steps = 0;
  friend bool operator==(const RecordedCount&, const RecordedCount&) = default;
};

// What every step ran as.
struct StepCounts {
  std::vector<RecordedCount> recorded;
  std::array<int64_t, kDirectReasons> direct = {};  // by DirectReason
};

// "19 steps replayed (sequences: 18 of 1, 1 of 2), 4 direct (prompt rows 4)"
std::string step_counts_text(const StepCounts& counts);

// Numbers of sequences to record for, ascending: each up to 8, then so that padding adds less than
// a quarter; the last is max_sequences.
std::vector<int64_t> recorded_sequences(int64_t max_sequences);

// The smallest of the recordings that serves the plan (index), or why none does. Recordings ascend
// by drafts, then by sequences.
std::variant<size_t, DirectReason> choose_recording(const std::vector<RecordedStep>& recordings,
                                                    const StepPlan& plan);

}  // namespace ashlar

#endif  // ASHLAR_ENGINE_RECORDED_STEP_H_
