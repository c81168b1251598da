// The GGUF parser. It trusts nothing: counts are checked against the bytes that are left before
// anything is reserved, and every sum and product is checked for overflow.
//
//   "GGUF" | u32 version | u64 tensors | u64 keys | keys × (string, u32 type, value)
//   | tensors × (string, u32 n, u64 extents[n] innermost first, u32 type, u64 offset)
//   | padding | data
//
// Limits beyond the format's own keep a hostile file from costing much more memory than its size.
#include "checkpoint/gguf.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/align.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/quote.h"

namespace ashlar {
namespace {

constexpr uint64_t kMaxKeys = 1 << 20;
constexpr uint64_t kMaxTensors = 1 << 20;
constexpr uint64_t kMaxArrayElements = 1 << 30;
constexpr uint64_t kMaxStringBytes = 1 << 30;
// In all arrays together; the largest vocabulary in use has 262,144.
constexpr uint64_t kMaxArrayStrings = 1 << 24;
constexpr size_t kMaxKeyBytes = 65535;
constexpr size_t kMaxTensorNameBytes = 63;
constexpr uint32_t kMaxAxes = 4;
constexpr int64_t kMaxAlignment = 1 << 20;
// The fewest bytes that one entry takes: a count that could not fit is refused at once.
constexpr uint64_t kMinKeyEntryBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorEntryBytes = 8 + 4 + 8 + 4 + 8;

size_t number_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

bool are_bools(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; });
}

}  // namespace

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), reader_(bytes) {
    file_.name_ = std::move(name);
  }

  Result<GgufFile> parse() {
    ASHLAR_TRY(read_header());
    ASHLAR_TRY(read_keys());
    ASHLAR_TRY(check_keys());
    ASHLAR_TRY(read_tensor_infos());
    ASHLAR_TRY(place_tensors());
    return std::move(file_);
  }

 private:
  template <class... Args>
  tl::unexpected<Error> corrupt(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(ErrorCode::kCorrupt, "{}: {}", file_.name_,
                fmt::format(text, std::forward<Args>(args)...));
  }
  template <class... Args>
  tl::unexpected<Error> unsupported(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(ErrorCode::kUnsupported, "{}: {}", file_.name_,
                fmt::format(text, std::forward<Args>(args)...));
  }
  tl::unexpected<Error> ends_inside(std::string_view what) const {
    return corrupt("the file ends inside {} (at byte {} of {})", what, reader_.position(),
                   bytes_.size());
  }

  Status read_header() {
    uint32_t magic = 0;
    if (!reader_.read(magic)) return ends_inside("the header");
    if (magic != 0x46554747) return corrupt("this is not a GGUF file: it does not start with GGUF");
    if (!reader_.read(file_.version_)) return ends_inside("the header");
    const uint32_t version = file_.version_;
    if (version == 1) return unsupported("GGUF version 1 is not supported; convert the file again");
    if (version != 0 && (version & 0xffff) == 0) {
      return unsupported("big-endian GGUF files are not supported");
    }
    if (version != 2 && version != 3) {
      return unsupported("GGUF version {} is not supported (2 and 3 are)", version);
    }
    if (!reader_.read(tensor_count_) || !reader_.read(key_count_)) return ends_inside("the header");
    if (key_count_ > kMaxKeys || key_count_ > reader_.remaining() / kMinKeyEntryBytes) {
      return corrupt("the header announces {} keys, more than the file can hold", key_count_);
    }
    if (tensor_count_ > kMaxTensors || tensor_count_ > reader_.remaining() / kMinTensorEntryBytes) {
      return corrupt("the header announces {} tensors, more than the file can hold", tensor_count_);
    }
    return {};
  }

  Status read_keys() {
    file_.entries_.reserve(key_count_);
    for (uint64_t i = 0; i < key_count_; ++i) {
      GgufEntry entry;
      if (!reader_.read_string(entry.key)) return ends_inside(fmt::format("the name of key {}", i));
      if (entry.key.empty() || entry.key.size() > kMaxKeyBytes || !is_printable_ascii(entry.key)) {
        return corrupt("key {} has a bad name: {} ({} bytes)", i, quote_name(entry.key),
                       entry.key.size());
      }
      uint32_t type = 0;
      if (!reader_.read(type)) return ends_inside(fmt::format("key {}", quote_name(entry.key)));
      entry.value.type_ = static_cast<GgufType>(type);
      entry.value.element_type_ = entry.value.type_;
      ASHLAR_TRY(read_value(entry.key, type, entry.value));
      file_.entries_.push_back(std::move(entry));
    }
    return {};
  }

  Status read_value(std::string_view key, uint32_t type, GgufValue& value) {
    if (value.type_ == GgufType::kString) {
      if (!reader_.read_string(value.string_) || value.string_.size() > kMaxStringBytes) {
        return ends_inside(fmt::format("the string of key {}", quote_name(key)));
      }
      return {};
    }
    if (value.type_ == GgufType::kArray) return read_array(key, value);
    const size_t bytes = number_bytes(value.type_);
    if (bytes == 0) return corrupt("key {} has the unknown type {}", quote_name(key), type);
    if (!reader_.take(bytes, value.raw_))
      return ends_inside(fmt::format("key {}", quote_name(key)));
    if (value.type_ == GgufType::kBool && !are_bools(value.raw_)) {
      return corrupt("key {} is a bool that is neither 0 nor 1", quote_name(key));
    }
    return {};
  }

  Status read_array(std::string_view key, GgufValue& value) {
    uint32_t type = 0;
    uint64_t count = 0;
    if (!reader_.read(type) || !reader_.read(count)) {
      return ends_inside(fmt::format("the array of key {}", quote_name(key)));
    }
    value.element_type_ = static_cast<GgufType>(type);
    if (value.element_type_ == GgufType::kArray) {
      return unsupported("key {} is an array of arrays", quote_name(key));
    }
    const bool strings = value.element_type_ == GgufType::kString;
    const size_t element_bytes = strings ? sizeof(uint64_t) : number_bytes(value.element_type_);
    if (element_bytes == 0) {
      return corrupt("key {} is an array of the unknown type {}", quote_name(key), type);
    }
    if (count > kMaxArrayElements || count > reader_.remaining() / element_bytes) {
      return corrupt("key {} announces {} elements, more than the file can hold", quote_name(key),
                     count);
    }
    value.count_ = static_cast<size_t>(count);
    if (strings) return read_strings(key, value);
    if (!reader_.take(count * element_bytes, value.raw_)) {
      return ends_inside(fmt::format("the array of key {}", quote_name(key)));
    }
    if (value.element_type_ == GgufType::kBool && !are_bools(value.raw_)) {
      return corrupt("key {} has a bool that is neither 0 nor 1", quote_name(key));
    }
    return {};
  }

  Status read_strings(std::string_view key, GgufValue& value) {
    array_strings_ += value.count_;
    if (array_strings_ > kMaxArrayStrings) {
      return unsupported("key {} brings the strings in arrays to {}; at most {} are read",
                         quote_name(key), array_strings_, kMaxArrayStrings);
    }
    auto strings = std::make_shared<std::vector<std::string_view>>(value.count_);
    for (size_t i = 0; i < value.count_; ++i) {
      if (!reader_.read_string((*strings)[i]) || (*strings)[i].size() > kMaxStringBytes) {
        return ends_inside(fmt::format("string {} of key {}", i, quote_name(key)));
      }
    }
    value.strings_ = std::move(strings);
    return {};
  }

  Status check_keys() {
    const std::vector<GgufEntry>& entries = file_.entries_;
    file_.sorted_.resize(entries.size());
    std::iota(file_.sorted_.begin(), file_.sorted_.end(), 0u);
    std::sort(file_.sorted_.begin(), file_.sorted_.end(),
              [&](uint32_t a, uint32_t b) { return entries[a].key < entries[b].key; });
    for (size_t i = 1; i < entries.size(); ++i) {
      const std::string_view key = entries[file_.sorted_[i]].key;
      if (entries[file_.sorted_[i - 1]].key == key) {
        return corrupt("key {} occurs twice", quote_name(key));
      }
    }
    if (const GgufValue* alignment = file_.find("general.alignment")) {
      const int64_t bytes = alignment->as_integer().value_or(0);
      if (bytes < 8 || bytes > kMaxAlignment ||
          !std::has_single_bit(static_cast<uint64_t>(bytes))) {
        return corrupt("general.alignment is {}; it must be a power of two from 8 to {}",
                       alignment->describe(), kMaxAlignment);
      }
      file_.alignment_ = static_cast<size_t>(bytes);
    }
    if (const GgufValue* count = file_.find("split.count")) {
      if (count->as_integer().value_or(2) > 1) {
        return unsupported(
            "this is one part of a split GGUF file ({} parts), which is not supported: merge them",
            count->as_integer().value_or(0));
      }
    }
    return {};
  }

  Status read_tensor_infos() {
    file_.tensors_.reserve(tensor_count_);
    offsets_.reserve(tensor_count_);
    std::string first_refused;
    uint64_t refused = 0;
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      GgufTensor tensor;
      ASHLAR_TRY(read_name_and_shape(i, tensor));
      uint32_t type = 0;
      uint64_t offset = 0;
      if (!reader_.read(type) || !reader_.read(offset)) {
        return ends_inside(fmt::format("the description of tensor {}", quote_name(tensor.name)));
      }
      offsets_.push_back(offset);
      if (const StorageInfo* info = find_storage_by_ggml_id(type)) {
        tensor.type = info->type;
      } else if (const std::string_view name = ggml_type_name(type); name.empty()) {
        return corrupt("tensor {} has the unknown type {}", quote_name(tensor.name), type);
      } else if (refused++ == 0) {
        first_refused = fmt::format("tensor {} has type {}", quote_name(tensor.name), name);
      }
      file_.tensors_.push_back(std::move(tensor));
    }
    if (refused == 0) return {};
    return unsupported("{}, which is not supported{}", first_refused,
                       refused > 1 ? fmt::format(" (nor are those of {} more)", refused - 1) : "");
  }

  Status read_name_and_shape(uint64_t index, GgufTensor& tensor) {
    if (!reader_.read_string(tensor.name)) {
      return ends_inside(fmt::format("the name of tensor {}", index));
    }
    if (tensor.name.empty() || tensor.name.size() > kMaxTensorNameBytes ||
        !is_printable_ascii(tensor.name)) {
      return corrupt("tensor {} has a bad name: {} ({} bytes)", index, quote_name(tensor.name),
                     tensor.name.size());
    }
    uint32_t axes = 0;
    if (!reader_.read(axes)) {
      return ends_inside(fmt::format("the description of tensor {}", quote_name(tensor.name)));
    }
    if (axes == 0 || axes > kMaxAxes) {
      return corrupt("tensor {} has {} axes; 1 to {} are allowed", quote_name(tensor.name), axes,
                     kMaxAxes);
    }
    tensor.shape.resize(axes);
    for (uint32_t axis = 0; axis < axes; ++axis) {
      int64_t extent = 0;
      if (!reader_.read(extent)) {
        return ends_inside(fmt::format("the description of tensor {}", quote_name(tensor.name)));
      }
      if (extent <= 0) {
        return corrupt("tensor {} has the extent {} on axis {}", quote_name(tensor.name),
                       static_cast<uint64_t>(extent), axis);
      }
      tensor.shape[axes - 1 - axis] = extent;
    }
    return {};
  }

  Status place_tensors() {
    ASHLAR_TRY(refuse_duplicate_tensors());
    const auto alignment = static_cast<int64_t>(file_.alignment_);
    const auto file_bytes = static_cast<int64_t>(bytes_.size());
    const int64_t data_start = round_up(static_cast<int64_t>(reader_.position()), alignment);
    file_.data_start_ = static_cast<size_t>(data_start);
    // Relative to data_start; data_start + next never exceeds the file's padded size.
    int64_t next = 0;
    for (size_t i = 0; i < file_.tensors_.size(); ++i) {
      GgufTensor& tensor = file_.tensors_[i];
      const std::optional<int64_t> bytes = tensor_bytes(tensor.type, tensor.shape);
      if (!bytes) {
        return corrupt("tensor {} of shape [{}] has no valid size as {} (blocks of {})",
                       quote_name(tensor.name), fmt::join(tensor.shape, " "),
                       storage_name(tensor.type), storage_info(tensor.type).block_elements);
      }
      if (offsets_[i] != static_cast<uint64_t>(next)) {
        return corrupt("tensor {} is at offset {} where {} was expected (a gap or an overlap)",
                       quote_name(tensor.name), offsets_[i], next);
      }
      if (data_start + next > file_bytes || *bytes > file_bytes - data_start - next) {
        return corrupt("tensor {} of {} bytes at {} ends past the end of the file ({} bytes)",
                       quote_name(tensor.name), *bytes, data_start + next, file_bytes);
      }
      tensor.bytes =
          bytes_.subspan(static_cast<size_t>(data_start + next), static_cast<size_t>(*bytes));
      next = round_up(next + *bytes, alignment);
    }
    return {};
  }

  Status refuse_duplicate_tensors() const {
    std::vector<std::string_view> names;
    names.reserve(file_.tensors_.size());
    for (const GgufTensor& tensor : file_.tensors_) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) return corrupt("tensor {} occurs twice", quote_name(*twice));
    return {};
  }

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  GgufFile file_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t array_strings_ = 0;
  std::vector<uint64_t> offsets_;
};

Result<GgufFile> GgufFile::open(const std::string& path) {
  ASHLAR_ASSIGN(auto mapping, MappedFile::open(path));
  ASHLAR_ASSIGN(GgufFile file, parse(mapping->bytes(), path));
  file.mapping_ = std::move(mapping);
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  return GgufParser(bytes, std::move(name)).parse();
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto at = std::lower_bound(
      sorted_.begin(), sorted_.end(), key,
      [this](uint32_t index, std::string_view wanted) { return entries_[index].key < wanted; });
  if (at == sorted_.end() || entries_[*at].key != key) return nullptr;
  return &entries_[*at].value;
}

void GgufFile::give_back() const {
  if (mapping_ != nullptr) give_back_pages(mapping_->bytes());
}

}  // namespace ashlar
