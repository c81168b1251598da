// The typed reader. One private conversion per type; the templates are instantiated here for the
// types that configurations have, so that the header needs no JSON library.
#include "checkpoint/config_reader.h"

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "checkpoint/quote.h"

namespace ashlar {

using nlohmann::json;

struct ConfigReader::Node {
  const json* object;
  std::string file;
  std::string prefix;  // "rope_scaling." for a nested object
  std::set<std::string, std::less<>> read;
  std::map<std::string, std::shared_ptr<Node>, std::less<>> children;

  void collect_unread(std::vector<std::string>& out) const {
    for (const auto& [key, value] : object->items()) {
      if (!read.contains(key) && !value.is_null()) out.push_back(prefix + key);
    }
    for (const auto& [key, child] : children) child->collect_unread(out);
  }
};

namespace {

bool convert(const json& value, bool& out) {
  if (!value.is_boolean()) return false;
  out = value.get<bool>();
  return true;
}

bool convert(const json& value, int64_t& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return false;
  }
  out = value.get<int64_t>();
  return true;
}

bool convert(const json& value, double& out) {
  if (!value.is_number()) return false;
  out = value.get<double>();
  return std::isfinite(out);
}

bool convert(const json& value, std::string& out) {
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}

template <class T>
bool convert(const json& value, std::vector<T>& out) {
  if (!value.is_array()) return false;
  out.clear();
  out.reserve(value.size());
  for (const json& element : value) {
    T converted{};
    if (!convert(element, converted)) return false;
    out.push_back(std::move(converted));
  }
  return true;
}

template <class T>
constexpr std::string_view kTypeName = "";
template <>
constexpr std::string_view kTypeName<bool> = "true or false";
template <>
constexpr std::string_view kTypeName<int64_t> = "an integer";
template <>
constexpr std::string_view kTypeName<double> = "a number";
template <>
constexpr std::string_view kTypeName<std::string> = "a string";
template <>
constexpr std::string_view kTypeName<std::vector<bool>> = "an array of booleans";
template <>
constexpr std::string_view kTypeName<std::vector<int64_t>> = "an array of integers";
template <>
constexpr std::string_view kTypeName<std::vector<double>> = "an array of numbers";
template <>
constexpr std::string_view kTypeName<std::vector<std::string>> = "an array of strings";

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  constexpr size_t kMaxShown = 120;
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "…";
  return text;
}

}  // namespace

ConfigReader::ConfigReader(const json& object, std::string file)
    : node_(std::make_shared<Node>(Node{&object, std::move(file), {}, {}, {}})) {
  CHECK(object.is_object());
}

const json* ConfigReader::read(std::string_view key) const {
  node_->read.emplace(key);
  const auto at = node_->object->find(key);
  return at == node_->object->end() || at->is_null() ? nullptr : &*at;
}

bool ConfigReader::has(std::string_view key) const {
  const auto at = node_->object->find(key);
  return at != node_->object->end() && !at->is_null();
}

tl::unexpected<Error> ConfigReader::refuse(std::string_view key, std::string_view reason) const {
  const auto at = node_->object->find(key);
  return fail(ErrorCode::kUnsupported, "{}: {}{} = {}: {}", node_->file, node_->prefix, key,
              at == node_->object->end() ? "(absent)" : shown(*at), reason);
}

tl::unexpected<Error> ConfigReader::wrong_type(std::string_view key,
                                               std::string_view expected) const {
  return fail(ErrorCode::kCorrupt, "{}: {}{} must be {}, but is {}", node_->file, node_->prefix,
              key, expected, shown(*node_->object->find(key)));
}

template <class T>
Result<std::optional<T>> ConfigReader::optional(std::string_view key) const {
  const json* value = read(key);
  if (value == nullptr) return std::optional<T>();
  T out{};
  if (!convert(*value, out)) return wrong_type(key, kTypeName<T>);
  return std::optional<T>(std::move(out));
}

