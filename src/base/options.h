// Options declared once: a struct of plain fields with one fields() that states each field's name,
// meaning and range.
//
//   struct PoolOptions {
//     int64_t threads = 0;
//     OptionFields fields();  // f.add("threads", threads, "worker threads").range(0, 1024);
//   };
//
// Command-line flags, the options file, --help, the effective dump, validation and docs/options.md
// are all made from that list, so none of them can forget a knob. Fields point into the struct: it
// must outlive the list.
// What an option means is its owner's business.
#ifndef ASHLAR_BASE_OPTIONS_H_
#define ASHLAR_BASE_OPTIONS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace ashlar {

using OptionTarget = std::variant<bool*, int64_t*, double*, std::string*, std::optional<int64_t>*,
                                  std::optional<double>*, std::vector<std::string>*>;

struct OptionField {
  std::string name;  // as in the options file: "kv_positions"; the flag is --kv-positions
  OptionTarget target;
  std::string text;  // one sentence, no full stop
  std::optional<double> low;
  std::optional<double> high;
  std::vector<std::string> choices;  // for strings; empty: any

  OptionField& range(double from, double to) {
    low = from;
    high = to;
    return *this;
  }
  OptionField& one_of(std::vector<std::string> values) {
    choices = std::move(values);
    return *this;
  }

  std::string flag() const;  // "--kv-positions"
  bool is_switch() const { return std::holds_alternative<bool*>(target); }
  bool is_list() const { return std::holds_alternative<std::vector<std::string>*>(target); }
  std::string value_text() const;  // current value; "" for an empty optional
  std::string range_text() const;  // "0 to 1024", "f16, f32", or ""
};

class OptionFields {
 public:
  OptionField& add(std::string name, OptionTarget target, std::string text) {
    fields_.push_back(OptionField{std::move(name), target, std::move(text), {}, {}, {}});
    return fields_.back();
  }
  template <class T>
  OptionField& add(std::string name, T& field, std::string text) {
    return add(std::move(name), OptionTarget(&field), std::move(text));
  }
  void append(const OptionFields& other) {
    fields_.insert(fields_.end(), other.fields_.begin(), other.fields_.end());
  }
  std::vector<OptionField>& list() { return fields_; }
  const std::vector<OptionField>& list() const { return fields_; }

 private:
  std::vector<OptionField> fields_;
};

// Parses and range-checks one value; a list gets one more element. The error names the option, the
// value and the range.
Status set_option(const OptionField& field, std::string_view text);

// Sets fields from a JSON object (an options file). A key that no field has is refused by name.
Status set_options(OptionFields& fields, const nlohmann::json& object, std::string_view source);

// The effective values, for --stats and logs.
nlohmann::json options_json(const OptionFields& fields);

// A Markdown table: flag, default, range, meaning.
std::string options_markdown(const OptionFields& fields);

}  // namespace ashlar

#endif  // ASHLAR_BASE_OPTIONS_H_
