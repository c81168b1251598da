// The matrices that a model multiplies with, as its configuration states them, and the times that a
// vendor's library takes for such products: a file of bench/cublas_baseline.py.
//
// Operations report bytes and flops but no shapes; a benchmark that wants to name a matmul, or to
// compare it, finds its shape here by the flops.
#ifndef ASHLAR_APPS_BENCH_MATMULS_H_
#define ASHLAR_APPS_BENCH_MATMULS_H_

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace ashlar {

struct MatmulShape {
  std::string part;           // "qkv", "o", "gate_up", "down", "head"
  int64_t outputs = 0;        // N
  int64_t inputs = 0;         // K
  int64_t least_outputs = 0;  // that are computed: fewer for a head with columns nobody can print
};

// A fused linear is one matrix. config is a decoder's config.json; keys that it lacks leave their
// matrices out. decodable: columns of the head that are computed; 0: all.
std::vector<MatmulShape> model_matmuls(const nlohmann::json& config, int64_t decodable);

struct FoundMatmul {
  const MatmulShape* shape = nullptr;
  int64_t rows = 0;  // M
};

// The matrix whose product with `rows` rows (for the head: with `output_rows`) takes so many flops.
std::optional<FoundMatmul> find_matmul(const std::vector<MatmulShape>& shapes, int64_t flops,
                                       int64_t rows, int64_t output_rows);

class MatmulBaseline {
 public:
  // Refuses a file that it cannot read as a whole, by name.
  static Result<MatmulBaseline> read(const std::string& path);
  static Result<MatmulBaseline> parse(const nlohmann::json& object);

  bool empty() const { return seconds_.empty(); }
  std::optional<double> seconds(int64_t rows, int64_t outputs, int64_t inputs) const;
  double best_flops() const { return best_flops_; }  // a second, of any shape; 0: none
  const std::string& title() const { return title_; }

 private:
  std::map<std::tuple<int64_t, int64_t, int64_t>, double> seconds_;
  double best_flops_ = 0;
  std::string title_;  // device and library
};

}  // namespace ashlar

#endif  // ASHLAR_APPS_BENCH_MATMULS_H_