template <class T>
Result<T> ConfigReader::optional(std::string_view key, T fallback) const {
  ASHLAR_ASSIGN(std::optional<T> value, optional<T>(key));
  return value ? std::move(*value) : std::move(fallback);
}

template <class T>
Result<T> ConfigReader::require(std::string_view key) const {
  ASHLAR_ASSIGN(std::optional<T> value, optional<T>(key));
  if (!value) {
    return fail(ErrorCode::kCorrupt, "{}: {}{} is missing; it must be {}", node_->file,
                node_->prefix, key, kTypeName<T>);
  }
  return std::move(*value);
}

#define ASHLAR_INSTANTIATE(T)                                              \
  template Result<T> ConfigReader::require<T>(std::string_view) const;     \
  template Result<T> ConfigReader::optional<T>(std::string_view, T) const; \
  template Result<std::optional<T>> ConfigReader::optional<T>(std::string_view) const;
ASHLAR_INSTANTIATE(bool)
ASHLAR_INSTANTIATE(int64_t)
ASHLAR_INSTANTIATE(double)
ASHLAR_INSTANTIATE(std::string)
ASHLAR_INSTANTIATE(std::vector<bool>)
ASHLAR_INSTANTIATE(std::vector<int64_t>)
ASHLAR_INSTANTIATE(std::vector<double>)
ASHLAR_INSTANTIATE(std::vector<std::string>)
#undef ASHLAR_INSTANTIATE

Status ConfigReader::expect(std::string_view key, bool value) const {
  ASHLAR_ASSIGN(const bool found, optional<bool>(key, value));
  if (found != value) return refuse(key, fmt::format("only {} is supported", value));
  return {};
}

Status ConfigReader::expect(std::string_view key, int64_t value) const {
  ASHLAR_ASSIGN(const int64_t found, optional<int64_t>(key, value));
  if (found != value) return refuse(key, fmt::format("only {} is supported", value));
  return {};
}

Status ConfigReader::expect(std::string_view key, double value) const {
  ASHLAR_ASSIGN(const double found, optional<double>(key, value));
  if (found != value) return refuse(key, fmt::format("only {} is supported", value));
  return {};
}

Status ConfigReader::expect(std::string_view key, std::string_view value) const {
  ASHLAR_ASSIGN(const std::string found, optional<std::string>(key, std::string(value)));
  if (found != value) return refuse(key, fmt::format("only \"{}\" is supported", value));
  return {};
}

Status ConfigReader::expect_absent(std::string_view key) const {
  if (read(key) != nullptr) return refuse(key, "this setting is not supported");
  return {};
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) node_->read.emplace(key);
}

Result<std::optional<ConfigReader>> ConfigReader::optional_object(std::string_view key) const {
  const json* value = read(key);
  if (value == nullptr) return std::optional<ConfigReader>();
  if (!value->is_object()) return wrong_type(key, "an object");
  std::shared_ptr<Node>& child = node_->children[std::string(key)];
  if (child == nullptr) {
    child = std::make_shared<Node>(
        Node{value, node_->file, fmt::format("{}{}.", node_->prefix, key), {}, {}});
  }
  return std::optional<ConfigReader>(ConfigReader(child));
}

Result<ConfigReader> ConfigReader::object(std::string_view key) const {
  ASHLAR_ASSIGN(std::optional<ConfigReader> reader, optional_object(key));
  if (!reader) {
    return fail(ErrorCode::kCorrupt, "{}: {}{} is missing; it must be an object", node_->file,
                node_->prefix, key);
  }
  return std::move(*reader);
}

std::vector<std::string> ConfigReader::unread() const {
  std::vector<std::string> out;
  node_->collect_unread(out);
  return out;
}

Status ConfigReader::finish() const {
  const std::vector<std::string> keys = unread();
  if (keys.empty()) return {};
  std::vector<std::string> shown_keys;
  for (const std::string& key : keys) shown_keys.push_back(quote_name(key));
  return fail(ErrorCode::kUnsupported, "{}: settings that are not understood: {}", node_->file,
              fmt::join(shown_keys, ", "));
}

}  // namespace ashlar
