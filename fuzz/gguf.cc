// A GGUF file from its first byte to its configuration, tokenizer and chat template. Every tensor's
// bytes are read, so a place outside the file shows.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_names.h"
#include "fuzz/targets.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ashlar {

namespace {

void read_values(const GgufFile& file) {
  for (const GgufEntry& entry : file.entries()) {
    CHECK(file.find(entry.key) == &entry.value);
    entry.value.describe();
    entry.value.as_integer();
    entry.value.as_float();
    entry.value.as_bool();
    entry.value.as_string();
    entry.value.as_integers();
    entry.value.as_floats();
    entry.value.as_bools();
    if (const auto* strings = entry.value.as_strings()) {
      size_t sum = 0;
      for (const std::string_view text : *strings) sum += text.empty() ? 0 : text.back();
      volatile size_t kept = sum;
      (void)kept;
    }
  }
}

void read_tensors(const GgufFile& file) {
  const std::string architecture = gguf_architecture(file).value_or("");
  for (const GgufTensor& tensor : file.tensors()) {
    hf_tensor_name(architecture, tensor.name);
    unsigned sum = 0;
    for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
    volatile unsigned kept = sum;
    (void)kept;
  }
  if (!architecture.empty()) fuzz_check_foreseen(gguf_config(file, architecture));
}

}  // namespace

void fuzz_gguf(std::string_view input) {
  const Result<GgufFile> file = GgufFile::parse(fuzz_bytes(input), "fuzz.gguf");
  fuzz_check_foreseen(file);
  if (!file) return;
  read_values(*file);
  read_tensors(*file);
  const Result<GgufVocabulary> vocabulary = read_gguf_vocabulary(*file);
  fuzz_check_foreseen(vocabulary);
  if (!vocabulary) return;
  fuzz_check_foreseen(ChatTemplate::from_gguf(*vocabulary));
  const Result<Tokenizer> tokenizer = Tokenizer::from_gguf(*vocabulary);
  fuzz_check_foreseen(tokenizer);
  if (!tokenizer) return;
  const auto ids =
      tokenizer->encode(" ab <s>\xc3\xa9 12\n", {.add_special = true, .parse_special = true});
  fuzz_check_foreseen(ids);
  if (ids) fuzz_check_foreseen(tokenizer->decode(*ids, false));
}

}  // namespace ashlar
