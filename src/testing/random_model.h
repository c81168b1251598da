// Hugging Face folders of small random models of every family, for tests that compare two backends:
// head sizes that a GPU takes, and other sizes that are no multiples of anything.
//
// The same seed gives the same weights. With noise, each element of a matrix is off by a random
// relative error of up to that much: what rounding the elements, or the rows that they multiply,
// does to the logits can so be measured instead of guessed.
#ifndef ASHLAR_TESTING_RANDOM_MODEL_H_
#define ASHLAR_TESTING_RANDOM_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "testing/temp_dir.h"

namespace ashlar {

struct RandomModel {
  std::string name;
  std::string model_type;
  int64_t layers, hidden, feed_forward, heads, kv_heads, head_size, vocabulary;
  bool tied = false;
  std::string more;  // further members of config.json, each with a comma before it
};

// One for each family at least, one for each head size at least.
const std::vector<RandomModel>& random_models();

// Writes the model into folder/NAME and returns its path. Matrices are bf16, or f32 with noise. The
// embedding of bad_token is not a number; -1: of none. Not with a tied head, where it would reach
// every logit.
std::string write_random_model(const TempDir& folder, const RandomModel& model, float noise = 0.0f,
                               int32_t bad_token = -1);

}  // namespace ashlar

#endif  // ASHLAR_TESTING_RANDOM_MODEL_H_
