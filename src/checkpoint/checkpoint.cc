// Checkpoint over the contents that a reader made: lookup by name, claims, and the files beside the
// weights.
//
// Data pointers are guaranteed to be aligned to the size of plain numbers. GGUF files are aligned
// by format; an old safetensors file may not be, and then its odd tensors are copied once. The
// alternative, unaligned loads in every kernel, would make all files pay for those.
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/check.h"
#include "checkpoint/contents.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/quote.h"
#include "checkpoint/synthetic_spec.h"
#include "checkpoint/synthetic_tensor.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTextBytes = 256 << 20;  // the largest tokenizer.json in use has about 35 MB
constexpr size_t kMaxNamesInMessage = 8;

// The files of a folder whose name ends in .gguf, sorted.
Result<std::vector<std::string>> gguf_files(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".gguf") out.push_back(it->path().string());
  }
  if (error) return fail(ErrorCode::kIo, "cannot list {}: {}", folder, error.message());
  std::sort(out.begin(), out.end());
  return out;
}

Result<CheckpointContents> read_folder(const std::string& folder) {
  if (is_hf_folder(folder)) return read_hf_folder(folder);
  ASHLAR_ASSIGN(const std::vector<std::string> files, gguf_files(folder));
  if (files.size() == 1) return read_gguf_checkpoint(files.front());
  if (files.size() > 1) {
    return fail(ErrorCode::kInvalidArgument, "{} holds {} GGUF files; name one of them, such as {}",
                folder, files.size(), files.front());
  }
  std::error_code ignored;
  if (fs::exists(fs::path(folder) / "pytorch_model.bin", ignored)) {
    return fail(ErrorCode::kUnsupported,
                "{} holds pytorch_model.bin, a pickle, which is not supported; convert it to "
                "safetensors",
                folder);
  }
  return fail(ErrorCode::kNotFound,
              "{} holds no model: neither model.safetensors, model.safetensors.index.json nor a "
              ".gguf file",
              folder);
}

Result<CheckpointContents> read_contents(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return read_folder(path);
  if (path.ends_with(".safetensors")) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: name the folder that holds this file and its config.json", path);
  }
  return read_gguf_checkpoint(path);
}

}  // namespace

