// The C interface of the static library ashlar_text (this folder's Rust crate): tokenizers and chat
// templates.
//
// Rules that hold for every function:
//  - It returns an AshlarStatus. On anything but ASHLAR_OK, `error` holds a message and no other
//  output is touched.
//  - AshlarBytes are borrowed for the duration of the call. AshlarBuffer contents belong to the
//  library: an output
//    buffer must be empty ({0}) on entry and is released with ashlar_buffer_free, also after an
//    error.
//  - A panic inside the library becomes ASHLAR_INTERNAL; it never crosses into C++.
//  - Handles are immutable after creation: const functions may run on any number of threads at
//  once.
// Callers are src/text/*.cc alone; everything else uses their C++ classes.
#ifndef ASHLAR_TEXT_RUST_ASHLAR_TEXT_H_
#define ASHLAR_TEXT_RUST_ASHLAR_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <ctime>

extern "C" {

enum AshlarStatus : int32_t {
  ASHLAR_OK = 0,
  ASHLAR_INVALID_ARGUMENT = 1,    // the caller's text or JSON is wrong
  ASHLAR_CORRUPT = 2,             // a vocabulary or a tokenizer.json contradicts itself
  ASHLAR_UNSUPPORTED = 3,         // understood, and refused by name
  ASHLAR_RESOURCE_EXHAUSTED = 4,  // a template ran past its step or size limit
  ASHLAR_INTERNAL = 5,            // a panic or another failure we did not foresee
};

struct AshlarBytes {
  const uint8_t* data;  // may be null when size is 0
  size_t size;
};

struct AshlarBuffer {
  uint8_t* data;
  size_t size;
  size_t capacity;
};

void ashlar_buffer_free(AshlarBuffer* buffer);

// ---- tokenizers

struct AshlarTokenizer;

// A vocabulary as GGUF metadata states it. Arrays that a file does not have are null with count 0.
struct AshlarVocabulary {
  const AshlarBytes* tokens;
  size_t token_count;
  const int32_t* types;       // null, or token_count entries: 1 normal, 2 unknown, 3 control, 4
                              // user-defined, 5 unused, 6 byte
  const float* scores;        // token_count entries; required for model "llama"
  const AshlarBytes* merges;  // "left right", best first; for model "gpt2"
  size_t merge_count;
  AshlarBytes model;      // "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE)
  AshlarBytes pre;        // pre-tokenizer name of a "gpt2" vocabulary; empty means "default"
  int32_t unknown_id;     // -1: none
  bool ignore_merges;     // a pre-token that is itself a token is emitted without merging
  bool add_space_prefix;  // "llama": a space before the first text and after every special token
};

AshlarStatus ashlar_tokenizer_from_json(AshlarBytes json, AshlarTokenizer** out,
                                        AshlarBuffer* error);
AshlarStatus ashlar_tokenizer_from_vocabulary(const AshlarVocabulary* vocabulary,
                                              AshlarTokenizer** out, AshlarBuffer* error);
void ashlar_tokenizer_free(AshlarTokenizer* tokenizer);

// Ids of a UTF-8 text, as int32 in `ids` (ids->size is in bytes). add_special runs the
// post-processor of a tokenizer.json; a vocabulary has none. parse_special: control tokens written
// in the text become their ids.
AshlarStatus ashlar_tokenizer_encode(const AshlarTokenizer* tokenizer, AshlarBytes text,
                                     bool add_special, bool parse_special, AshlarBuffer* ids,
                                     AshlarBuffer* error);

// -1 when there is no such token.
int32_t ashlar_tokenizer_token_to_id(const AshlarTokenizer* tokenizer, AshlarBytes token);

enum AshlarTokenFlags : uint8_t {
  ASHLAR_TOKEN_PRESENT = 1,  // the id has a token at all
  ASHLAR_TOKEN_SPECIAL = 2,  // left out of decoded text when special tokens are skipped
  ASHLAR_TOKEN_BYTE = 4,     // a byte-fallback token: part of a code point
};

enum AshlarStrip : int32_t {
  ASHLAR_STRIP_NONE = 0,
  ASHLAR_STRIP_ONE_SPACE = 1,     // one space at the start of decoded text is not part of it
  ASHLAR_STRIP_TOKEN_SPACES = 2,  // every space at the start of the first token, and only there
};

// What every id decodes to: token i is bytes[offsets[i] .. offsets[i + 1]). `offsets` holds uint32,
// one more than there are ids; `flags` holds one byte an id. `most_text`: bytes of a text that one
// token can stand for; 0: no bound.
AshlarStatus ashlar_tokenizer_table(const AshlarTokenizer* tokenizer, AshlarBuffer* bytes,
                                    AshlarBuffer* offsets, AshlarBuffer* flags, AshlarStrip* strip,
                                    uint64_t* most_text, AshlarBuffer* error);

// Where a named pre-tokenizer of "gpt2" vocabularies cuts a text: `ends` holds the uint32 byte end
// of each fragment. Encoding does this by itself; alone it is for looking at a vocabulary's splits
// and for testing them.
AshlarStatus ashlar_pre_tokenize(AshlarBytes name, AshlarBytes text, AshlarBuffer* ends,
                                 AshlarBuffer* error);

// ---- chat templates

struct AshlarTemplate;

struct AshlarTemplateInput {
  AshlarBytes messages;   // JSON array of objects
  AshlarBytes tools;      // JSON array, or empty: None
  AshlarBytes bos_token;  // null data: not defined
  AshlarBytes eos_token;
  AshlarBytes
      variables;  // JSON object of further variables, or empty; they win over the names above
  bool add_generation_prompt;
  const struct tm* now;  // what strftime_now formats; null makes its use an error
  size_t output_limit;   // bytes a rendering may write
};

// step_limit: instructions that one rendering may take.
AshlarStatus ashlar_template_compile(AshlarBytes source, uint64_t step_limit, AshlarTemplate** out,
                                     AshlarBuffer* error);
void ashlar_template_free(AshlarTemplate* compiled);
AshlarStatus ashlar_template_render(const AshlarTemplate* compiled,
                                    const AshlarTemplateInput* input, AshlarBuffer* text,
                                    AshlarBuffer* error);

}  // extern "C"

#endif  // ASHLAR_TEXT_RUST_ASHLAR_TEXT_H_
