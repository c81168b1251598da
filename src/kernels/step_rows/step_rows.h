// The two operations that connect the steps of an engine on the device: what a step's rows are, and
// what became of them. The host plans steps ahead and knows only bounds; the newest token and the
// length of every sequence live on the device, by slot.
//
//   resolve_rows   token and position of each row, from what the slots keep
//   accept_tokens  the sampled tokens of a step enter what the slots keep, drafts are compared
//
// All arrays are i32. A slot belongs to at most one sequence of a step. A sequence whose slot is -1
// is padding, as a recorded step of fixed size has it: nothing is read or written for it but what
// is said below, whatever its other entries hold. A sequence may have no rows.
#ifndef ASHLAR_KERNELS_STEP_ROWS_STEP_ROWS_H_
#define ASHLAR_KERNELS_STEP_ROWS_STEP_ROWS_H_

#include "kernels/op.h"

namespace ashlar {

constexpr int32_t kFedToken = -1;     // in host_tokens: the device has the token
constexpr int32_t kKeepsLength = -1;  // in starts: the sequence goes on from its length
constexpr int32_t kNoOutput = -1;     // in first_output: the sequence wants no logits

struct ResolveRowsArgs {
  TensorView host_tokens;   // [T] token, or kFedToken: the newest token of the slot for the first
                            // row of its sequence, drafts for those after it
  TensorView row_sequence;  // [T] in [0, S), or -1: padding, which gets token 0, position 0; so
                            // do rows of a sequence that is padding
  TensorView sequence_starts;  // [S+1] first row of each sequence
  TensorView slots;            // [S] or -1: padding
  TensorView starts;           // [S] length at which the sequence starts, or kKeepsLength
  TensorView feed;             // [slots] newest token
  TensorView lengths;          // [slots] positions computed and kept; set where `starts` says so
  TensorView drafts;           // [slots N], N may be 0
  TensorView tokens;           // [T], written
  TensorView positions;        // [T], written: length + index of the row in its sequence
};

struct AcceptTokensArgs {
  TensorView slots;            // [S] or -1: padding
  TensorView sequence_starts;  // [S+1] first row of each sequence
  TensorView first_output;     // [S] index of its first sampled token, or kNoOutput
  TensorView draft_counts;     // [S] its last so many rows were drafts
  TensorView sampled;          // [R] tokens of the output rows
  TensorView failures;         // [R] not 0: no token could be chosen
  TensorView feed;             // [slots], written
  TensorView lengths;          // [slots], advanced by the rows that stay; without output, by all
  TensorView drafts;           // [slots N]
  TensorView counts;           // [slots V], or empty: see sampling; accepted tokens are counted
  TensorView counted;          // [slots] not 0: this slot's tokens are counted; with counts
  TensorView accepted;         // [S] written: tokens that stay; 0 without output, of padding, and
                               // if one of those that would stay could not be chosen: such a
                               // sequence is lost, and what its slot keeps says nothing
};

extern const Op<ResolveRowsArgs> resolve_rows;
extern const Op<AcceptTokensArgs> accept_tokens;

}  // namespace ashlar

#endif  // ASHLAR_KERNELS_STEP_ROWS_STEP_ROWS_H_
