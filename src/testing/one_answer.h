// one_answer(): the same requests through engines that differ in everything that may not matter:
// alone or in a crowd, steps recorded or direct, one or two in flight, prompts in one piece or in
// chunks, pages plenty or too few. Tokens and log probabilities must be equal, bit for bit.
//
// The reference is one request after the other, steps direct, one in flight. For any model and
// device: what a GPU does is compared with itself, so the first difference is a broken promise and
// no rounding.
#ifndef ASHLAR_TESTING_ONE_ANSWER_H_
#define ASHLAR_TESTING_ONE_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"
#include "models/model.h"

namespace ashlar {

struct OneAnswerOptions {
  uint64_t seed = 1;
  int64_t requests = 40;
  int64_t longest_prompt = 300;
  int64_t longest_answer = 40;
  int64_t max_context = 0;                       // 0: the longest prompt and answer
  std::vector<int64_t> crowds = {2, 5, 16};      // sequences at once
  std::vector<int64_t> chunks = {16, 100, 512};  // rows of a step, for a request alone
  int64_t tight_positions = 0;                   // of the run that preempts; 0: there is none
};

struct OneAnswerReport {
  std::string problem;  // the first difference, or ""
  int64_t answers = 0;  // compared
  int64_t tokens = 0;
  int64_t replayed = 0;  // recorded steps, over all runs
  int64_t direct = 0;
  int64_t preemptions = 0;
};

OneAnswerReport one_answer(Model& model, Device& device, const OneAnswerOptions& options);

// Requests of which one has a token whose embedding is not a number (write_random_model), twice
// over, in recorded steps and with few pages: that one must fail, name the layer, and leave nothing
// behind; the others must answer as they do alone. "" or what went wrong.
std::string bad_row_problem(Model& model, Device& device, int32_t bad_token);

}  // namespace ashlar

#endif  // ASHLAR_TESTING_ONE_ANSWER_H_
