// Inputs are written once by the host, one upload a step. The seed is fixed: two runs do the same.
#include "bench_bed.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/align.h"
#include "base/check.h"
#include "tensor/synthetic_values.h"

namespace ashlar {

namespace {

constexpr uint64_t kSeed = 20261;

// Keeps the operations that are issued on it instead of running them.
class CollectingStream : public Stream {
 public:
  explicit CollectingStream(Device& device) : device_(device) { defers_ = true; }
  Device& device() override { return device_; }
  void defer(OpCall call) override { calls_.push_back(std::move(call)); }
  std::vector<OpCall> take() { return std::move(calls_); }

  Status synchronize() override { return refuse(); }
  std::unique_ptr<Event> record() override { CHECK(!"a step records events"); }
  void begin_recording() override { CHECK(!"a step records"); }
  Result<std::unique_ptr<Recording>> end_recording() override {
    return fail(ErrorCode::kInternal, "a step records");
  }
  void replay(Recording&) override { CHECK(!"a step replays"); }

 private:
  static Status refuse() { return fail(ErrorCode::kInternal, "a step waits for the device"); }

  Device& device_;
  std::vector<OpCall> calls_;
};

// Arrays of one upload, each at a multiple of 64 bytes, and the views that they become.
class Arrays {
 public:
  void add(TensorView& view, Shape shape, std::span<const int32_t> values) {
    CHECK_EQ(static_cast<int64_t>(values.size()), shape.count());
    put(view, DType::kI32, shape, std::as_bytes(values));
  }
  void fill(TensorView& view, Shape shape, int32_t value, DType type = DType::kI32) {
    const std::vector<int32_t> values(static_cast<size_t>(shape.count()), value);
    put(view, type, shape, std::as_bytes(std::span(values)));
  }
  void put(TensorView& view, DType type, Shape shape, std::span<const std::byte> bytes) {
    places_.push_back({&view, type, shape, bytes_.size()});
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize(static_cast<size_t>(round_up(static_cast<int64_t>(bytes_.size()) + 1, 64)));
  }

  // Sets the views.
  Result<Buffer> upload(Stream& stream) const {
    ASHLAR_ASSIGN(Buffer buffer, stream.device().allocate(bytes_.size()));
    stream.device().copy(stream, buffer.data(), bytes_.data(), bytes_.size());
    ASHLAR_TRY(stream.synchronize());
    for (const Place& place : places_) {
      *place.view = buffer.view(place.type, place.shape, place.offset);
    }
    return buffer;
  }

 private:
  struct Place {
    TensorView* view;
    DType type;
    Shape shape;
    size_t offset;
  };
  std::vector<Place> places_;
  std::vector<std::byte> bytes_;
};

// What the host says of each row and sequence of a step. The token at a position is the same in
// every step of a copy, so the parts of a prompt, however it is cut, are parts of one text.
struct StepLists {
  StepLists(const BedShape& shape, uint64_t seed, int64_t tokens) {
    const auto token = [&](int64_t sequence, int64_t position) {
      const auto place = static_cast<uint64_t>(sequence << 32 | position);
      return static_cast<int32_t>(synthetic_mix(synthetic_mix(seed) + place) %
                                  static_cast<uint64_t>(tokens));
    };
    for (int32_t i = 0; i < shape.sequences; ++i) {
      for (int64_t p = shape.context - shape.rows; p < shape.context; ++p) {
        // What decodes takes the newest token that the device has; a prompt comes from the host.
        host_tokens.push_back(shape.rows == 1 ? kFedToken : token(i, p));
        row_sequence.push_back(i);
      }
      starts.push_back(static_cast<int32_t>(host_tokens.size()));
      slots.push_back(i);
      feed.push_back(token(i, shape.context - 1));
      first_output.push_back(shape.wants_tokens ? i : kNoOutput);
      if (!shape.wants_tokens) continue;
      output_rows.push_back(starts.back() - 1);
      row_slot.push_back(i);
    }
  }
  std::vector<int32_t> host_tokens, row_sequence, starts = {0}, slots, feed, first_output;
  std::vector<int32_t> output_rows, row_slot;
};

// What the sampler reads and writes. The lists of a slot are empty and have room for one.
void add_sampling(Arrays& arrays, SampleTokensArgs& sample, const BedShape& shape,
                  const SamplingParams& params) {
  const int64_t s = shape.sequences;
  const int64_t r = shape.output_rows();
  SamplerState state;
  state.params = params;
  state.seed = kSeed;
  const std::vector<SlotSampling> slots(static_cast<size_t>(s), slot_sampling(state, {}, {}, {}));
  arrays.put(sample.slots, DType::kU8, {s, static_cast<int64_t>(sizeof(SlotSampling))},
             std::as_bytes(std::span(slots)));
  arrays.fill(sample.bias_tokens, {s, 1}, 0);
  arrays.fill(sample.bias_values, {s, 1}, 0, DType::kF32);
  arrays.fill(sample.end_tokens, {s, 1}, 0);
  arrays.fill(sample.drafts, {s, 1}, 0);
  arrays.fill(sample.row_draft, {r}, 0);
  arrays.fill(sample.row_mask, {r}, -1);
  arrays.fill(sample.tokens, {r}, 0);
  arrays.fill(sample.failures, {r}, -1);
  arrays.fill(sample.logprobs, {r}, 0, DType::kF32);
  arrays.fill(sample.top_tokens, {r, 1}, 0);
  arrays.fill(sample.top_logprobs, {r, 1}, 0, DType::kF32);
}

std::vector<std::byte> random_values(DType type, int64_t count) {
  std::mt19937_64 random(kSeed);
  std::vector<std::byte> out(static_cast<size_t>(count) * dtype_bytes(type));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const float value = static_cast<float>(random() >> 40) * 0x1p-23f - 1.0f;
    const BF16 as_bf16 = to_bf16(value);
    const F16 as_f16 = to_f16(value);
    std::byte* to = out.data() + i * dtype_bytes(type);
    if (type == DType::kF32) std::memcpy(to, &value, sizeof(value));
    if (type == DType::kBF16) std::memcpy(to, &as_bf16, sizeof(as_bf16));
    if (type == DType::kF16) std::memcpy(to, &as_f16, sizeof(as_f16));
  }
  return out;
}

}  // namespace

