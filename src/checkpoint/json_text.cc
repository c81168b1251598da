// JSON parsing on nlohmann-json, whose exceptions end here.
// Depth is limited before parsing, so that no recursive walk over the result (printing, copying)
// can run out of stack.
#include "checkpoint/json_text.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "checkpoint/quote.h"

namespace ashlar {

bool json_is_deeper_than(std::string_view text, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Result<nlohmann::json> parse_json(std::string_view text, std::string_view file) {
  using nlohmann::json;
  if (json_is_deeper_than(text, kMaxJsonDepth)) {
    return fail(ErrorCode::kCorrupt, "{}: JSON is nested deeper than {} levels", file,
                kMaxJsonDepth);
  }
  std::vector<std::set<std::string>> open_objects;
  std::string repeated;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      open_objects.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_objects.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second && repeated.empty()) repeated = quote_name(key);
    }
    return true;
  };
  try {
    json value = json::parse(text, watch);
    if (!repeated.empty()) {
      return fail(ErrorCode::kCorrupt, "{}: key {} occurs twice", file, repeated);
    }
    return value;
  } catch (const json::exception& error) {
    return fail(ErrorCode::kCorrupt, "{}: not valid JSON: {}", file, error.what());
  }
}

Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file) {
  ASHLAR_ASSIGN(nlohmann::json value, parse_json(text, file));
  if (!value.is_object()) return fail(ErrorCode::kCorrupt, "{}: not a JSON object", file);
  return value;
}

}  // namespace ashlar
