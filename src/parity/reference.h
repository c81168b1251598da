// ReferenceFile: stored results of a reference implementation, teacher forced over texts, as
// tools/make_reference.py writes them (the tensors are listed in tests/golden/parity/README.md).
//
// Everything in the file is checked against everything else when it is opened; a broken file is an
// error. Nothing is compared here: see parity/divergence.h.
#ifndef ASHLAR_PARITY_REFERENCE_H_
#define ASHLAR_PARITY_REFERENCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "parity/divergence.h"

namespace ashlar {

class ReferenceFile {
 public:
  static Result<ReferenceFile> open(const std::string& path);

  int64_t texts() const { return static_cast<int64_t>(starts_.size()) - 1; }
  int64_t positions() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t first_position(int64_t text) const { return starts_[static_cast<size_t>(text)]; }
  // Token ids of one text; its first token stands at position 0 of the model.
  std::span<const int32_t> tokens(int64_t text) const;
  // The prediction after a position, counted over all texts. Views live until the next call.
  TopReference top(int64_t position);

  // Positions whose last hidden state is kept, and that state [D]: the head's exact product with it
  // is the reference over the full vocabulary.
  std::span<const int32_t> hidden_positions() const { return hidden_rows_; }
  std::span<const float> hidden(int64_t index) const;

 private:
  explicit ReferenceFile(SafetensorsFile file) : file_(std::move(file)) {}
  Status read();

  SafetensorsFile file_;
  std::vector<int32_t> tokens_, starts_, hidden_rows_;
  std::vector<float> top_logprobs_, rest_logprob_, margin_, noise_, hidden_;
  std::span<const std::byte> top_ids_;
  int64_t top_ = 0;       // ids kept a position
  int64_t id_bytes_ = 0;  // bytes of a stored id
  std::vector<int32_t> ids_;
};

}  // namespace ashlar

#endif  // ASHLAR_PARITY_REFERENCE_H_
