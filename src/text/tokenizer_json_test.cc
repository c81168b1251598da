// Tokenizers from a tokenizer.json: added tokens, the post-processor, decoders, what
// tokenizer_config.json adds.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace ashlar {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

Json added(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", !special}, {"special", special}};
}

// Letters a, b, "Ġ" and "ab"; <s> and </s> are special, <tool> is not.
Json byte_level() {
  return {
      {"version", "1.0"},
      {"truncation",
       {{"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}}},
      {"padding", nullptr},
      {"added_tokens", {added(4, "<s>", true), added(5, "</s>", true), added(6, "<tool>", false)}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair",
         {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {4}}, {"tokens", {"<s>"}}}}}}}},
      {"decoder",
       {{"type", "ByteLevel"},
        {"add_prefix_space", true},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"vocab", {{"a", 0}, {"b", 1}, {"\u0120", 2}, {"ab", 3}}},
        {"merges", {"a b"}}}}};
}

// U+2581 for spaces, byte fallback for "é".
Json sentencepiece() {
  Json out = byte_level();
  out["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", "\u2581"}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}};
  out["pre_tokenizer"] = nullptr;
  out["post_processor"] = nullptr;
  out["decoder"] = {{"type", "Sequence"},
                    {"decoders",
                     {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                      {{"type", "ByteFallback"}},
                      {{"type", "Fuse"}},
                      {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  out["model"]["byte_fallback"] = true;
  out["model"]["vocab"] = {{"a", 0},  {"b", 1},      {"\u2581", 2},
                           {"ab", 3}, {"<0xC3>", 4}, {"<0xA9>", 5}};
  out["added_tokens"] = {added(6, "<s>", true), added(7, "</s>", true), added(8, "<tool>", false)};
  return out;
}

constexpr std::string_view kConfig =
    R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"})";

Tokenizer make(const Json& json, std::string_view config = kConfig) {
  Result<Tokenizer> tokenizer = Tokenizer::from_json(json.dump(), config);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *tokenizer;
}

// All 256 byte letters in front, so that no byte of a text can vanish.
Json whole_byte_level() {
  Json out = byte_level();
  Json& vocab = out["model"]["vocab"];
  vocab = Json::object();
  const auto add = [&vocab](char32_t letter) {
    std::string utf8;
    if (letter < 0x80) {
      utf8 += static_cast<char>(letter);
    } else {
      utf8 += static_cast<char>(0xc0 | letter >> 6);
      utf8 += static_cast<char>(0x80 | (letter & 0x3f));
    }
    const int id = static_cast<int>(vocab.size());
    vocab[utf8] = id;
  };
  for (char32_t c = 33; c <= 126; ++c) add(c);
  for (char32_t c = 161; c <= 255; ++c) {
    if (c != 173) add(c);
  }
  for (char32_t c = 0x100; c < 0x100 + 68; ++c) add(c);
  vocab["\u0120\u0120\u0120\u0120\u0120\u0120\u0120"] = 256;
  out["model"]["merges"] = Json::array();
  out["added_tokens"] = {added(257, "<s>", true), added(258, "</s>", true)};
  out["post_processor"]["special_tokens"]["<s>"]["ids"] = {257};
  return out;
}

TEST(TokenizerJson, KnowsHowMuchTextATokenStandsFor) {
  const auto bytes = [](const Json& json) { return make(json).most_text_bytes(); };
  const Json whole = whole_byte_level();
  EXPECT_EQ(bytes(whole), 7) << "seven spaces";
  Json longer = whole;
  longer["added_tokens"].push_back(added(259, "<a long one>", false));
  EXPECT_EQ(bytes(longer), 12);
  Json composed = whole;
  composed["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(bytes(composed), 6 * 7);

  EXPECT_EQ(bytes(byte_level()), 0) << "letters that the vocabulary lacks vanish";
  Json swallows = whole;
  swallows["added_tokens"][0]["lstrip"] = true;
  EXPECT_EQ(bytes(swallows), 0);
  Json strips = whole;
  strips["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  EXPECT_EQ(bytes(strips), 0);
  Json removes = whole;
  removes["pre_tokenizer"] = {{"type", "Sequence"},
                              {"pretokenizers",
                               {{{"type", "Split"},
                                 {"pattern", {{"String", "-"}}},
                                 {"behavior", "Removed"},
                                 {"invert", false}},
                                whole["pre_tokenizer"]}}};
  EXPECT_EQ(bytes(removes), 0);
  removes["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Isolated";
  EXPECT_EQ(bytes(removes), 7);

  Json unknown = sentencepiece();
  EXPECT_EQ(bytes(unknown), 0) << "two bytes of 256, and no unknown token";
  unknown["model"]["unk_token"] = "a";
  EXPECT_EQ(bytes(unknown), 4 * 6) << "<0xC3> and <tool> are the longest spellings";
  unknown["model"]["fuse_unk"] = true;
  EXPECT_EQ(bytes(unknown), 0);
  EXPECT_EQ(make(unknown).encode("a" + std::string(3000, '?'), {.add_special = false})->size(), 3u)
      << "which is why";
}

TEST(TokenizerJson, SpecialTokensOnlyWhereAskedFor) {
  const Tokenizer tokenizer = make(byte_level());
  EXPECT_EQ(*tokenizer.encode("ab a"), (Ids{4, 3, 2, 0}));  // longer than the stored truncation
  EXPECT_EQ(*tokenizer.encode("a</s><tool>", {.add_special = false, .parse_special = true}),
            (Ids{0, 5, 6}));
  // As text, "</s>" has letters that this vocabulary lacks; the added token that is not special
  // still counts.
  EXPECT_EQ(*tokenizer.encode("a</s><tool>", {.add_special = false, .parse_special = false}),
            (Ids{0, 6}));
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.bos_id(), 4);
  EXPECT_EQ(tokenizer.eos_text(), "</s>");
  EXPECT_EQ(tokenizer.vocab_size(), 7);
  EXPECT_TRUE(tokenizer.is_special(5));
  EXPECT_FALSE(tokenizer.is_special(6));
  EXPECT_EQ(tokenizer.end_of_generation_ids(), Ids{5});
  EXPECT_EQ(*tokenizer.decode(Ids{4, 3, 2, 0, 6}, true), "ab a<tool>");
}

TEST(TokenizerJson, FlagsOfLlamaClassesOverrideThePostProcessor) {
  const Tokenizer tokenizer =
      make(byte_level(),
           R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false,
                                       "add_eos_token": true, "tokenizer_class": "LlamaTokenizer"})");
  EXPECT_EQ(*tokenizer.encode("a"), (Ids{0, 5}));
  EXPECT_FALSE(tokenizer.adds_bos());
}

TEST(TokenizerJson, SentencePieceDecoding) {
  const Tokenizer tokenizer = make(sentencepiece());
  EXPECT_EQ(*tokenizer.encode("ab é", {.add_special = false, .parse_special = false}),
            (Ids{2, 3, 2, 4, 5}));
  EXPECT_EQ(*tokenizer.decode(Ids{2, 3, 2, 4, 5}, true), "ab é");
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.push(4), "");
  EXPECT_EQ(stream.push(5), "é");
  EXPECT_EQ(*tokenizer.decode(Ids{4, 0}, true), "\uFFFDa");
}

TEST(TokenizerJson, WhatIsNotUnderstoodIsRefused) {
  const auto refuses = [](const std::string& json, std::string_view config, ErrorCode code,
                          std::string_view part) {
    const Result<Tokenizer> refused = Tokenizer::from_json(json, config);
    ASSERT_FALSE(refused) << part;
    EXPECT_EQ(refused.error().code, code) << refused.error().message;
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  };
  const std::string good = byte_level().dump();
  refuses("", "", ErrorCode::kCorrupt, "tokenizer.json");
  refuses(good.substr(0, good.size() / 2), "", ErrorCode::kCorrupt, "tokenizer.json");
  refuses(good, "[]", ErrorCode::kCorrupt, "tokenizer_config.json");
  refuses(good, R"({"bos_token": 3})", ErrorCode::kCorrupt, "bos_token");
  refuses(good, R"({"eos_token": "<none>"})", ErrorCode::kCorrupt, "<none>");
  Json odd = byte_level();
  odd["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  refuses(odd.dump(), "", ErrorCode::kUnsupported, "WordPiece");
  odd["decoder"] = nullptr;
  refuses(odd.dump(), "", ErrorCode::kUnsupported, "decoder");
  odd = byte_level();
  odd["added_tokens"] = Json::array();
  odd["model"]["vocab"]["far"] = 4'000'000'000u;
  refuses(odd.dump(), "", ErrorCode::kCorrupt, "id 4000000000");
  odd = byte_level();
  odd["added_tokens"][0]["id"] = 9;  // the ids would shift silently
  refuses(odd.dump(), "", ErrorCode::kCorrupt, "\"<s>\"");
  odd = byte_level();
  odd["model"]["merges"] = {"a c"};
  refuses(odd.dump(), "", ErrorCode::kCorrupt, "tokenizer.json");
}

// No prefix of a file and no file with one changed byte may do more than fail.
TEST(TokenizerJson, DamagedFilesNeverCrash) {
  const std::string good = sentencepiece().dump();
  for (size_t size = 0; size < good.size(); size += 3)
    (void)Tokenizer::from_json(good.substr(0, size), "");
  for (size_t at = 0; at < good.size(); at += 2) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 7)));
    const Result<Tokenizer> tokenizer = Tokenizer::from_json(bad, "");
    if (tokenizer)
      (void)tokenizer->encode("ab é<tool></s>", {.add_special = true, .parse_special = true});
  }
}

}  // namespace
}  // namespace ashlar
