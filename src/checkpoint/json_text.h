// Strict JSON: parse errors, repeated keys and deep nesting are errors, never exceptions.
// For configuration files; the headers of safetensors files have a parser of their own.
#ifndef ASHLAR_CHECKPOINT_JSON_TEXT_H_
#define ASHLAR_CHECKPOINT_JSON_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ashlar {

inline constexpr int kMaxJsonDepth = 64;

// Whether brackets nest deeper than max_depth; brackets inside strings do not count. Needs no valid
// JSON.
bool json_is_deeper_than(std::string_view text, int max_depth);

// `file` is used in messages.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view file);

// As above, and the outermost value must be an object.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file);

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_JSON_TEXT_H_
