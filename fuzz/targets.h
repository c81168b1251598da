// Fuzz targets: functions that take any bytes and must survive them. An error is a fine answer; a
// crash, a failed CHECK, a failure "we did not foresee" (kInternal), 10 seconds or 2 GB are not.
//
// The same functions run under libFuzzer (libfuzzer.cc) and in the test suite, over the stored
// inputs (replay_test.cc). They keep no state between inputs and print nothing.
#ifndef ASHLAR_FUZZ_TARGETS_H_
#define ASHLAR_FUZZ_TARGETS_H_

#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace ashlar {

void fuzz_gguf(std::string_view input);            // a GGUF file
void fuzz_safetensors(std::string_view input);     // a safetensors file
void fuzz_config(std::string_view input);          // config.json
void fuzz_tokenizer_json(std::string_view input);  // tokenizer.json, tokenizer_config.json, a text
void fuzz_chat_template(std::string_view input);   // template, messages, variables
void fuzz_http_body(std::string_view input);       // a body of /v1/completions or /v1/chat/...

// An input of several texts has this byte between them: no text of ours needs it, and one is easily
// inserted or lost by chance.
inline constexpr char kFuzzSeparator = '\x1e';
// Always `count` parts; the last takes the rest, missing ones are empty.
std::vector<std::string_view> fuzz_parts(std::string_view input, size_t count);

// The part of a file's bytes as the parsers take them.
std::span<const std::byte> fuzz_bytes(std::string_view input);

// Inputs may be refused in every way but one.
template <class T>
void fuzz_check_foreseen(const Result<T>& result) {
  if (result || result.error().code != ErrorCode::kInternal) return;
  check_failed(__FILE__, __LINE__, "a failure that was foreseen", result.error().message);
}

}  // namespace ashlar

#endif  // ASHLAR_FUZZ_TARGETS_H_
