// Every way an option can be set, printed and refused, on one small struct that has a field of each
// kind.
#include "base/options.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ashlar {
namespace {

struct Sample {
  bool verbose = false;
  int64_t threads = 0;
  double share = 0.5;
  std::string kind = "f16";
  std::optional<int64_t> seed;
  std::optional<double> temperature;
  std::vector<std::string> stops;

  OptionFields fields() {
    OptionFields f;
    f.add("verbose", verbose, "say more");
    f.add("threads", threads, "worker threads").range(0, 64);
    f.add("memory_share", share, "share").range(0, 1);
    f.add("kind", kind, "kind").one_of({"f16", "f32"});
    f.add("seed", seed, "seed");
    f.add("temperature", temperature, "temperature").range(0, 100);
    f.add("stop", stops, "stop string");
    return f;
  }
};

Status set(Sample& sample, std::string_view name, std::string_view text) {
  OptionFields fields = sample.fields();
  for (OptionField& field : fields.list()) {
    if (field.name == name) return set_option(field, text);
  }
  return fail(ErrorCode::kNotFound, "no option {}", name);
}

TEST(Options, SetsEachKind) {
  Sample s;
  ASSERT_TRUE(set(s, "verbose", "true"));
  ASSERT_TRUE(set(s, "threads", "7"));
  ASSERT_TRUE(set(s, "memory_share", "0.25"));
  ASSERT_TRUE(set(s, "kind", "f32"));
  ASSERT_TRUE(set(s, "seed", "-3"));
  ASSERT_TRUE(set(s, "temperature", "1.5"));
  ASSERT_TRUE(set(s, "stop", "a"));
  ASSERT_TRUE(set(s, "stop", "b"));
  EXPECT_TRUE(s.verbose);
  EXPECT_EQ(s.threads, 7);
  EXPECT_EQ(s.share, 0.25);
  EXPECT_EQ(s.kind, "f32");
  EXPECT_EQ(s.seed, -3);
  EXPECT_EQ(s.temperature, 1.5);
  EXPECT_EQ(s.stops, (std::vector<std::string>{"a", "b"}));
}

TEST(Options, RefusesByNameAndKeepsTheOldValue) {
  Sample s;
  const auto message = [&](std::string_view name, std::string_view text) {
    const Status status = set(s, name, text);
    return status ? std::string("accepted") : status.error().message;
  };
  EXPECT_EQ(message("threads", "12x"), "--threads: '12x' is not a whole number, 0 to 64");
  EXPECT_EQ(message("threads", "65"), "--threads: 65 is out of range, 0 to 64");
  EXPECT_EQ(message("threads", ""), "--threads: '' is not a whole number, 0 to 64");
  EXPECT_EQ(message("memory_share", "nan"), "--memory-share: nan is out of range, 0 to 1");
  EXPECT_EQ(message("kind", "f8"), "--kind: 'f8' is not one of f16, f32");
  EXPECT_EQ(message("verbose", "yes"), "--verbose: 'yes' is not true or false");
  EXPECT_EQ(s.threads, 0);
  EXPECT_EQ(s.kind, "f16");
}

TEST(Options, FileSetsAndRefuses) {
  Sample s;
  OptionFields fields = s.fields();
  const auto file = nlohmann::json::parse(R"({"threads": 3, "verbose": true, "stop": ["x", "y"]})");
  ASSERT_TRUE(set_options(fields, file, "options.json"));
  EXPECT_EQ(s.threads, 3);
  EXPECT_EQ(s.stops.size(), 2u);
  const Status unknown = set_options(fields, nlohmann::json{{"thread", 3}}, "options.json");
  EXPECT_EQ(unknown.error().message,
            "options.json: unknown option 'thread'; see ashlar docs options");
  const Status nested =
      set_options(fields, nlohmann::json{{"threads", {{"a", 1}}}}, "options.json");
  EXPECT_EQ(nested.error().message,
            "options.json: option 'threads': expected a single value, found object");
}

TEST(Options, DumpShowsEffectiveValues) {
  Sample s;
  s.seed = 9;
  const nlohmann::json dump = options_json(s.fields());
  EXPECT_EQ(dump["seed"], 9);
  EXPECT_TRUE(dump["temperature"].is_null());
  EXPECT_EQ(dump["kind"], "f16");
  EXPECT_NE(options_markdown(s.fields()).find("| `--memory-share` | 0.5 | 0 to 1 | share |"),
            std::string::npos);
}

}  // namespace
}  // namespace ashlar
