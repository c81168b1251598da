// Filling of a step's inputs where host and device share memory. A device with memory of its own
// fills the host part, copies it and resolves rows in a kernel; the layout is the same.
#include "engine/step_buffers.h"

#include <algorithm>

#include "base/align.h"
#include "base/check.h"

namespace ashlar {
namespace {

// Cuts i32 views out of a buffer, each at a multiple of 64 bytes.
class Cutter {
 public:
  explicit Cutter(const Buffer& buffer) : buffer_(buffer) {}
  TensorView take(Shape shape) {
    const TensorView view = buffer_.view(DType::kI32, shape, used_);
    used_ += static_cast<size_t>(round_up(shape.count() * 4, 64));
    return view;
  }

 private:
  const Buffer& buffer_;
  size_t used_ = 0;
};

size_t bytes_of(std::initializer_list<int64_t> counts) {
  int64_t sum = 0;
  for (int64_t count : counts) sum += round_up(count * 4, 64);
  return static_cast<size_t>(std::max<int64_t>(sum, 64));
}

}  // namespace

Result<StepBuffers> StepBuffers::create(Device& device, const StepSizes& sizes, int64_t sets) {
  StepBuffers result;
  result.sizes_ = sizes;
  const size_t set_bytes =
      bytes_of({sizes.rows, sizes.rows, sizes.rows, sizes.sequences + 1,
                sizes.sequences * sizes.table_pages, sizes.sequences, sizes.output_rows});
  for (int64_t i = 0; i < sets; ++i) {
    ASHLAR_ASSIGN(Buffer buffer, device.allocate(set_bytes));
    result.sets_.push_back(std::move(buffer));
  }
  ASHLAR_ASSIGN(result.kept_,
                device.allocate(bytes_of({sizes.slots, sizes.slots, sizes.slots * sizes.drafts})));
  Cutter cut(result.kept_);
  result.feed_ = cut.take({sizes.slots});
  result.lengths_ = cut.take({sizes.slots});
  result.drafts_ = cut.take({sizes.slots, sizes.drafts});
  std::fill_n(result.feed_.as<int32_t>(), sizes.slots, 0);
  std::fill_n(result.lengths_.as<int32_t>(), sizes.slots, 0);
  std::fill_n(result.drafts_.as<int32_t>(), sizes.slots * sizes.drafts, 0);
  return result;
}

StepViews StepBuffers::fill(const StepPlan& plan, int64_t set) {
  const int64_t sequences = static_cast<int64_t>(plan.rows.size());
  int64_t table_pages = 1;
  for (const SequenceRows& r : plan.rows) {
    table_pages = std::max(table_pages, static_cast<int64_t>(r.pages.size()));
  }
  CHECK_LE(plan.row_count(), sizes_.rows);
  CHECK_LE(sequences, sizes_.sequences);
  CHECK_LE(table_pages, sizes_.table_pages);
  CHECK_LE(plan.output_row_count(), sizes_.output_rows);

  Cutter cut(sets_[static_cast<size_t>(set)]);
  StepViews v;
  v.tokens = cut.take({plan.row_count()});
  v.positions = cut.take({plan.row_count()});
  v.row_sequence = cut.take({plan.row_count()});
  v.sequence_starts = cut.take({sequences + 1});
  v.page_table = cut.take({sequences, table_pages});
  v.slots = cut.take({sequences});
  v.output_rows = cut.take({plan.output_row_count()});

  int32_t* lengths = lengths_.as<int32_t>();
  int32_t* tokens = v.tokens.as<int32_t>();
  int32_t* output = v.output_rows.as<int32_t>();
  int32_t row = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const SequenceRows& r = plan.rows[static_cast<size_t>(s)];
    if (r.starts) lengths[r.slot] = static_cast<int32_t>(r.first);
    const int32_t length = lengths[r.slot];
    CHECK(length >= r.first && length <= r.first + r.slack);
    v.sequence_starts.as<int32_t>()[s] = row;
    v.slots.as<int32_t>()[s] = r.slot;
    int32_t* table = v.page_table.row<int32_t>(s);
    std::fill(std::copy(r.pages.begin(), r.pages.end(), table), table + table_pages, -1);
    for (int64_t i = 0; i < r.count; ++i, ++row) {
      v.positions.as<int32_t>()[row] = length + static_cast<int32_t>(i);
      v.row_sequence.as<int32_t>()[row] = static_cast<int32_t>(s);
      if (!r.fed) {
        tokens[row] = r.tokens[static_cast<size_t>(i)];
      } else {
        tokens[row] = i == 0 ? feed_.as<int32_t>()[r.slot] : drafts_.row<int32_t>(r.slot)[i - 1];
      }
      if (r.wants_logits && i >= r.count - 1 - r.drafts) *output++ = row;
    }
  }
  v.sequence_starts.as<int32_t>()[sequences] = row;
  return v;
}

}  // namespace ashlar
