// Parsing, printing and checking of option fields, the same for flags and for files.
// Numbers are parsed whole: "12x" is an error, not 12. What a value means is the owner's business,
// not ours.
#include "base/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ashlar {

namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

tl::unexpected<Error> refuse(const OptionField& field, std::string_view text,
                             std::string_view want) {
  const std::string range = field.range_text();
  return fail(ErrorCode::kInvalidArgument, "{}: '{}' is not {}{}{}", field.flag(), text, want,
              range.empty() ? "" : ", ", range);
}

template <class T>
Result<T> parse_in_range(const OptionField& field, std::string_view text, std::string_view want) {
  T value = {};
  if (!parse_number(text, value)) return refuse(field, text, want);
  const auto number = static_cast<double>(value);
  if (std::isnan(number) || (field.low && number < *field.low) ||
      (field.high && number > *field.high)) {
    return fail(ErrorCode::kInvalidArgument, "{}: {} is out of range, {}", field.flag(), text,
                field.range_text());
  }
  return value;
}

Status set_number(const OptionField& field, std::string_view text, auto* target) {
  using Target = std::remove_pointer_t<decltype(target)>;
  constexpr bool integer =
      std::is_same_v<Target, int64_t> || std::is_same_v<Target, std::optional<int64_t>>;
  if constexpr (integer) {
    ASHLAR_ASSIGN(*target, parse_in_range<int64_t>(field, text, "a whole number"));
  } else {
    ASHLAR_ASSIGN(*target, parse_in_range<double>(field, text, "a number"));
  }
  return {};
}

std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? fmt::format("{}", static_cast<int64_t>(value))
             : fmt::format("{}", value);
}

// How a JSON scalar would be written on the command line.
Result<std::string> scalar_text(const OptionField& field, const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return fail(ErrorCode::kInvalidArgument, "option '{}': expected a {}, found {}", field.name,
              field.is_list() ? "list of strings" : "single value", value.type_name());
}

}  // namespace

std::string OptionField::flag() const {
  std::string out = "--" + name;
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string OptionField::value_text() const {
  return std::visit(
      Overload{[](const bool* v) { return std::string(*v ? "true" : "false"); },
               [](const int64_t* v) { return fmt::format("{}", *v); },
               [](const double* v) { return fmt::format("{}", *v); },
               [](const std::string* v) { return *v; },
               [](const std::optional<int64_t>* v) { return *v ? fmt::format("{}", **v) : ""; },
               [](const std::optional<double>* v) { return *v ? fmt::format("{}", **v) : ""; },
               [](const std::vector<std::string>* v) {
                 std::string joined;
                 for (const std::string& s : *v) joined += (joined.empty() ? "" : ", ") + s;
                 return joined;
               }},
      target);
}

std::string OptionField::range_text() const {
  if (!choices.empty()) {
    std::string joined;
    for (const std::string& c : choices) joined += (joined.empty() ? "" : ", ") + c;
    return joined;
  }
  if (low && high) return number_text(*low) + " to " + number_text(*high);
  return "";
}

Status set_option(const OptionField& field, std::string_view text) {
  return std::visit(
      Overload{[&](bool* v) -> Status {
                 if (text != "true" && text != "false") return refuse(field, text, "true or false");
                 *v = text == "true";
                 return {};
               },
               [&](std::string* v) -> Status {
                 if (!field.choices.empty() && std::find(field.choices.begin(), field.choices.end(),
                                                         text) == field.choices.end()) {
                   return fail(ErrorCode::kInvalidArgument, "{}: '{}' is not one of {}",
                               field.flag(), text, field.range_text());
                 }
                 *v = text;
                 return {};
               },
               [&](std::vector<std::string>* v) -> Status {
                 v->emplace_back(text);
                 return {};
               },
               [&](auto* v) -> Status { return set_number(field, text, v); }},
      field.target);
}

Status set_options(OptionFields& fields, const nlohmann::json& object, std::string_view source) {
  if (!object.is_object()) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected a JSON object of options", source);
  }
  for (const auto& [key, value] : object.items()) {
    auto& list = fields.list();
    const auto field =
        std::find_if(list.begin(), list.end(), [&](auto& f) { return f.name == key; });
    if (field == list.end()) {
      return fail(ErrorCode::kInvalidArgument, "{}: unknown option '{}'; see ashlar docs options",
                  source, key);
    }
    if (field->is_list() && value.is_array()) {
      for (const nlohmann::json& element : value) {
        const Result<std::string> text = scalar_text(*field, element);
        if (!text) return fail_in(source, text.error());
        if (Status status = set_option(*field, *text); !status) {
          return fail_in(source, status.error());
        }
      }
      continue;
    }
    const Result<std::string> text = scalar_text(*field, value);
    if (!text) return fail_in(source, text.error());
    if (Status status = set_option(*field, *text); !status) return fail_in(source, status.error());
  }
  return {};
}

nlohmann::json options_json(const OptionFields& fields) {
  nlohmann::json out = nlohmann::json::object();
  for (const OptionField& field : fields.list()) {
    std::visit(Overload{[&](const std::optional<int64_t>* v) {
                          out[field.name] = *v ? nlohmann::json(**v) : nlohmann::json();
                        },
                        [&](const std::optional<double>* v) {
                          out[field.name] = *v ? nlohmann::json(**v) : nlohmann::json();
                        },
                        [&](const auto* v) { out[field.name] = *v; }},
               field.target);
  }
  return out;
}

std::string options_markdown(const OptionFields& fields) {
  std::string out = "| flag | default | values | meaning |\n|---|---|---|---|\n";
  for (const OptionField& field : fields.list()) {
    out += fmt::format("| `{}` | {} | {} | {} |\n", field.flag(), field.value_text(),
                       field.range_text(), field.text);
  }
  return out;
}

}  // namespace ashlar