int64_t BedShape::pages() const { return sequences * divide_up(context, kPagePositions); }

void fill_repeating(Stream& stream, void* to, size_t bytes, std::span<const std::byte> pattern) {
  Device& device = stream.device();
  auto* at = static_cast<std::byte*>(to);
  size_t done = std::min(bytes, pattern.size());
  device.copy(stream, at, pattern.data(), done);
  while (done < bytes) {
    const size_t more = std::min(done, bytes - done);
    device.copy(stream, at + done, at, more);
    done += more;
  }
}

void run_call(Stream& stream, const OpCall& call) {
  if (stream.defers()) {
    stream.defer(call);
  } else {
    call(stream);
  }
}

Result<std::unique_ptr<BenchBed>> BenchBed::create(Model& model, Device& device,
                                                   const BedOptions& options) {
  std::unique_ptr<BenchBed> bed(new BenchBed(model, device));
  ASHLAR_TRY(bed->allocate(options));
  return bed;
}

Status BenchBed::allocate(const BedOptions& options) {
  stream_ = device_.new_stream();
  sampling_ = options.sampling;
  int64_t rows = 0;
  int64_t outputs = 0;
  for (const BedShape& shape : options.shapes) {
    CHECK(shape.rows >= 1 && shape.context >= shape.rows && shape.sequences >= 1);
    if (shape.context > model_.info().context_length) {
      return fail(ErrorCode::kInvalidArgument, "a context of {} is more than the model's {}",
                  shape.context, model_.info().context_length);
    }
    const int64_t most = model_.info().most_sequences;
    if (most > 0 && shape.sequences > most) {
      return fail(ErrorCode::kInvalidArgument, "{} sequences are more than the {} of a step on {}",
                  shape.sequences, most, device_.name());
    }
    rows = std::max(rows, shape.all_rows());
    outputs = std::max(outputs, shape.output_rows());
    pages_a_copy_ = std::max(pages_a_copy_, shape.pages());
  }
  for (const Model::PagedShape& shape : model_.paged_shapes()) {
    const int64_t page = 2 * shape.heads * kPagePositions * shape.head_size;
    const int64_t count = pages_a_copy_ * options.copies;
    const size_t bytes = static_cast<size_t>(count * page) * dtype_bytes(shape.type);
    ASHLAR_ASSIGN(Buffer buffer, device_.allocate(bytes));
    fill_repeating(*stream_, buffer.data(), bytes, random_values(shape.type, page));
    pages_.push_back(
        buffer.view(shape.type, {count, 2 * shape.heads, kPagePositions, shape.head_size}));
    kv_.push_back(std::move(buffer));
  }
  for (int64_t page = 0; page < pages_a_copy_; ++page) {
    page_list_.push_back(static_cast<int32_t>(page));
  }
  std::shuffle(page_list_.begin(), page_list_.end(), std::mt19937_64(kSeed));
  const int64_t bytes = model_.workspace_bytes(rows, outputs) +
                        round_up(outputs * model_.info().vocabulary * 4, 64) + 64;
  for (int64_t copy = 0; copy < options.copies; ++copy) {
    ASHLAR_ASSIGN(Buffer buffer, device_.allocate(static_cast<size_t>(bytes)));
    workspaces_.emplace_back(std::move(buffer));
  }
  return stream_->synchronize();
}

