// The text is put together by hand: with a quarter of a million tokens a JSON tree would take
// longer than everything else.
#include "checkpoint/synthetic_tokenizer.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ashlar {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kSpecial = {"<|bos|>", "<|eos|>", "<|im_start|>",
                                                      "<|im_end|>"};
constexpr std::string_view kLetters = "etaoinshrdlcumwfgypbvkjxqz";
constexpr std::string_view kSpace = "\xc4\xa0";  // what a space is written as, U+0120
constexpr std::string_view kChatTemplate =
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// The letter that byte-level vocabularies write a byte as: itself where it is printable in Latin-1,
// else the next unused code point from U+0100 on. In UTF-8, escaped for JSON.
std::vector<std::string> byte_letters() {
  std::vector<std::string> out;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    const int code = printable ? byte : next++;
    std::string letter;
    if (code < 0x80) {
      if (code == '"' || code == '\\') letter += '\\';
      letter += static_cast<char>(code);
    } else {
      letter += static_cast<char>(0xc0 | code >> 6);
      letter += static_cast<char>(0x80 | (code & 0x3f));
    }
    out.push_back(letter);
  }
  return out;
}

using Pair = std::pair<std::string, std::string>;

// Up to `count` pairs of one list with another, by the sum of their places: common ones first.
void add_pairs(const std::vector<std::string>& firsts, const std::vector<std::string>& seconds,
               size_t count, std::vector<Pair>& out) {
  const size_t end = out.size() + std::min(count, firsts.size() * seconds.size());
  for (size_t sum = 0; out.size() < end; ++sum) {
    const size_t from = sum < seconds.size() ? 0 : sum - seconds.size() + 1;
    for (size_t i = from; i <= std::min(sum, firsts.size() - 1) && out.size() < end; ++i) {
      out.emplace_back(firsts[i], seconds[sum - i]);
    }
  }
}

std::vector<Pair> merges(size_t count) {
  std::vector<std::string> letters;
  for (const char letter : kLetters) letters.emplace_back(1, letter);
  std::vector<std::string> starts = letters;
  starts.emplace(starts.begin(), kSpace);
  std::vector<Pair> out;
  add_pairs(starts, letters, count, out);
  std::vector<std::string> pairs, inner;  // inner: without a space
  for (const auto& [left, right] : out) {
    pairs.push_back(left + right);
    if (left != kSpace) inner.push_back(left + right);
  }
  if (out.size() < count) add_pairs(pairs, inner, count - out.size(), out);
  return out;
}

}  // namespace

std::string synthetic_tokenizer_json(int64_t tokens) {
  CHECK(tokens >= kMinSyntheticTokens && tokens <= kMaxSyntheticTokens);
  json added = json::array();
  for (size_t id = 0; id < kSpecial.size(); ++id) {
    added.push_back({{"id", id},
                     {"content", kSpecial[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const std::vector<Pair> generated = merges(static_cast<size_t>(tokens - kMinSyntheticTokens));
  std::string vocabulary, list;
  vocabulary.reserve(generated.size() * 20 + 8192);
  list.reserve(generated.size() * 13);
  int64_t id = 0;
  const auto add = [&](std::string_view token) {
    fmt::format_to(std::back_inserter(vocabulary), "{}\"{}\":{}", id == 0 ? "" : ",", token, id);
    ++id;
  };
  for (const std::string_view token : kSpecial) add(token);
  for (const std::string& letter : byte_letters()) add(letter);
  for (const auto& [left, right] : generated) {
    add(left + right);
    fmt::format_to(std::back_inserter(list), "{}\"{} {}\"", list.empty() ? "" : ",", left, right);
  }
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":null,)"
      R"("pre_tokenizer":{},"post_processor":null,"decoder":{},"model":{{"type":"BPE",)"
      R"("dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
      R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,)"
      R"("vocab":{{{}}},"merges":[{}]}}}})",
      added.dump(), byte_level.dump(), byte_level.dump(), vocabulary, list);
}

std::string synthetic_tokenizer_config_json(int64_t context_length) {
  const json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", kSpecial[kSyntheticBos]},
      {"eos_token", kSpecial[kSyntheticEos]},
      {"pad_token", kSpecial[kSyntheticEos]},
      {"additional_special_tokens", {kSpecial[kSyntheticImStart], kSpecial[kSyntheticImEnd]}},
      {"add_bos_token", false},
      {"add_eos_token", false},
      {"clean_up_tokenization_spaces", false},
      {"model_max_length", context_length},
      {"chat_template", kChatTemplate}};
  return config.dump(2);
}

}  // namespace ashlar
