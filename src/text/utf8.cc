// One classifier of a code point's bytes, shared by the stream and the validity check.
#include "text/utf8.h"

#include <cstddef>
#include <cstdint>

namespace ashlar {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Shape { kComplete, kUnfinished, kInvalid };

struct Unit {
  Shape shape;
  size_t bytes;  // of the code point, or of its well-formed start
};

// The unit at the start of text, which is not empty.
Unit first_unit(std::string_view text) {
  auto at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {Shape::kComplete, 1};
  size_t size = 0;
  // The range of the second byte excludes overlong forms, surrogates and values past U+10FFFF.
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    size = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    size = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Shape::kInvalid, 1};
  }
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {Shape::kUnfinished, i};
    if (at(i) < low || at(i) > high) return {Shape::kInvalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Shape::kComplete, size};
}

}  // namespace

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = std::move(pending_);
    joined += bytes;
    bytes = joined;
    pending_.clear();
  }
  while (!bytes.empty()) {
    const Unit unit = first_unit(bytes);
    if (unit.shape == Shape::kUnfinished) {
      pending_ = std::string(bytes);
      return;
    }
    out += unit.shape == Shape::kComplete ? bytes.substr(0, unit.bytes) : kReplacement;
    bytes.remove_prefix(unit.bytes);
  }
}

void Utf8Stream::flush(std::string& out) {
  if (!pending_.empty()) out += kReplacement;
  pending_.clear();
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Unit unit = first_unit(text);
    if (unit.shape != Shape::kComplete) return false;
    text.remove_prefix(unit.bytes);
  }
  return true;
}

}  // namespace ashlar
