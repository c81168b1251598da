// Contracts, costs and references of the step's row operations.
#include "kernels/step_rows/step_rows.h"

#include "kernels/check_vector.h"

namespace ashlar {

[[gnu::weak]] void resolve_rows_cuda(Stream& stream, const ResolveRowsArgs& args);
[[gnu::weak]] void accept_tokens_cuda(Stream& stream, const AcceptTokensArgs& args);

namespace {

void check_drafts(const ShapeCheck& check, const TensorView& drafts, int64_t slots) {
  check.require(drafts.shape().rank() == 2 && drafts.dim(0) == slots && drafts.contiguous(),
                "drafts [slots N]");
  check.dtype(drafts, DType::kI32, "drafts");
}

void resolve_contract(const ResolveRowsArgs& args, const ShapeCheck& check) {
  const int64_t rows = args.tokens.dim(0);
  const int64_t sequences = args.slots.dim(0);
  const int64_t slots = args.feed.dim(0);
  check_vector(check, args.host_tokens, rows, "host_tokens");
  check_vector(check, args.row_sequence, rows, "row_sequence");
  check_vector(check, args.sequence_starts, sequences + 1, "sequence_starts");
  check_vector(check, args.slots, sequences, "slots");
  check_vector(check, args.starts, sequences, "starts");
  check_vector(check, args.feed, slots, "feed");
  check_vector(check, args.lengths, slots, "lengths");
  check_drafts(check, args.drafts, slots);
  check_vector(check, args.tokens, rows, "tokens");
  check_vector(check, args.positions, rows, "positions");
}

OpCost resolve_cost(const ResolveRowsArgs& args) {
  return {.bytes = 4 * (4 * args.tokens.dim(0) + 5 * args.slots.dim(0)), .flops = 0};
}

void resolve_reference(Stream&, const ResolveRowsArgs& args) {
  const int32_t* slots = args.slots.as<int32_t>();
  const int32_t* starts = args.starts.as<int32_t>();
  int32_t* lengths = args.lengths.as<int32_t>();
  for (int64_t s = 0; s < args.slots.dim(0); ++s) {
    if (slots[s] >= 0 && starts[s] != kKeepsLength) lengths[slots[s]] = starts[s];
  }
  for (int64_t t = 0; t < args.tokens.dim(0); ++t) {
    int32_t& token = args.tokens.as<int32_t>()[t];
    int32_t& position = args.positions.as<int32_t>()[t];
    const int32_t s = args.row_sequence.as<int32_t>()[t];
    token = position = 0;
    if (s < 0 || slots[s] < 0) continue;
    const int32_t index = static_cast<int32_t>(t) - args.sequence_starts.as<int32_t>()[s];
    token = args.host_tokens.as<int32_t>()[t];
    if (token == kFedToken) {
      token = index == 0 ? args.feed.as<int32_t>()[slots[s]]
                         : args.drafts.row<int32_t>(slots[s])[index - 1];
    }
    position = lengths[slots[s]] + index;
  }
}

void accept_contract(const AcceptTokensArgs& args, const ShapeCheck& check) {
  const int64_t sequences = args.slots.dim(0);
  const int64_t slots = args.feed.dim(0);
  check_vector(check, args.slots, sequences, "slots");
  check_vector(check, args.sequence_starts, sequences + 1, "sequence_starts");
  check_vector(check, args.first_output, sequences, "first_output");
  check_vector(check, args.draft_counts, sequences, "draft_counts");
  check_vector(check, args.failures, args.sampled.dim(0), "failures");
  check_vector(check, args.sampled, args.sampled.dim(0), "sampled");
  check_vector(check, args.feed, slots, "feed");
  check_vector(check, args.lengths, slots, "lengths");
  check_drafts(check, args.drafts, slots);
  check_vector(check, args.accepted, sequences, "accepted");
  if (args.counts.empty()) return;
  check.require(args.counts.shape().rank() == 2 && args.counts.dim(0) == slots, "counts [slots V]");
  check.dtype(args.counts, DType::kI32, "counts");
  check_vector(check, args.counted, slots, "counted");
}

OpCost accept_cost(const AcceptTokensArgs& args) {
  return {.bytes = 4 * (9 * args.slots.dim(0) + 2 * args.sampled.dim(0)), .flops = 0};
}

int32_t accept_sequence(const AcceptTokensArgs& args, int64_t s) {
  const int32_t slot = args.slots.as<int32_t>()[s];
  if (slot < 0) return 0;
  const int32_t* starts = args.sequence_starts.as<int32_t>();
  const int32_t first = args.first_output.as<int32_t>()[s];
  const int32_t drafts = first == kNoOutput ? 0 : args.draft_counts.as<int32_t>()[s];
  int32_t& length = args.lengths.as<int32_t>()[slot];
  int32_t& feed = args.feed.as<int32_t>()[slot];
  length += starts[s + 1] - starts[s] - drafts;
  if (first == kNoOutput) return 0;
  for (int32_t i = 0;; ++i) {
    if (args.failures.as<int32_t>()[first + i] != 0) {
      feed = 0;  // a step in flight may still read it
      return 0;
    }
    feed = args.sampled.as<int32_t>()[first + i];
    if (!args.counts.empty() && args.counted.as<int32_t>()[slot] != 0)
      ++args.counts.row<int32_t>(slot)[feed];
    if (i == drafts || args.drafts.row<int32_t>(slot)[i] != feed) return i + 1;
    ++length;
  }
}

void accept_reference(Stream&, const AcceptTokensArgs& args) {
  for (int64_t s = 0; s < args.slots.dim(0); ++s)
    args.accepted.as<int32_t>()[s] = accept_sequence(args, s);
}

}  // namespace

constinit const Op<ResolveRowsArgs> resolve_rows = {"resolve_rows",
                                                    resolve_contract,
                                                    resolve_cost,
                                                    resolve_reference,
                                                    {nullptr, resolve_rows_cuda}};

constinit const Op<AcceptTokensArgs> accept_tokens = {
    "accept_tokens", accept_contract, accept_cost, accept_reference, {nullptr, accept_tokens_cuda}};

}  // namespace ashlar
