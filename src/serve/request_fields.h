// RequestFields: reads the fields of a JSON request one by one and refuses what nobody read.
//
// A field whose value is null counts as absent. Values are typed strictly: "1" is no number and 1.5
// no whole one. Messages start with the field's name.
#ifndef ASHLAR_SERVE_REQUEST_FIELDS_H_
#define ASHLAR_SERVE_REQUEST_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/options.h"
#include "serve/api_error.h"

namespace ashlar {

// A field that is accepted only with values that change nothing.
struct NeutralField {
  std::string_view name;
  std::string_view values;  // JSON array of the values; "*": any value of the field
};

class RequestFields {
 public:
  // `object` must outlive the reader. `place` goes before names in messages: "messages[2]."
  explicit RequestFields(const nlohmann::json& object, std::string place = "");

  // Marks a field as read; null when it is absent or null.
  const nlohmann::json* take(std::string_view name);

  // Each leaves the target alone when the field is absent.
  ApiStatus read(std::string_view name, bool& target);
  ApiStatus read(std::string_view name, std::string& target);
  ApiStatus read(std::string_view name, int64_t& target, int64_t low, int64_t high);
  ApiStatus read(std::string_view name, std::optional<int64_t>& target, int64_t low, int64_t high);
  // A number with the range and the name that its owner declared.
  ApiStatus read(const OptionField& field);

  // Refuses every field that was not taken: neutral ones by their value, all others by name.
  ApiStatus finish(std::span<const NeutralField> neutral);

  std::string path(std::string_view name) const { return place_ + std::string(name); }

 private:
  const nlohmann::json& object_;
  std::string place_;
  std::set<std::string, std::less<>> taken_;
};

// "a string", "a number", for messages.
std::string_view json_kind(const nlohmann::json& value);

// A whole number that fits, or a refusal that names the range.
ApiResult<int64_t> whole_number(const nlohmann::json& value, std::string_view path, int64_t low,
                                int64_t high);

}  // namespace ashlar

#endif  // ASHLAR_SERVE_REQUEST_FIELDS_H_
