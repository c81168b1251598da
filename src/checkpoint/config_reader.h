// A typed reader over a JSON object that records which keys were read, so that a configuration
// value which the code does not honour is refused by name instead of being ignored.
//
//   ConfigReader config(checkpoint.config(), checkpoint.config_name());
//   ASHLAR_ASSIGN(const int64_t hidden, config.require<int64_t>("hidden_size"));
//   ASHLAR_ASSIGN(const double theta, config.optional<double>("rope_theta", 10000.0));
//   ASHLAR_TRY(config.expect("attention_bias", false));
//   config.ignore({"torch_dtype", "transformers_version"});
//   ASHLAR_TRY(config.finish());
//
// A key whose value is null counts as absent. Errors name the file, the key, what was expected and
// what was found. Copies share the record; the JSON must outlive them.
#ifndef ASHLAR_CHECKPOINT_CONFIG_READER_H_
#define ASHLAR_CHECKPOINT_CONFIG_READER_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ashlar {

class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& object, std::string file);

  // T: bool, int64_t, double (an integer will do), std::string, or a vector of one of these.
  template <class T>
  Result<T> require(std::string_view key) const;
  template <class T>
  Result<T> optional(std::string_view key, T fallback) const;
  template <class T>
  Result<std::optional<T>> optional(std::string_view key) const;

  // Absent, null or equal: fine. Anything else is refused by name.
  Status expect(std::string_view key, bool value) const;
  Status expect(std::string_view key, int64_t value) const;
  Status expect(std::string_view key, int value) const { return expect(key, int64_t{value}); }
  Status expect(std::string_view key, double value) const;
  Status expect(std::string_view key, std::string_view value) const;
  Status expect(std::string_view key, const char* value) const {
    return expect(key, std::string_view(value));
  }
  // Absent or null: fine. Anything else is refused by name: a feature that the code does not have.
  Status expect_absent(std::string_view key) const;

  // Keys without effect on inference.
  void ignore(std::initializer_list<std::string_view> keys) const;

  // A nested object. Its unread keys are part of this reader's finish(), with names like
  // "rope_scaling.factor".
  Result<ConfigReader> object(std::string_view key) const;
  Result<std::optional<ConfigReader>> optional_object(std::string_view key) const;

  bool has(std::string_view key) const;  // present and not null; does not count as reading
  std::vector<std::string> unread() const;
  // Error kUnsupported that lists every unread key, also those of nested objects.
  Status finish() const;

  // An error about a key, with file and value, for checks that the caller makes.
  tl::unexpected<Error> refuse(std::string_view key, std::string_view reason) const;

 private:
  struct Node;
  explicit ConfigReader(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  const nlohmann::json* read(std::string_view key) const;  // nullptr if absent or null
  tl::unexpected<Error> wrong_type(std::string_view key, std::string_view expected) const;

  std::shared_ptr<Node> node_;
};

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_CONFIG_READER_H_
