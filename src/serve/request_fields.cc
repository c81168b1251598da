// Typed reads on top of nlohmann's values.
#include "serve/request_fields.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/quote.h"

namespace ashlar {

using nlohmann::json;

std::string_view json_kind(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::boolean:
      return "a boolean";
    case json::value_t::string:
      return "a string";
    case json::value_t::array:
      return "an array";
    case json::value_t::object:
      return "an object";
    default:
      return "a number";
  }
}

ApiResult<int64_t> whole_number(const json& value, std::string_view path, int64_t low,
                                int64_t high) {
  if (!value.is_number()) return refuse(path, "expected a whole number, got {}", json_kind(value));
  if (!value.is_number_integer()) {
    // A whole number that no integer type holds was read as a float.
    if (std::abs(value.get<double>()) < 0x1p63) {
      return refuse(path, "{} is not a whole number", value.dump());
    }
    return refuse(path, "{} is out of range, {} to {}", value.dump(), low, high);
  }
  const bool huge = value.is_number_unsigned() &&
                    value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  const int64_t number = huge ? 0 : value.get<int64_t>();
  if (huge || number < low || number > high) {
    return refuse(path, "{} is out of range, {} to {}", value.dump(), low, high);
  }
  return number;
}

RequestFields::RequestFields(const json& object, std::string place)
    : object_(object), place_(std::move(place)) {}

const json* RequestFields::take(std::string_view name) {
  taken_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

ApiStatus RequestFields::read(std::string_view name, bool& target) {
  const json* value = take(name);
  if (value == nullptr) return {};
  if (!value->is_boolean()) {
    return refuse(path(name), "expected true or false, got {}", json_kind(*value));
  }
  target = value->get<bool>();
  return {};
}

ApiStatus RequestFields::read(std::string_view name, std::string& target) {
  const json* value = take(name);
  if (value == nullptr) return {};
  if (!value->is_string())
    return refuse(path(name), "expected a string, got {}", json_kind(*value));
  target = value->get<std::string>();
  return {};
}

ApiStatus RequestFields::read(std::string_view name, int64_t& target, int64_t low, int64_t high) {
  std::optional<int64_t> read_value;
  ASHLAR_API_TRY(read(name, read_value, low, high));
  if (read_value) target = *read_value;
  return {};
}

ApiStatus RequestFields::read(std::string_view name, std::optional<int64_t>& target, int64_t low,
                              int64_t high) {
  const json* value = take(name);
  if (value == nullptr) return {};
  ASHLAR_API_ASSIGN(target, whole_number(*value, path(name), low, high));
  return {};
}

ApiStatus RequestFields::read(const OptionField& field) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  const auto low = field.low ? static_cast<int64_t>(*field.low) : -kAny;
  const auto high = field.high ? static_cast<int64_t>(*field.high) : kAny;
  if (auto* target = std::get_if<int64_t*>(&field.target)) {
    return read(field.name, **target, low, high);
  }
  if (auto* target = std::get_if<std::optional<int64_t>*>(&field.target)) {
    return read(field.name, **target, low, high);
  }
  const json* value = take(field.name);
  if (value == nullptr) return {};
  if (!value->is_number()) {
    return refuse(path(field.name), "expected a number, got {}", json_kind(*value));
  }
  const double number = value->get<double>();
  if (!(number >= field.low.value_or(-HUGE_VAL) && number <= field.high.value_or(HUGE_VAL))) {
    return refuse(path(field.name), "{} is out of range, {}", value->dump(), field.range_text());
  }
  *std::get<double*>(field.target) = number;
  return {};
}

namespace {

ApiStatus check_neutral(const NeutralField& field, const std::string& path, const json& value) {
  if (field.values == "*") return {};
  const json allowed = json::parse(field.values);
  for (const json& one : allowed) {
    if (one == value) return {};
  }
  std::string list;
  for (const json& one : allowed) list += (list.empty() ? "" : " or ") + one.dump();
  return refuse(path, "only {} is supported here", list);
}

}  // namespace

ApiStatus RequestFields::finish(std::span<const NeutralField> neutral) {
  for (const auto& [name, value] : object_.items()) {
    if (taken_.contains(name)) continue;
    const NeutralField* known = nullptr;
    for (const NeutralField& field : neutral) {
      if (field.name == name) known = &field;
    }
    if (known == nullptr && value.is_null()) continue;
    if (known == nullptr) {
      const std::string shown =
          is_printable_ascii(name) && name.size() < 100 ? name : quote_name(name);
      return refuse(path(shown), "this field is not supported; see docs/serve.md");
    }
    if (!value.is_null()) ASHLAR_API_TRY(check_neutral(*known, path(name), value));
  }
  return {};
}

}  // namespace ashlar
