// Builds steps by hand from a fixed assignment of pages.
#include "testing/forward.h"

#include <algorithm>

#include "base/align.h"
#include "base/check.h"
#include "checkpoint/checkpoint.h"

namespace ashlar {

namespace {

// Index arrays of a step, one after the other in one upload.
class IndexArrays {
 public:
  // Views are valid after upload().
  size_t add(std::span<const int32_t> values, Shape shape) {
    values_.resize(static_cast<size_t>(round_up(static_cast<int64_t>(values_.size()), 16)));
    arrays_.push_back({values_.size() * sizeof(int32_t), shape});
    values_.insert(values_.end(), values.begin(), values.end());
    return arrays_.size() - 1;
  }
  Status upload(Stream& stream, Buffer& buffer) {
    const size_t bytes = std::max<size_t>(values_.size(), 1) * sizeof(int32_t);
    if (buffer.bytes() < bytes) {
      ASHLAR_ASSIGN(buffer, stream.device().allocate(bytes));
    }
    buffer_ = &buffer;
    stream.device().copy(stream, buffer.data(), values_.data(), values_.size() * sizeof(int32_t));
    return stream.synchronize();
  }
  TensorView view(size_t array) const {
    return buffer_->view(DType::kI32, arrays_[array].shape, arrays_[array].offset);
  }

 private:
  struct Array {
    size_t offset;
    Shape shape;
  };

  std::vector<int32_t> values_;
  std::vector<Array> arrays_;
  Buffer* buffer_ = nullptr;
};

void require(const Status& status) {
  if (!status) check_failed("forward", 0, "device", status.error().message);
}

}  // namespace

Result<std::unique_ptr<ForwardHarness>> ForwardHarness::load(const std::string& model_argument,
                                                             const ForwardOptions& options) {
  auto harness = std::make_unique<ForwardHarness>();
  if (options.device == nullptr) harness->own_device_ = new_cpu_device(options.threads);
  harness->device_ = options.device != nullptr ? options.device : harness->own_device_.get();
  ASHLAR_ASSIGN(std::shared_ptr<Checkpoint> checkpoint,
                Checkpoint::open(model_argument, HubPaths{}));
  ModelOptions model_options;
  model_options.kv_type = options.kv_type;
  model_options.decodable = options.decodable;
  ASHLAR_ASSIGN(harness->model_,
                load_model(std::move(checkpoint), *harness->device_, model_options));
  ASHLAR_TRY(harness->allocate(options));
  return harness;
}

Status ForwardHarness::allocate(const ForwardOptions& options) {
  stream_ = device_->new_stream();
  const int64_t bytes = model_->workspace_bytes(options.rows, options.rows);
  ASHLAR_ASSIGN(Buffer scratch, device_->allocate(static_cast<size_t>(bytes)));
  workspace_.emplace(std::move(scratch));
  const int64_t positions = std::min(options.positions, model_->info().context_length);
  pages_a_sequence_ = divide_up(positions, kPagePositions);
  const int64_t page_count = pages_a_sequence_ * options.sequences;
  for (const PagedShape& shape : model_->paged_shapes()) {
    const Shape pages = {page_count, 2 * shape.heads, kPagePositions, shape.head_size};
    ASHLAR_ASSIGN(Buffer buffer,
                  device_->allocate(static_cast<size_t>(pages.count()) * dtype_bytes(shape.type)));
    ASHLAR_TRY(fill_with_nan(buffer));
    pages_.push_back(buffer.view(shape.type, pages));
    page_buffers_.push_back(std::move(buffer));
  }
  for (int64_t i = 0; i < page_count; ++i)
    page_table_.push_back(static_cast<int32_t>(page_count - 1 - i));
  lengths_.assign(static_cast<size_t>(options.sequences), 0);
  return {};
}

Status ForwardHarness::fill_with_nan(const Buffer& buffer) {
  const std::vector<std::byte> ones(buffer.bytes(), std::byte{0xff});  // NaN in f32, f16 and bf16
  device_->copy(*stream_, buffer.data(), ones.data(), ones.size());
  return stream_->synchronize();
}

std::vector<float> ForwardHarness::forward(std::span<const Piece> pieces, int64_t padding) {
  std::vector<int32_t> tokens, positions, row_sequence, starts = {0}, table, output_rows;
  for (size_t s = 0; s < pieces.size(); ++s) {
    const int64_t sequence = pieces[s].sequence;
    for (const int32_t token : pieces[s].tokens) {
      output_rows.push_back(static_cast<int32_t>(tokens.size()));
      tokens.push_back(token);
      positions.push_back(static_cast<int32_t>(lengths_[sequence]++));
      row_sequence.push_back(static_cast<int32_t>(s));
    }
    CHECK_LE(lengths_[sequence], pages_a_sequence_ * kPagePositions);
    starts.push_back(static_cast<int32_t>(tokens.size()));
    const auto first = page_table_.begin() + sequence * pages_a_sequence_;
    table.insert(table.end(), first, first + pages_a_sequence_);
  }
  for (int64_t i = 0; i < padding; ++i) {
    tokens.push_back(0);
    positions.push_back(0);
    row_sequence.push_back(-1);
  }
  std::vector<int32_t> slots(pieces.size(), -1);
  const int64_t rows = static_cast<int64_t>(tokens.size());
  const int64_t outputs = static_cast<int64_t>(output_rows.size());
  const int64_t sequences = static_cast<int64_t>(pieces.size());
  IndexArrays arrays;
  const size_t token_array = arrays.add(tokens, {rows});
  const size_t position_array = arrays.add(positions, {rows});
  const size_t sequence_array = arrays.add(row_sequence, {rows});
  const size_t start_array = arrays.add(starts, {sequences + 1});
  const size_t table_array = arrays.add(table, {sequences, pages_a_sequence_});
  const size_t slot_array = arrays.add(slots, {sequences});
  const size_t output_array = arrays.add(output_rows, {outputs});
  require(arrays.upload(*stream_, indices_));
  const Shape logits_shape = {outputs, model_->info().vocabulary};
  std::vector<float> logits(static_cast<size_t>(logits_shape.count()));
  const size_t logits_bytes = logits.size() * sizeof(float);
  if (logits_.bytes() < logits_bytes) {
    Result<Buffer> buffer = device_->allocate(logits_bytes);
    if (!buffer) check_failed("forward", 0, "logits", buffer.error().message);
    logits_ = std::move(*buffer);
  }
  Step step = {.stream = *stream_,
               .workspace = *workspace_,
               .tokens = arrays.view(token_array),
               .positions = arrays.view(position_array),
               .row_sequence = arrays.view(sequence_array),
               .sequence_starts = arrays.view(start_array),
               .page_table = arrays.view(table_array),
               .slots = arrays.view(slot_array),
               .output_rows = arrays.view(output_array),
               .paged = pages_,
               .tap = tap_ ? &tap_ : nullptr};
  model_->forward(step, logits_.view(DType::kF32, logits_shape));
  device_->copy(*stream_, logits.data(), logits_.data(), logits_bytes);
  require(stream_->synchronize());
  return logits;
}

std::vector<float> ForwardHarness::logits(std::span<const int32_t> tokens, int64_t chunk,
                                          int64_t sequence) {
  truncate(sequence, 0);
  const size_t step = chunk > 0 ? static_cast<size_t>(chunk) : tokens.size();
  std::vector<float> all;
  for (size_t begin = 0; begin < tokens.size(); begin += step) {
    const Piece piece = {sequence, tokens.subspan(begin, std::min(step, tokens.size() - begin))};
    const std::vector<float> some = forward({&piece, 1});
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace ashlar
