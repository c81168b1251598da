// Checks of a safetensors file beyond its JSON: the header's length, and that the tensors tile the
// data part exactly. All comparisons are written as differences of non-negative numbers, so that
// none can wrap.
#include "checkpoint/safetensors.h"

#include <algorithm>

#include "checkpoint/byte_reader.h"
#include "checkpoint/quote.h"
#include "checkpoint/safetensors_header.h"

namespace ashlar {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;

Status check_order(std::vector<SafetensorsEntry>& entries, int64_t data_bytes) {
  // Empty tensors share their begin with the tensor after them, so the end is part of the order.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return a.data_offsets < b.data_offsets;
                   });
  int64_t next = 0;
  for (const SafetensorsEntry& entry : entries) {
    const int64_t begin = entry.data_offsets[0];
    const int64_t end = entry.data_offsets[1];
    if (begin > end || end > data_bytes) {
      return fail(ErrorCode::kCorrupt, "tensor {} lies at [{}, {}) of {} data bytes",
                  quote_name(entry.name), begin, end, data_bytes);
    }
    if (begin != next) {
      return fail(ErrorCode::kCorrupt, "tensor {} begins at {} where {} was expected ({})",
                  quote_name(entry.name), begin, next, begin < next ? "an overlap" : "a gap");
    }
    next = end;
  }
  if (next != data_bytes) {
    return fail(ErrorCode::kCorrupt, "the tensors take {} bytes but the file holds {} data bytes",
                next, data_bytes);
  }
  return {};
}

Status refuse_duplicates(const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return fail(ErrorCode::kCorrupt, "tensor {} occurs twice", quote_name(*twice));
}

Result<SafetensorsTensor> make_tensor(SafetensorsEntry& entry, std::span<const std::byte> data) {
  const StorageInfo* info = find_storage_by_safetensors_name(entry.dtype);
  if (info == nullptr) {
    return fail(ErrorCode::kUnsupported, "tensor {} has dtype {}, which is not supported",
                quote_name(entry.name), quote_name(entry.dtype));
  }
  const int64_t stated = entry.data_offsets[1] - entry.data_offsets[0];
  const std::optional<int64_t> bytes = tensor_bytes(info->type, entry.shape);
  if (!bytes || *bytes != stated) {
    return fail(ErrorCode::kCorrupt, "tensor {} of shape [{}] as {} takes {} bytes, not {}",
                quote_name(entry.name), fmt::join(entry.shape, " "), info->name,
                bytes ? fmt::format("{}", *bytes) : "more than 2^63", stated);
  }
  SafetensorsTensor tensor;
  tensor.name = std::move(entry.name);
  tensor.type = info->type;
  tensor.shape = std::move(entry.shape);
  tensor.bytes =
      data.subspan(static_cast<size_t>(entry.data_offsets[0]), static_cast<size_t>(stated));
  return tensor;
}

struct Parts {
  std::string_view header;
  std::span<const std::byte> data;
};

Result<Parts> split_file(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  uint64_t header_bytes = 0;
  if (!reader.read(header_bytes)) {
    return fail(ErrorCode::kCorrupt, "the file has {} bytes: too short for a safetensors file",
                bytes.size());
  }
  if (header_bytes > kMaxHeaderBytes) {
    return fail(ErrorCode::kCorrupt, "the header claims {} bytes; at most {} are allowed",
                header_bytes, kMaxHeaderBytes);
  }
  std::span<const std::byte> header;
  if (!reader.take(header_bytes, header)) {
    return fail(ErrorCode::kCorrupt, "the header claims {} bytes; the file has {} in all",
                header_bytes, bytes.size());
  }
  return Parts{{reinterpret_cast<const char*>(header.data()), header.size()},
               bytes.subspan(reader.position())};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  ASHLAR_ASSIGN(auto mapping, MappedFile::open(path));
  ASHLAR_ASSIGN(SafetensorsFile file, parse(mapping->bytes(), path));
  file.mapping_ = std::move(mapping);
  return file;
}

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes, std::string name) {
  SafetensorsFile file;
  file.name_ = std::move(name);
  const auto read = [&]() -> Status {
    ASHLAR_ASSIGN(const Parts parts, split_file(bytes));
    ASHLAR_ASSIGN(SafetensorsHeader header, parse_safetensors_header(parts.header));
    ASHLAR_TRY(refuse_duplicates(header.entries));
    ASHLAR_TRY(check_order(header.entries, static_cast<int64_t>(parts.data.size())));
    file.tensors_.reserve(header.entries.size());
    for (SafetensorsEntry& entry : header.entries) {
      ASHLAR_ASSIGN(SafetensorsTensor tensor, make_tensor(entry, parts.data));
      file.tensors_.push_back(std::move(tensor));
    }
    file.metadata_ = std::move(header.metadata);
    return {};
  };
  if (const Status status = read(); !status) return fail_in(file.name_, status.error());
  return file;
}

}  // namespace ashlar
