// How the elements of a tensor are stored in a file: plain numbers or GGML blocks, with the size of
// each.
//
// One table answers every size question of the checkpoint readers, the format recognisers and
// `inspect`. Types that a file may name but that are not listed here are refused when the file is
// opened. Decoding is not done here: see formats/.
#ifndef ASHLAR_CHECKPOINT_STORAGE_TYPE_H_
#define ASHLAR_CHECKPOINT_STORAGE_TYPE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ashlar {

enum class StorageType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kMXFP4,
};

// A block is the smallest run of elements along the last axis that has a byte size of its own;
// plain numbers are blocks of one element. Blocks are packed without padding, so a block of 210
// bytes is not aligned in memory.
struct StorageInfo {
  StorageType type;
  std::string_view name;              // "Q4_K", "BF16": used in messages and by `inspect`
  std::string_view safetensors_name;  // empty: safetensors has no such dtype
  int ggml_id;                        // -1: GGUF has no such type
  int block_elements;
  int block_bytes;
};

std::span<const StorageInfo> storage_types();
const StorageInfo& storage_info(StorageType type);
inline std::string_view storage_name(StorageType type) { return storage_info(type).name; }
inline bool is_blocked(StorageType type) { return storage_info(type).block_elements > 1; }

const StorageInfo* find_storage_by_ggml_id(uint32_t id);
const StorageInfo* find_storage_by_safetensors_name(std::string_view name);

// The name that GGML gives to a type id, also for types that are refused here: "IQ4_XS". Empty if
// unknown.
std::string_view ggml_type_name(uint32_t id);

// Bytes of one row of `columns` elements; nothing if columns is no whole number of blocks or does
// not fit.
std::optional<int64_t> row_bytes(StorageType type, int64_t columns);

// Bytes of a whole tensor; nothing if an extent is negative, the last one is no whole number of
// blocks, or a product does not fit in 63 bits. An empty shape is one element.
std::optional<int64_t> tensor_bytes(StorageType type, std::span<const int64_t> shape);

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_STORAGE_TYPE_H_