Result<BedStep> BenchBed::make_step(const BedShape& shape, int64_t copy) {
  const int64_t s = shape.sequences;
  const int64_t t = shape.all_rows();
  const int64_t table_pages = divide_up(shape.context, kPagePositions);
  CHECK_LE(shape.pages(), pages_a_copy_);
  const StepLists lists(shape, kSeed + static_cast<uint64_t>(copy), model_.info().decodable);
  std::vector<int32_t> table(page_list_.begin(), page_list_.begin() + s * table_pages);
  for (int32_t& page : table) page += static_cast<int32_t>(copy * pages_a_copy_);

  BedStep step;
  step.shape = shape;
  step.copy = copy;
  Arrays arrays;
  arrays.add(step.page_table, {s, table_pages}, table);
  ResolveRowsArgs& resolve = step.resolve;
  arrays.add(resolve.host_tokens, {t}, lists.host_tokens);
  arrays.add(resolve.row_sequence, {t}, lists.row_sequence);
  arrays.add(resolve.sequence_starts, {s + 1}, lists.starts);
  arrays.add(resolve.slots, {s}, lists.slots);
  arrays.fill(resolve.starts, {s}, static_cast<int32_t>(shape.context - shape.rows));
  arrays.add(resolve.feed, {s}, lists.feed);
  arrays.fill(resolve.lengths, {s}, 0);
  arrays.fill(resolve.tokens, {t}, 0);
  arrays.fill(resolve.positions, {t}, 0);
  SampleTokensArgs& sample = step.sample;
  sample.decodable = model_.info().decodable;
  arrays.add(sample.row_slot, {shape.output_rows()}, lists.row_slot);
  arrays.add(sample.output_rows, {shape.output_rows()}, lists.output_rows);
  add_sampling(arrays, sample, shape, sampling_);
  AcceptTokensArgs& accept = step.accept;
  arrays.add(accept.first_output, {s}, lists.first_output);
  arrays.fill(accept.draft_counts, {s}, 0);
  arrays.fill(accept.accepted, {s}, 0);
  ASHLAR_ASSIGN(step.memory, arrays.upload(*stream_));
  sample.positions = resolve.positions;
  resolve.drafts = accept.drafts = sample.drafts;
  accept.slots = resolve.slots;
  accept.sequence_starts = resolve.sequence_starts;
  accept.sampled = sample.tokens;
  accept.failures = sample.failures;
  accept.feed = resolve.feed;
  accept.lengths = resolve.lengths;
  return step;
}

void BenchBed::issue(Stream& stream, const BedStep& step) {
  Workspace& workspace = workspaces_[static_cast<size_t>(step.copy)];
  const Workspace::Scope scope(workspace);
  const int64_t outputs = step.shape.output_rows();
  resolve_rows(stream, step.resolve);
  // Taken before the network's own memory, and so never written by another operation.
  const TensorView logits = workspace.take(DType::kF32, {outputs, model_.info().vocabulary});
  Step forward{stream,
               workspace,
               step.resolve.tokens,
               step.resolve.positions,
               step.resolve.row_sequence,
               step.resolve.sequence_starts,
               step.page_table,
               step.resolve.slots,
               step.sample.output_rows,
               pages_,
               nullptr};
  model_.forward(forward, logits);
  if (outputs > 0) {
    SampleTokensArgs sample = step.sample;
    sample.logits = logits;
    sample_tokens(stream, sample);
  }
  accept_tokens(stream, step.accept);
}

std::vector<OpCall> BenchBed::calls(const BedStep& step) {
  CollectingStream collecting(device_);
  issue(collecting, step);
  return collecting.take();
}

Result<std::vector<int32_t>> BenchBed::tokens(const BedStep& step) {
  const auto count = static_cast<size_t>(step.shape.output_rows());
  std::vector<int32_t> tokens(count);
  std::vector<int32_t> failures(count);
  device_.copy(*stream_, tokens.data(), step.sample.tokens.data(), count * 4);
  device_.copy(*stream_, failures.data(), step.sample.failures.data(), count * 4);
  ASHLAR_TRY(stream_->synchronize());
  for (size_t i = 0; i < count; ++i) {
    if (failures[i] == 0) continue;
    return fail(ErrorCode::kDevice, "sequence {} of {} got no token at position {} (failure {})", i,
                count, step.shape.context, failures[i]);
  }
  return tokens;
}

}  // namespace ashlar
