// Filling of a step's inputs: an image in host memory, one copy for the index arrays and one for
// the page table, of which only the columns that the plan uses travel.
#include "engine/step_buffers.h"

#include <algorithm>

#include "base/check.h"
#include "engine/view_cutter.h"
#include "kernels/step_rows/step_rows.h"

namespace ashlar {
namespace {

// The arrays that the host writes; the page table is the last. Returns the bytes before it.
int64_t cut_inputs(ViewCutter& cut, const StepShape& shape, StepViews& v) {
  v.host_tokens = cut.take_i32({shape.rows});
  v.row_sequence = cut.take_i32({shape.rows});
  v.sequence_starts = cut.take_i32({shape.sequences + 1});
  v.slots = cut.take_i32({shape.sequences});
  v.starts = cut.take_i32({shape.sequences});
  v.first_output = cut.take_i32({shape.sequences});
  v.draft_counts = cut.take_i32({shape.sequences});
  v.output_slots = cut.take_i32({shape.sequences});
  v.output_rows = cut.take_i32({shape.output_rows});
  v.row_slot = cut.take_i32({shape.output_rows});
  v.row_draft = cut.take_i32({shape.output_rows});
  v.row_mask = cut.take_i32({shape.output_rows});
  const int64_t before_table = cut.used();
  v.page_table = cut.take_i32({shape.sequences, shape.table_pages});
  return before_table;
}

void cut_derived(ViewCutter& cut, const StepShape& shape, StepViews& v) {
  v.tokens = cut.take_i32({shape.rows});
  v.positions = cut.take_i32({shape.rows});
}

struct Kept {
  TensorView feed;
  TensorView lengths;
  TensorView drafts;
};

void cut_kept(ViewCutter& cut, int64_t slots, int64_t drafts, Kept& kept) {
  kept.feed = cut.take_i32({slots});
  kept.lengths = cut.take_i32({slots});
  kept.drafts = cut.take_i32({slots, drafts});
}

size_t inputs_bytes(const StepShape& shape) {
  ViewCutter count;
  StepViews v;
  cut_inputs(count, shape, v);
  return static_cast<size_t>(count.used());
}

size_t derived_bytes(const StepShape& shape) {
  ViewCutter count;
  StepViews v;
  cut_derived(count, shape, v);
  return static_cast<size_t>(count.used());
}

size_t kept_bytes(int64_t slots, int64_t drafts) {
  ViewCutter count;
  Kept kept;
  cut_kept(count, slots, drafts, kept);
  return static_cast<size_t>(count.used());
}

// Writes what a plan says of its sequences and their rows, in order.
class ImageWriter {
 public:
  ImageWriter(const StepViews& to, const StepShape& shape) : to_(to), shape_(shape) {}

  void add(const SequenceRows& r) {
    put(to_.sequence_starts, sequence_, row_);
    put(to_.slots, sequence_, r.slot);
    put(to_.starts, sequence_, r.starts ? r.first : kKeepsLength);
    put(to_.first_output, sequence_, r.wants_logits ? output_ : kNoOutput);
    put(to_.draft_counts, sequence_, r.drafts);
    put(to_.output_slots, sequence_, r.wants_logits ? r.slot : -1);
    const int64_t mask = r.late ? mask_++ : -1;
    for (int64_t i = 0; i < r.count; ++i, ++row_) {
      put(to_.host_tokens, row_, r.fed ? kFedToken : r.tokens[static_cast<size_t>(i)]);
      put(to_.row_sequence, row_, sequence_);
      if (!r.wants_logits || i < r.count - 1 - r.drafts) continue;
      put(to_.output_rows, output_, row_);
      put(to_.row_slot, output_, r.slot);
      put(to_.row_draft, output_, i - (r.count - 1 - r.drafts));
      put(to_.row_mask, output_, mask);
      ++output_;
    }
    ++sequence_;
  }

  // Padded output rows name row 0, whose logits nobody reads.
  void pad() {
    for (int64_t s = sequence_; s <= shape_.sequences; ++s) put(to_.sequence_starts, s, row_);
    for (int64_t s = sequence_; s < shape_.sequences; ++s) {
      put(to_.slots, s, -1);
      put(to_.starts, s, kKeepsLength);
      put(to_.first_output, s, kNoOutput);
      put(to_.draft_counts, s, 0);
      put(to_.output_slots, s, -1);
    }
    for (int64_t t = row_; t < shape_.rows; ++t) {
      put(to_.host_tokens, t, 0);
      put(to_.row_sequence, t, -1);
    }
    for (int64_t r = output_; r < shape_.output_rows; ++r) {
      put(to_.output_rows, r, 0);
      put(to_.row_slot, r, -1);
      put(to_.row_draft, r, 0);
      put(to_.row_mask, r, -1);
    }
  }

