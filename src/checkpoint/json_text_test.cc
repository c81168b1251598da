// Strictness of the JSON parser: depth, repeated keys, and errors instead of exceptions.
#include "checkpoint/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ashlar {
namespace {

std::string message_of(std::string_view text) {
  const auto value = parse_json_object(text, "c.json");
  return value ? "accepted" : value.error().message;
}

TEST(JsonText, Accepts) {
  EXPECT_EQ(message_of(R"( {"a": [1, {"b": null}], "c": {"a": 1}} )"), "accepted");
}

TEST(JsonText, RefusesDamage) {
  EXPECT_TRUE(message_of("{\"a\": ").starts_with("c.json: not valid JSON: "));
  EXPECT_TRUE(message_of("").starts_with("c.json: not valid JSON: "));
  EXPECT_TRUE(message_of("{\"a\": \"\xff\"}").starts_with("c.json: not valid JSON: "));
  EXPECT_TRUE(message_of("{\"a\": 1e999}").starts_with("c.json: not valid JSON: "));
  EXPECT_TRUE(message_of("{} {}").starts_with("c.json: not valid JSON: "));
  EXPECT_EQ(message_of("[1]"), "c.json: not a JSON object");
}

TEST(JsonText, RefusesRepeatedKeys) {
  EXPECT_EQ(message_of(R"({"a": 1, "b": {"c": 1, "c": 2}})"), "c.json: key \"c\" occurs twice");
}

TEST(JsonText, RefusesDepth) {
  const auto nested = [](int depth) {
    return "{\"a\":" + std::string(static_cast<size_t>(depth - 1), '[') +
           std::string(static_cast<size_t>(depth - 1), ']') + "}";
  };
  EXPECT_EQ(message_of(nested(64)), "accepted");
  EXPECT_EQ(message_of(nested(65)), "c.json: JSON is nested deeper than 64 levels");
  EXPECT_EQ(message_of(nested(3'000'000)), "c.json: JSON is nested deeper than 64 levels");
  EXPECT_FALSE(json_is_deeper_than(R"({"a": "[[[[\"[[[["})", 2));
}

}  // namespace
}  // namespace ashlar
