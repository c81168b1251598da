// A Hugging Face folder as checkpoint contents: configuration files, and one safetensors file or an
// index of shards. The index must agree with the shards in both directions: no tensor missing, none
// unlisted, none elsewhere.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "checkpoint/contents.h"
#include "checkpoint/json_text.h"
#include "checkpoint/quote.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxConfigBytes = 16 << 20;
constexpr size_t kMaxIndexBytes = 100'000'000;
constexpr size_t kMaxShards = 10'000;
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Result<json> read_json_object(const std::string& path, size_t max_bytes) {
  ASHLAR_ASSIGN(const std::string text, read_text_file(path, max_bytes));
  return parse_json_object(text, path);
}

void add_tensors(CheckpointContents& contents, const SafetensorsFile& shard) {
  for (const SafetensorsTensor& tensor : shard.tensors()) {
    contents.tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes.data(),
                                tensor.bytes.size(), shard.name(), nullptr, false,
                                shard.mapping()});
  }
}

using WeightMap = std::map<std::string, std::string>;  // tensor → file name

Result<WeightMap> read_index(const std::string& path) {
  ASHLAR_ASSIGN(const json index, read_json_object(path, kMaxIndexBytes));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    return fail(ErrorCode::kCorrupt, "{}: weight_map is missing or no object", path);
  }
  WeightMap out;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (!name.ends_with(".safetensors") || name.find('/') != std::string::npos ||
        name.front() == '.' || !is_printable_ascii(name)) {
      return fail(ErrorCode::kCorrupt, "{}: tensor {} has no plain .safetensors file name", path,
                  quote_name(tensor));
    }
    out.emplace(tensor, name);
  }
  return out;
}

Status read_shards(const fs::path& folder, CheckpointContents& contents) {
  const std::string index_path = (folder / kIndexFile).string();
  ASHLAR_ASSIGN(const WeightMap weight_map, read_index(index_path));
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map) files.insert(file);
  if (files.size() > kMaxShards) {
    return fail(ErrorCode::kCorrupt, "{}: {} files; at most {} are read", index_path, files.size(),
                kMaxShards);
  }
  for (const std::string& file : files) {
    ASHLAR_ASSIGN(SafetensorsFile shard, SafetensorsFile::open((folder / file).string()));
    for (const SafetensorsTensor& tensor : shard.tensors()) {
      const auto listed = weight_map.find(tensor.name);
      if (listed == weight_map.end() || listed->second != file) {
        return fail(ErrorCode::kCorrupt, "{}: tensor {} is in {} but the index places it {}",
                    index_path, quote_name(tensor.name), file,
                    listed == weight_map.end() ? "nowhere" : "in " + listed->second);
      }
    }
    add_tensors(contents, shard);
    contents.shards.push_back(std::move(shard));
  }
  // Every tensor found is listed at its file, so equal counts mean that none is missing.
  if (contents.tensors.size() == weight_map.size()) return {};
  std::set<std::string_view> found;
  for (const StoredTensor& tensor : contents.tensors) found.insert(tensor.name);
  for (const auto& [tensor, file] : weight_map) {
    if (!found.contains(tensor)) {
      return fail(ErrorCode::kCorrupt, "{}: tensor {} is not in {}", index_path, quote_name(tensor),
                  file);
    }
  }
  return {};
}

}  // namespace

bool is_hf_folder(const std::string& folder) {
  return path_exists(fs::path(folder) / kSingleFile) || path_exists(fs::path(folder) / kIndexFile);
}

Result<CheckpointContents> read_hf_folder(const std::string& folder) {
  const fs::path root(folder);
  CheckpointContents contents;
  contents.path = folder;
  contents.container = "safetensors";
  contents.folder = folder;
  contents.config_name = (root / "config.json").string();
  ASHLAR_ASSIGN(contents.config, read_json_object(contents.config_name, kMaxConfigBytes));
  const fs::path generation = root / "generation_config.json";
  if (path_exists(generation)) {
    ASHLAR_ASSIGN(contents.generation_config,
                  read_json_object(generation.string(), kMaxConfigBytes));
  }
  if (path_exists(root / kSingleFile)) {
    ASHLAR_ASSIGN(SafetensorsFile file, SafetensorsFile::open((root / kSingleFile).string()));
    add_tensors(contents, file);
    contents.shards.push_back(std::move(file));
  } else {
    ASHLAR_TRY(read_shards(root, contents));
  }
  return contents;
}

}  // namespace ashlar