int64_t StoredTensor::elements() const {
  // The other extents of an empty tensor may be so large that their product does not fit.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t StoredTensor::columns() const { return shape.empty() ? 1 : shape.back(); }

int64_t StoredTensor::rows() const { return columns() == 0 ? 0 : elements() / columns(); }

size_t StoredTensor::row_bytes() const {
  return static_cast<size_t>(ashlar::row_bytes(type, columns()).value_or(0));
}

const std::byte* StoredTensor::data() const {
  return synthetic != nullptr ? synthetic->data() : mapped;
}

void StoredTensor::give_back() const {
  if (synthetic != nullptr) {
    synthetic->give_back();
  } else if (!copied) {
    give_back_pages({mapped, bytes});
  }
}

struct Checkpoint::Data {
  CheckpointContents contents;
  std::vector<uint32_t> sorted;  // indices of contents.tensors by name
  std::unique_ptr<std::atomic<bool>[]> claimed;
  std::vector<std::unique_ptr<std::byte[]>> aligned_copies;

  Status index() {
    const std::vector<StoredTensor>& tensors = contents.tensors;
    sorted.resize(tensors.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::sort(sorted.begin(), sorted.end(),
              [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
    for (size_t i = 1; i < sorted.size(); ++i) {
      const std::string& name = tensors[sorted[i]].name;
      if (tensors[sorted[i - 1]].name == name) {
        return fail(ErrorCode::kCorrupt, "{}: two tensors are named {}", contents.path,
                    quote_name(name));
      }
    }
    claimed = std::make_unique<std::atomic<bool>[]>(tensors.size());
    return {};
  }

  void align() {
    for (StoredTensor& tensor : contents.tensors) {
      if (tensor.synthetic != nullptr || is_blocked(tensor.type) || tensor.bytes == 0) continue;
      const auto unit = static_cast<uintptr_t>(storage_info(tensor.type).block_bytes);
      if (reinterpret_cast<uintptr_t>(tensor.mapped) % unit == 0) continue;
      auto copy = std::make_unique<std::byte[]>(tensor.bytes);
      std::memcpy(copy.get(), tensor.mapped, tensor.bytes);
      tensor.mapped = copy.get();
      tensor.copied = true;
      tensor.mapping = nullptr;
      aligned_copies.push_back(std::move(copy));
    }
  }

  // The position in `sorted` of the first name that is not less than the given one.
  size_t lower_bound(std::string_view name) const {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), name,
                                     [this](uint32_t index, std::string_view wanted) {
                                       return contents.tensors[index].name < wanted;
                                     });
    return static_cast<size_t>(at - sorted.begin());
  }
};

Checkpoint::Checkpoint(std::unique_ptr<Data> data) : data_(std::move(data)) {}
Checkpoint::~Checkpoint() = default;

Result<std::shared_ptr<Checkpoint>> Checkpoint::open(const std::string& model_argument,
                                                     const HubPaths& hub, TensorUse use) {
  auto data = std::make_unique<Data>();
  if (is_synthetic(model_argument)) {
    ASHLAR_ASSIGN(data->contents, read_synthetic_checkpoint(model_argument, use));
  } else {
    ASHLAR_ASSIGN(const std::string path, resolve_model_path(model_argument, hub));
    ASHLAR_ASSIGN(data->contents, read_contents(path));
  }
  ASHLAR_TRY(data->index());
  data->align();
  return std::shared_ptr<Checkpoint>(new Checkpoint(std::move(data)));
}

const std::string& Checkpoint::path() const { return data_->contents.path; }
const std::string& Checkpoint::container() const { return data_->contents.container; }
const std::vector<StoredTensor>& Checkpoint::tensors() const { return data_->contents.tensors; }
const nlohmann::json& Checkpoint::config() const { return data_->contents.config; }
const std::string& Checkpoint::config_name() const { return data_->contents.config_name; }

const nlohmann::json* Checkpoint::generation_config() const {
  const auto& config = data_->contents.generation_config;
  return config ? &*config : nullptr;
}

const GgufFile* Checkpoint::gguf() const {
  const auto& file = data_->contents.gguf;
  return file ? &*file : nullptr;
}

bool Checkpoint::qk_rows_interleaved() const { return data_->contents.qk_rows_interleaved; }

bool Checkpoint::norm_weights_include_one() const {
  return data_->contents.norm_weights_include_one;
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const size_t at = data_->lower_bound(name);
  if (at == data_->sorted.size()) return nullptr;
  const StoredTensor& tensor = tensors()[data_->sorted[at]];
  return tensor.name == name ? &tensor : nullptr;
}

const StoredTensor* Checkpoint::claim(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  if (tensor != nullptr) {
    const auto index = static_cast<size_t>(tensor - tensors().data());
    data_->claimed[index].store(true, std::memory_order_relaxed);
  }
  return tensor;
}

std::vector<const StoredTensor*> Checkpoint::unclaimed() const {
  std::vector<const StoredTensor*> out;
  for (size_t i = 0; i < tensors().size(); ++i) {
    if (!data_->claimed[i].load(std::memory_order_relaxed)) out.push_back(&tensors()[i]);
  }
  return out;
}

Status Checkpoint::refuse_unclaimed() const {
  const std::vector<const StoredTensor*> left = unclaimed();
  if (left.empty()) return {};
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(left.size(), kMaxNamesInMessage); ++i) {
    names.push_back(quote_name(left[i]->name));
  }
  return fail(ErrorCode::kUnsupported, "{}: {} tensors have no use in this model: {}{}", path(),
              left.size(), fmt::join(names, ", "), left.size() > names.size() ? ", …" : "");
}

Result<std::optional<std::string>> Checkpoint::optional_text(std::string_view file) const {
  CHECK(!file.empty() && file.find('/') == std::string_view::npos);
  if (data_->contents.generated_text) return data_->contents.generated_text(file);
  if (data_->contents.folder.empty()) return std::optional<std::string>();
  const fs::path path = fs::path(data_->contents.folder) / file;
  Result<std::string> text = read_text_file(path.string(), kMaxTextBytes);
  if (text) return std::optional<std::string>(std::move(*text));
  if (text.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  return tl::unexpected<Error>(std::move(text).error());
}

const StoredTensor* TensorGroup::find(std::string_view suffix) const {
  return checkpoint_->find(fmt::format("{}.{}", prefix_, suffix));
}

const StoredTensor* TensorGroup::claim(std::string_view suffix) const {
  return checkpoint_->claim(fmt::format("{}.{}", prefix_, suffix));
}

TensorGroup TensorGroup::group(std::string_view suffix) const {
  return {*checkpoint_, fmt::format("{}.{}", prefix_, suffix)};
}

std::vector<const StoredTensor*> TensorGroup::tensors() const {
  const Checkpoint::Data& data = *checkpoint_->data_;
  const std::string start = prefix_ + ".";
  std::vector<const StoredTensor*> out;
  for (size_t i = data.lower_bound(start); i < data.sorted.size(); ++i) {
    const StoredTensor& tensor = data.contents.tensors[data.sorted[i]];
    if (!tensor.name.starts_with(start)) break;
    out.push_back(&tensor);
  }
  return out;
}

}  // namespace ashlar
