// A SAX parser for the only shape of JSON that the header may have. No document tree is built: a
// header may be 100 MB, and a tree would be ten times that. Nesting is bounded by the grammar: a
// fourth level is an error when it opens.
#include "checkpoint/safetensors_header.h"

#include <nlohmann/json.hpp>

#include "checkpoint/quote.h"

namespace ashlar {
namespace {

constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxAxes = 8;

class HeaderHandler {
 public:
  using json = nlohmann::json;

  bool null() { return refuse("null"); }
  bool boolean(bool) { return refuse("a boolean"); }
  bool number_float(double, const std::string&) { return refuse("a number that is no integer"); }
  bool binary(json::binary_t&) { return refuse("binary data"); }

  bool number_integer(int64_t) { return refuse("a negative number"); }

  bool number_unsigned(uint64_t value) {
    if (state_ != State::kShape && state_ != State::kOffsets) return refuse("a number");
    if (value > static_cast<uint64_t>(INT64_MAX)) return refuse("a number above 2^63");
    std::vector<int64_t>& list = state_ == State::kShape ? entry().shape : entry().data_offsets;
    if (list.size() >= (state_ == State::kShape ? kMaxAxes : 2)) return refuse("too many numbers");
    list.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(std::string& value) {
    if (state_ == State::kMetadata) {
      if (!header_.metadata.emplace(key_, std::move(value)).second) return refuse("a repeated key");
      return true;
    }
    if (state_ != State::kEntry || key_ != "dtype") return refuse("a string");
    entry().dtype = std::move(value);
    return true;
  }

  bool start_object(size_t) {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop) {
      state_ = key_ == "__metadata__" ? State::kMetadata : State::kEntry;
      if (state_ == State::kEntry) header_.entries.push_back(named_entry());
    } else {
      return refuse("an object");
    }
    return true;
  }

  bool key(std::string& value) {
    key_ = value;
    if (state_ == State::kTop) {
      place_ = quote_name(value);
      if (value == "__metadata__") {
        if (seen_metadata_) return refuse("a second __metadata__");
        seen_metadata_ = true;
      } else if (value.empty() || value.size() > kMaxNameBytes || !is_printable_ascii(value)) {
        return refuse("a bad tensor name");
      }
      return true;
    }
    if (state_ == State::kMetadata) return true;
    bool* seen = value == "dtype"          ? &entry().has_dtype
                 : value == "shape"        ? &entry().has_shape
                 : value == "data_offsets" ? &entry().has_data_offsets
                                           : nullptr;
    if (seen == nullptr) return refuse("the unknown key " + quote_name(value));
    if (*seen) return refuse("a repeated key " + quote_name(value));
    *seen = true;
    return true;
  }

  bool end_object() {
    if (state_ == State::kTop) {
      state_ = State::kEnd;
      return true;
    }
    if (state_ == State::kEntry) {
      const SafetensorsEntry& done = entry();
      if (!done.has_dtype || !done.has_shape || !done.has_data_offsets ||
          done.data_offsets.size() != 2) {
        return refuse("no complete dtype, shape and data_offsets");
      }
    }
    state_ = State::kTop;
    return true;
  }

  bool start_array(size_t) {
    if (state_ == State::kEntry && key_ == "shape") {
      state_ = State::kShape;
    } else if (state_ == State::kEntry && key_ == "data_offsets") {
      state_ = State::kOffsets;
    } else {
      return refuse("an array");
    }
    return true;
  }

  bool end_array() {
    state_ = State::kEntry;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception& error) {
    error_ = Error{ErrorCode::kCorrupt, fmt::format("the header is not valid JSON near byte {}: {}",
                                                    position, error.what())};
    return false;
  }

  Result<SafetensorsHeader> finish(bool success) {
    if (!success || state_ != State::kEnd) return tl::unexpected<Error>(std::move(error_));
    return std::move(header_);
  }

 private:
  enum class State { kStart, kTop, kMetadata, kEntry, kShape, kOffsets, kEnd };

  SafetensorsEntry& entry() { return header_.entries.back(); }

  SafetensorsEntry named_entry() const {
    SafetensorsEntry entry;
    entry.name = key_;
    return entry;
  }

  bool refuse(std::string_view what) {
    error_ = Error{ErrorCode::kCorrupt, place_.empty()
                                            ? fmt::format("the header is {}, not an object", what)
                                            : fmt::format("header entry {} has {}", place_, what)};
    return false;
  }

  State state_ = State::kStart;
  std::string key_;
  std::string place_;
  bool seen_metadata_ = false;
  SafetensorsHeader header_;
  Error error_{ErrorCode::kCorrupt, "the header is no JSON object"};
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json) {
  HeaderHandler handler;
  try {
    const bool success = nlohmann::json::sax_parse(json, &handler);
    return handler.finish(success);
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kCorrupt, "the header is not valid JSON: {}", error.what());
  }
}

}  // namespace ashlar
