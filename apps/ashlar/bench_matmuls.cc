// Shapes from a configuration and times from a file. Nothing here decides what is computed: a shape
// that is wrong only leaves an operation without its name.
#include "bench_matmuls.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ashlar {

namespace {

int64_t number_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

}  // namespace

std::vector<MatmulShape> model_matmuls(const nlohmann::json& config, int64_t decodable) {
  const int64_t hidden = number_of(config, "hidden_size");
  const int64_t feed_forward = number_of(config, "intermediate_size");
  const int64_t heads = number_of(config, "num_attention_heads");
  const int64_t stated_kv_heads = number_of(config, "num_key_value_heads");
  const int64_t kv_heads = stated_kv_heads > 0 ? stated_kv_heads : heads;
  const int64_t stated_size = number_of(config, "head_dim");
  const int64_t size = stated_size > 0 ? stated_size : (heads > 0 ? hidden / heads : 0);
  const int64_t vocabulary = number_of(config, "vocab_size");
  std::vector<MatmulShape> shapes;
  const auto add = [&](const char* part, int64_t outputs, int64_t inputs) {
    if (outputs > 0 && inputs > 0) shapes.push_back({part, outputs, inputs, outputs});
  };
  add("qkv", (heads + 2 * kv_heads) * size, hidden);
  add("o", hidden, heads * size);
  add("gate_up", 2 * feed_forward, hidden);
  add("down", hidden, feed_forward);
  add("head", vocabulary, hidden);
  if (vocabulary > 0 && hidden > 0 && decodable > 0) {
    shapes.back().least_outputs = std::min(decodable, vocabulary);
  }
  return shapes;
}

std::optional<FoundMatmul> find_matmul(const std::vector<MatmulShape>& shapes, int64_t flops,
                                       int64_t rows, int64_t output_rows) {
  for (const MatmulShape& shape : shapes) {
    const int64_t m = shape.part == "head" ? output_rows : rows;
    for (const int64_t outputs : {shape.outputs, shape.least_outputs}) {
      if (flops == 2 * m * outputs * shape.inputs) return FoundMatmul{&shape, m};
    }
  }
  return std::nullopt;
}

Result<MatmulBaseline> MatmulBaseline::parse(const nlohmann::json& object) {
  const auto text_of = [&](const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const auto results = object.find("results");
  if (!object.is_object() || results == object.end() || !results->is_array()) {
    return fail(ErrorCode::kCorrupt, "no object with a list 'results'");
  }
  MatmulBaseline baseline;
  baseline.title_ = fmt::format("{}, {}", text_of("device"), text_of("library"));
  for (const nlohmann::json& result : *results) {
    const auto us = result.find("us");
    const int64_t rows = number_of(result, "rows");
    const int64_t outputs = number_of(result, "outputs");
    const int64_t inputs = number_of(result, "inputs");
    if (us == result.end() || !us->is_number() || us->get<double>() <= 0 || rows < 1 ||
        outputs < 1 || inputs < 1) {
      return fail(ErrorCode::kCorrupt, "a result without positive rows, outputs, inputs and us: {}",
                  result.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    }
    const double seconds = us->get<double>() * 1e-6;
    baseline.seconds_[{rows, outputs, inputs}] = seconds;
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(outputs) *
                         static_cast<double>(inputs);
    baseline.best_flops_ = std::max(baseline.best_flops_, flops / seconds);
  }
  return baseline;
}

Result<MatmulBaseline> MatmulBaseline::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, "--baseline: {} cannot be read", path);
  const nlohmann::json object = nlohmann::json::parse(file, nullptr, false);
  if (object.is_discarded()) {
    return fail(ErrorCode::kCorrupt, "--baseline: {} is not JSON", path);
  }
  Result<MatmulBaseline> baseline = parse(object);
  if (!baseline) return fail_in(fmt::format("--baseline: {}", path), baseline.error());
  return baseline;
}

std::optional<double> MatmulBaseline::seconds(int64_t rows, int64_t outputs, int64_t inputs) const {
  const auto found = seconds_.find({rows, outputs, inputs});
  if (found == seconds_.end()) return std::nullopt;
  return found->second;
}

}  // namespace ashlar
