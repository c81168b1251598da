// What golden renderings do not show: errors and their lines, limits, the choice among templates,
// where text comes from.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <string>

namespace ashlar {
namespace {

ChatInput input(std::string messages = R"([{"role": "user", "content": "hi"}])") {
  ChatInput out;
  out.messages_json = std::move(messages);
  return out;
}

Result<std::string> render(std::string_view source, const ChatInput& chat = input()) {
  ASHLAR_ASSIGN(const ChatTemplate compiled, ChatTemplate::compile(source));
  return compiled.render(chat);
}

std::string text(std::string_view source, const ChatInput& chat = input()) {
  const Result<std::string> out = render(source, chat);
  EXPECT_TRUE(out) << out.error().message;
  return out ? *out : "";
}

std::string failure(std::string_view source, const ChatInput& chat = input()) {
  const Result<std::string> out = render(source, chat);
  EXPECT_FALSE(out) << *out;
  return out ? "" : out.error().message;
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  EXPECT_EQ(failure("a\nb\n{{ raise_exception('no system role') }}"),
            "chat template, line 3: no system role");
  EXPECT_TRUE(failure("a\r\n{% if %}").starts_with("chat template, line 2: "));
  EXPECT_TRUE(failure("\n\n{% nonsense %}").starts_with("chat template, line 3: "));
  EXPECT_TRUE(failure("{{ messages.absent.deeper }}").starts_with("chat template, line 1: "));
}

TEST(ChatTemplate, InputMustBeJson) {
  EXPECT_EQ(failure("x", input("[")).substr(0, 14), "the messages: ");
  EXPECT_EQ(failure("x", input("{}")), "the messages are not a JSON array");
  EXPECT_EQ(failure("x", input(R"(["hi"])")), "message 0 is not a JSON object");
  ChatInput chat = input();
  chat.variables_json = "[]";
  EXPECT_EQ(failure("x", chat), "the template variables are not a JSON object");
  chat = input();
  chat.tools_json = "nope";
  EXPECT_EQ(failure("x", chat).substr(0, 11), "the tools: ");
}

TEST(ChatTemplate, VariablesAndTokens) {
  const std::string source =
      "{{ bos_token }}|{{ eos_token }}|{{ mode }}|{{ tools is none }}|{{ add_generation_prompt }}";
  EXPECT_EQ(text(source), "|||True|True");
  ChatInput chat = input();
  chat.bos_token = "<s>";
  chat.eos_token = "</s>";
  chat.tools_json = "[]";
  chat.variables_json = R"({"mode": 1.0, "eos_token": "END"})";
  chat.add_generation_prompt = false;
  EXPECT_EQ(text(source, chat), "<s>|END|1.0|False|False");
}

TEST(ChatTemplate, NullIsLeftOutAndReasoningHasBothNames) {
  EXPECT_EQ(text("{{ messages[0] }}", input(R"([{"role": "user", "content": null}])")),
            "{'role': 'user'}");
  const std::string source = "{{ messages[0].reasoning_content }}{{ messages[0].thinking }}";
  EXPECT_EQ(text(source, input(R"([{"reasoning": "r"}])")), "rr");
  EXPECT_EQ(text(source, input(R"([{"reasoning_content": "c", "thinking": "t"}])")), "ct");
}

TEST(ChatTemplate, TimeIsGiven) {
  ChatInput chat = input();
  chat.now.emplace();
  chat.now->tm_year = 125;
  chat.now->tm_mon = 1;
  chat.now->tm_mday = 3;
  EXPECT_EQ(text("{{ strftime_now('%d %b %Y') }}", chat), "03 Feb 2025");
  EXPECT_EQ(text("{{ strftime_now('%Y') | length }}"), "4");
}

TEST(ChatTemplate, PercentAfterALiteral) {
  EXPECT_EQ(text("{{ '%s-%d' % ('a', 3) }}"), "a-3");
  EXPECT_EQ(text("{{ 'x %s y' % messages[0].role ~ '!' }}"), "x user y!");
  EXPECT_EQ(text("{{ 'it\\'s %s' % ('%') }} {{ 7 % 4 }}"), "it's % 3");
  EXPECT_EQ(text("{% raw %}{{ '%s' % x }}{% endraw %}{# '%s' % x #}"), "{{ '%s' % x }}");
}

TEST(ChatTemplate, GenerationBlocks) {
  EXPECT_EQ(text("a{% generation %}\nb{% set x = 1 %}{%- endgeneration -%}\n c{{ x }}"), "abc");
}

// None of these may take long, crash, or use the machine's memory.
TEST(ChatTemplate, HostileTemplatesMeetALimit) {
  const auto exhausts = [](std::string_view source) {
    const Result<std::string> out = render(source);
    ASSERT_FALSE(out) << source;
    EXPECT_EQ(out.error().code, ErrorCode::kResourceExhausted) << out.error().message;
    EXPECT_TRUE(out.error().message.starts_with("chat template") ||
                out.error().message.starts_with("the chat template"))
        << out.error().message;
  };
  exhausts("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}");
  exhausts("{% for a in range(100000) %}{{ 'x' * 100000 }}{% endfor %}");
  exhausts("{{ 'a\\nb' | indent(10000000000) }}");
  exhausts("{{ ([1] * 100000 * 100000) | list }}");
}

TEST(ChatTemplate, DeepTemplatesAreErrorsOrRun) {
  const auto repeat = [](std::string_view part, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += part;
    return out;
  };
  EXPECT_FALSE(render("{{ " + repeat("(", 50000) + "1" + repeat(")", 50000) + " }}"));
  EXPECT_FALSE(render("{{ " + repeat("not ", 50000) + "1 }}"));
  EXPECT_FALSE(render(repeat("{% if 1 %}", 5000) + repeat("{% endif %}", 5000)));
  EXPECT_FALSE(render("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(0) }}"));
  EXPECT_EQ(text("{{ " + repeat("- ", 4000) + "1 }}"), "1");
  const std::string nested =
      "{% set ns = namespace(x=[]) %}{% for i in range(50000) %}{% set ns.x = [ns.x] %}{% endfor "
      "%}";
  EXPECT_EQ(text(nested + "done"), "done");
  EXPECT_FALSE(render(nested + "{{ ns.x | tojson }}"));
}

TEST(ChatTemplate, FilesAndNames) {
  auto from = [](std::string_view config, std::string_view jinja) {
    auto found = ChatTemplate::from_files(config, jinja);
    EXPECT_TRUE(found) << found.error().message;
    return *found;
  };
  EXPECT_FALSE(from("", ""));
  EXPECT_FALSE(from("{}", ""));
  EXPECT_FALSE(from(R"({"chat_template": null})", ""));
  EXPECT_EQ(*from(R"({"chat_template": "config"})", "")->render(input()), "config");
  EXPECT_EQ(*from(R"({"chat_template": "config"})", "file")->render(input()), "file");
  const auto named = from(R"({"chat_template": [{"name": "default", "template": "plain"},
                                                {"name": "tool_use", "template": "tools"}]})",
                          "");
  EXPECT_EQ(*named->render(input()), "plain");
  ChatInput chat = input();
  chat.tools_json = "[]";
  EXPECT_EQ(*named->render(chat), "tools");
  const auto other = from(R"({"chat_template": [{"name": "rag", "template": "x"}]})", "");
  EXPECT_EQ(other->render(input()).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(ChatTemplate::from_files("[]", ""));
  EXPECT_FALSE(ChatTemplate::from_files(R"({"chat_template": 3})", ""));
  EXPECT_FALSE(ChatTemplate::from_files(R"({"chat_template": [3]})", ""));
  GgufVocabulary vocabulary;
  EXPECT_FALSE(ChatTemplate::from_gguf(vocabulary)->has_value());
  vocabulary.chat_templates = {{"default", "gguf"}};
  EXPECT_EQ(*(*ChatTemplate::from_gguf(vocabulary))->render(input()), "gguf");
}

}  // namespace
}  // namespace ashlar