 private:
  static void put(const TensorView& view, int64_t index, int64_t value) {
    view.as<int32_t>()[index] = static_cast<int32_t>(value);
  }

  const StepViews& to_;
  const StepShape& shape_;
  int64_t sequence_ = 0;
  int64_t row_ = 0;
  int64_t output_ = 0;
  int64_t mask_ = 0;
};

}  // namespace

StepShape shape_of(const StepPlan& plan) {
  StepShape shape;
  shape.rows = plan.row_count();
  shape.sequences = static_cast<int64_t>(plan.rows.size());
  shape.output_rows = plan.output_row_count();
  for (const SequenceRows& r : plan.rows) {
    shape.table_pages = std::max(shape.table_pages, static_cast<int64_t>(r.pages.size()));
  }
  return shape;
}

Result<StepBuffers> StepBuffers::create(Device& device, Stream& stream, const StepShape& largest,
                                        int64_t slots, int64_t drafts, int64_t sets) {
  StepBuffers result;
  result.device_ = &device;
  result.largest_ = largest;
  const size_t bytes = inputs_bytes(largest);
  for (int64_t i = 0; i < sets; ++i) {
    ASHLAR_ASSIGN(Buffer image, device.allocate_host(bytes));
    result.images_.push_back(std::move(image));
  }
  ASHLAR_ASSIGN(result.inputs_, device.allocate(bytes));
  ASHLAR_ASSIGN(result.derived_, device.allocate(derived_bytes(largest)));
  ASHLAR_ASSIGN(result.kept_, device.allocate(kept_bytes(slots, drafts)));
  ViewCutter cut(result.kept_);
  Kept kept;
  cut_kept(cut, slots, drafts, kept);
  result.feed_ = kept.feed;
  result.lengths_ = kept.lengths;
  result.drafts_ = kept.drafts;
  device.clear(stream, result.kept_.data(), result.kept_.bytes());
  return result;
}

StepViews StepBuffers::views(const StepShape& shape) const {
  CHECK_LE(shape.rows, largest_.rows);
  CHECK_LE(shape.sequences, largest_.sequences);
  CHECK_LE(shape.output_rows, largest_.output_rows);
  CHECK_LE(shape.table_pages, largest_.table_pages);
  StepViews v;
  ViewCutter inputs(inputs_);
  cut_inputs(inputs, shape, v);
  ViewCutter derived(derived_);
  cut_derived(derived, shape, v);
  return v;
}

StepViews StepBuffers::fill(Stream& stream, const StepPlan& plan, const StepShape& shape,
                            int64_t set) {
  const StepViews there = views(shape);
  const Buffer& image = images_[static_cast<size_t>(set)];
  // The image's table is as wide as the plan needs; the device's may be wider.
  const StepShape needed = shape_of(plan);
  StepViews here;
  ViewCutter cut(image);
  const int64_t table_begin =
      cut_inputs(cut, {shape.rows, shape.sequences, shape.output_rows, needed.table_pages}, here);
  ImageWriter writer(here, shape);
  for (size_t s = 0; s < plan.rows.size(); ++s) {
    writer.add(plan.rows[s]);
    int32_t* table = here.page_table.row<int32_t>(static_cast<int64_t>(s));
    const std::vector<PageId>& pages = plan.rows[s].pages;
    std::fill(std::copy(pages.begin(), pages.end(), table), table + needed.table_pages, -1);
  }
  writer.pad();
  device_->copy(stream, inputs_.data(), image.data(), static_cast<size_t>(table_begin));
  device_->copy_rows(stream, there.page_table.data(), static_cast<size_t>(shape.table_pages) * 4,
                     here.page_table.data(), static_cast<size_t>(needed.table_pages) * 4,
                     static_cast<size_t>(needed.table_pages) * 4, plan.rows.size());
  return there;
}

int64_t StepBuffers::device_bytes(const StepShape& largest, int64_t slots, int64_t drafts) {
  return static_cast<int64_t>(inputs_bytes(largest) + derived_bytes(largest) +
                              kept_bytes(slots, drafts));
}

}  // namespace ashlar
