// Rendered chat templates against transformers: two models' own templates and those written for
// this test, with system messages, tools, several turns and odd inputs. A case that fails there
// must fail here, with its message where the template raised one.
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "checkpoint/gguf.h"
#include "testing/paths.h"
#include "text/chat_template.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;  // the order of keys reaches the prompt

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const Json& cases() {
  static const Json file =
      Json::parse(read_file(source_dir() / "tests/golden/text/templates.json"));
  return file["cases"];
}

ChatInput input_of(const Json& item) {
  ChatInput input;
  input.messages_json = item["messages"].dump();
  if (!item["tools"].is_null()) input.tools_json = item["tools"].dump();
  input.variables_json = item["kwargs"].dump();
  input.add_generation_prompt = item["add_generation_prompt"];
  if (!item["bos_token"].is_null()) input.bos_token = item["bos_token"];
  if (!item["eos_token"].is_null()) input.eos_token = item["eos_token"];
  if (!item["now"].is_null()) {
    std::tm now = {};
    std::istringstream(item["now"].get<std::string>()) >> std::get_time(&now, "%Y-%m-%dT%H:%M:%S");
    now.tm_isdst = -1;
    std::mktime(&now);  // fills in the day of the week
    input.now = now;
  }
  return input;
}

// The two known differences, both in one line of one template: a printed tuple looks like a list
// here, and `~` writes the texts of a list in double quotes. The rest of that line still counts.
std::string expected_text(const Json& item) {
  std::string text = item["expected"];
  const auto replace = [&](std::string_view theirs, std::string_view ours) {
    const size_t at = text.find(theirs);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, theirs.size(), ours);
  };
  if (item["name"].get_ref<const std::string&>().starts_with("python_literals/")) {
    replace("('t', 2)", "['t', 2]");
    replace(R"(["a'b", 'a"b'])", R"(["a'b", "a\"b"])");
  }
  return text;
}

void expect_case(const Result<ChatTemplate>& chat, const Json& item) {
  SCOPED_TRACE(item["name"].get<std::string>());
  Result<std::string> text = tl::unexpected<Error>(Error{});
  if (chat) {
    text = chat->render(input_of(item));
  } else {
    text = tl::unexpected<Error>(chat.error());
  }
  if (item["error"].is_null()) {
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(*text, expected_text(item));
    return;
  }
  ASSERT_FALSE(text) << *text;
  EXPECT_NE(text.error().code, ErrorCode::kInternal) << text.error().message;
  const std::string raised = item["error"];
  if (raised == "template error") return;  // worded by the interpreter
  EXPECT_TRUE(text.error().message.ends_with(raised)) << text.error().message;
}

// The cases of one model ("" for the written templates); returns how many there were.
int expect_cases(const std::string& model, const std::optional<ChatTemplate>& own) {
  std::map<std::string, Result<ChatTemplate>> compiled;
  int count = 0;
  for (const Json& item : cases()) {
    if (item["model"].is_null() != model.empty()) continue;
    if (!model.empty() && item["model"] != model) continue;
    ++count;
    if (own) {
      expect_case(*own, item);
      continue;
    }
    const std::string source = item["template"];
    if (!compiled.contains(source)) compiled.emplace(source, ChatTemplate::compile(source));
    expect_case(compiled.at(source), item);
  }
  return count;
}

TEST(GoldenTemplates, Written) { EXPECT_GE(expect_cases("", std::nullopt), 100); }

TEST(RealModelTemplates, SmolLm2) {
  if (!std::filesystem::exists(smollm2_path())) GTEST_SKIP() << "not fetched: " << smollm2_path();
  const Result<GgufFile> file = GgufFile::open(smollm2_path().string());
  ASSERT_TRUE(file) << file.error().message;
  const Result<GgufVocabulary> vocabulary = read_gguf_vocabulary(*file);
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  const auto chat = ChatTemplate::from_gguf(*vocabulary);
  ASSERT_TRUE(chat) << chat.error().message;
  ASSERT_TRUE(chat->has_value());
  EXPECT_GE(expect_cases("smollm2", *chat), 30);
}

TEST(RealModelTemplates, Qwen3) {
  const std::filesystem::path config = qwen3_tokenizer_dir() / "tokenizer_config.json";
  if (!std::filesystem::exists(config)) GTEST_SKIP() << "not fetched: " << config;
  const auto chat = ChatTemplate::from_files(read_file(config), "");
  ASSERT_TRUE(chat) << chat.error().message;
  ASSERT_TRUE(chat->has_value());
  EXPECT_GE(expect_cases("qwen3", *chat), 30);
}

}  // namespace
}  // namespace ashlar
