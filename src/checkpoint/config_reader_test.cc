// The reader refuses what is missing, of another type, different from the only supported value, or
// never read.
#include "checkpoint/config_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ashlar {
namespace {

nlohmann::json example() {
  return nlohmann::json::parse(R"({
    "hidden_size": 64, "rope_theta": 10000, "eps": 1e-6, "name": "x", "tie": true,
    "head_dim": null, "layers": ["a", "b"], "ids": [1, 2], "huge": 18446744073709551615,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}
  })");
}

TEST(ConfigReader, ReadsEachType) {
  const nlohmann::json json = example();
  const ConfigReader config(json, "config.json");
  EXPECT_EQ(*config.require<int64_t>("hidden_size"), 64);
  EXPECT_EQ(*config.require<double>("rope_theta"), 10000.0);
  EXPECT_EQ(*config.require<double>("eps"), 1e-6);
  EXPECT_EQ(*config.require<std::string>("name"), "x");
  EXPECT_EQ(*config.require<bool>("tie"), true);
  EXPECT_EQ(*config.require<std::vector<std::string>>("layers"),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*config.require<std::vector<int64_t>>("ids"), (std::vector<int64_t>{1, 2}));
}

TEST(ConfigReader, NullAndMissingAreAbsent) {
  const nlohmann::json json = example();
  const ConfigReader config(json, "config.json");
  EXPECT_EQ(*config.optional<int64_t>("head_dim", 16), 16);
  EXPECT_EQ(*config.optional<int64_t>("head_dim"), std::nullopt);
  EXPECT_EQ(*config.optional<bool>("nothing", true), true);
  EXPECT_FALSE(config.has("head_dim"));
  EXPECT_TRUE(config.has("tie"));
  const auto missing = config.require<int64_t>("head_dim");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().message, "config.json: head_dim is missing; it must be an integer");
}

TEST(ConfigReader, WrongTypesNameKeyTypeAndValue) {
  const nlohmann::json json = example();
  const ConfigReader config(json, "config.json");
  EXPECT_EQ(config.require<int64_t>("eps").error().message,
            "config.json: eps must be an integer, but is 1e-06");
  EXPECT_EQ(config.optional<bool>("hidden_size", false).error().message,
            "config.json: hidden_size must be true or false, but is 64");
  EXPECT_EQ(config.require<int64_t>("huge").error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(config.require<std::vector<int64_t>>("layers").has_value());
  EXPECT_FALSE(config.require<double>("name").has_value());
  EXPECT_EQ(config.object("name").error().message,
            "config.json: name must be an object, but is \"x\"");
}

TEST(ConfigReader, ExpectRefusesAnotherValueByName) {
  const nlohmann::json json = example();
  const ConfigReader config(json, "config.json");
  EXPECT_TRUE(config.expect("tie", true).has_value());
  EXPECT_TRUE(config.expect("absent", 7).has_value());
  EXPECT_TRUE(config.expect("head_dim", 7).has_value());
  EXPECT_TRUE(config.expect("name", "x").has_value());
  const Status different = config.expect("hidden_size", 32);
  ASSERT_FALSE(different.has_value());
  EXPECT_EQ(different.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(different.error().message, "config.json: hidden_size = 64: only 32 is supported");
  EXPECT_FALSE(config.expect("tie", false).has_value());
  EXPECT_FALSE(config.expect("name", "y").has_value());
  EXPECT_FALSE(config.expect("eps", 1e-5).has_value());
  EXPECT_TRUE(config.expect_absent("head_dim").has_value());
  EXPECT_EQ(config.expect_absent("ids").error().message,
            "config.json: ids = [1,2]: this setting is not supported");
}

TEST(ConfigReader, FinishListsWhatWasNotRead) {
  const nlohmann::json json = example();
  const ConfigReader config(json, "config.json");
  ASSERT_TRUE(config.require<int64_t>("hidden_size").has_value());
  config.ignore({"eps", "name", "tie", "layers", "ids", "not there"});
  const ConfigReader scaling = *config.object("rope_scaling");
  ASSERT_TRUE(scaling.require<double>("factor").has_value());
  const Status status = config.finish();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(status.error().message,
            "config.json: settings that are not understood: \"huge\", \"rope_theta\", "
            "\"rope_scaling.rope_type\"");
  ASSERT_TRUE(config.optional<double>("rope_theta", 0).has_value());
  config.ignore({"huge"});
  // Asking twice for an object continues one record.
  const auto again = *config.optional_object("rope_scaling");
  ASSERT_TRUE(again->require<std::string>("rope_type").has_value());
  EXPECT_TRUE(config.finish().has_value());
}

TEST(ConfigReader, AnUnopenedObjectIsOneUnreadKey) {
  const nlohmann::json json = {{"rope_scaling", {{"factor", 8.0}}}};
  const ConfigReader config(json, "config.json");
  EXPECT_EQ(config.unread(), std::vector<std::string>{"rope_scaling"});
  EXPECT_FALSE((*config.optional_object("other")).has_value());
}

TEST(ConfigReader, NestedErrorsCarryTheWholeName) {
  const nlohmann::json json = example();
  const ConfigReader config(json, "config.json");
  const ConfigReader scaling = *config.object("rope_scaling");
  EXPECT_EQ(scaling.require<double>("low_freq_factor").error().message,
            "config.json: rope_scaling.low_freq_factor is missing; it must be a number");
  EXPECT_EQ(scaling.refuse("rope_type", "no such type").value().message,
            "config.json: rope_scaling.rope_type = \"linear\": no such type");
}

}  // namespace
}  // namespace ashlar
