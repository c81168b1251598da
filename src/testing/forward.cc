// Builds steps by hand from a fixed assignment of pages.
#include "testing/forward.h"

#include <algorithm>
#include <cstring>

#include "base/align.h"
#include "base/check.h"
#include "checkpoint/checkpoint.h"

namespace ashlar {

namespace {

TensorView view(std::vector<int32_t>& values, Shape shape) {
  return TensorView(values.data(), DType::kI32, shape);
}

}  // namespace

Result<std::unique_ptr<ForwardHarness>> ForwardHarness::load(const std::string& model_argument,
                                                             const ForwardOptions& options) {
  auto harness = std::make_unique<ForwardHarness>();
  harness->device_ = new_cpu_device(options.threads);
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
    std::memset(buffer.data(), 0xff, buffer.bytes());  // NaN in f32, f16 and bf16
    pages_.push_back(buffer.view(shape.type, pages));
    page_buffers_.push_back(std::move(buffer));
  }
  for (int64_t i = 0; i < page_count; ++i)
    page_table_.push_back(static_cast<int32_t>(page_count - 1 - i));
  lengths_.assign(static_cast<size_t>(options.sequences), 0);
  return {};
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
  Step step = {.stream = *stream_,
               .workspace = *workspace_,
               .tokens = view(tokens, {rows}),
               .positions = view(positions, {rows}),
               .row_sequence = view(row_sequence, {rows}),
               .sequence_starts = view(starts, {sequences + 1}),
               .page_table = view(table, {sequences, pages_a_sequence_}),
               .slots = view(slots, {sequences}),
               .output_rows = view(output_rows, {outputs}),
               .paged = pages_,
               .tap = tap_ ? &tap_ : nullptr};
  const int64_t vocabulary = model_->info().vocabulary;
  std::vector<float> logits(static_cast<size_t>(outputs * vocabulary));
  model_->forward(step, TensorView(logits.data(), DType::kF32, {outputs, vocabulary}));
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
