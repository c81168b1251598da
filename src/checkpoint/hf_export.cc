// Every file is written as NAME.partial, forced to the disk, and renamed at the very end; a failure
// before that removes what was written. One tensor at a time is in memory if it is a generated one.
#include "checkpoint/hf_export.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kPartial = ".partial";
constexpr size_t kWriteAtOnce = size_t{64} << 20;
constexpr size_t kHeaderAlignment = 8;
// Beside config.json and the weights; what a checkpoint does not have is left out.
constexpr const char* kTexts[] = {
    "tokenizer.json",          "tokenizer_config.json", "chat_template.jinja", "tokenizer.model",
    "special_tokens_map.json", "added_tokens.json",     "vocab.json",          "merges.txt",
};

// The folder being filled. Unless finish() succeeds, the destructor removes what was written.
class Output {
 public:
  explicit Output(const fs::path& folder)
      : folder_(folder.has_filename() ? folder : folder.parent_path()) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  Status prepare();
  // begin, any number of write, end.
  Status begin(const std::string& name);
  Status write(std::span<const std::byte> bytes);
  Status end();
  Status write_text(const std::string& name, std::string_view text);
  Result<std::vector<ExportedFile>> finish();

 private:
  Status make_folders();
  fs::path partial(const std::string& name) const {
    return folder_ / (name + std::string(kPartial));
  }
  tl::unexpected<Error> system_failure(const char* verb, const fs::path& path, int error) const {
    return fail(ErrorCode::kIo, "cannot {} {}: {}", verb, path.string(),
                std::generic_category().message(error));
  }

  fs::path folder_;
  std::vector<fs::path> created_;  // folders made here, outermost first
  int fd_ = -1;
  std::vector<ExportedFile> files_;
};

Output::~Output() {
  if (fd_ >= 0) ::close(fd_);
  std::error_code ignored;
  for (const ExportedFile& file : files_) fs::remove(partial(file.name), ignored);
  // One that somebody else has filled meanwhile stays.
  for (auto folder = created_.rbegin(); folder != created_.rend(); ++folder) {
    fs::remove(*folder, ignored);
  }
}

Status Output::prepare() {
  std::error_code error;
  if (!fs::exists(folder_, error) && !error) {
    return make_folders();
  } else if (!error) {
    if (!fs::is_directory(folder_, error) && !error) {
      return fail(ErrorCode::kInvalidArgument, "{} is there and is no folder", folder_.string());
    }
    if (!error && !fs::is_empty(folder_, error) && !error) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} is not empty; name a folder that is new or empty", folder_.string());
    }
  }
  if (error) return system_failure("look into", folder_, error.value());
  return {};
}

Status Output::make_folders() {
  fs::path made;
  for (const fs::path& part : folder_) {
    made /= part;
    std::error_code error;
    if (fs::create_directory(made, error)) created_.push_back(made);
    if (error) return system_failure("make the folder", made, error.value());
  }
  return {};
}

Status Output::begin(const std::string& name) {
  files_.push_back({name, 0});
  fd_ = ::open(partial(name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) return system_failure("create", partial(name), errno);
  return {};
}

Status Output::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), std::min(bytes.size(), kWriteAtOnce));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_failure("write", folder_ / files_.back().name, errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
    files_.back().bytes += count;
  }
  return {};
}

Status Output::end() {
  const int fd = std::exchange(fd_, -1);
  const int error = ::fsync(fd) != 0 ? errno : 0;
  const int close_error = ::close(fd) != 0 ? errno : 0;
  if (error == 0 && close_error == 0) return {};
  return system_failure("write", folder_ / files_.back().name, error != 0 ? error : close_error);
}

Status Output::write_text(const std::string& name, std::string_view text) {
  ASHLAR_TRY(begin(name));
  ASHLAR_TRY(write(std::as_bytes(std::span(text))));
  return end();
}

Result<std::vector<ExportedFile>> Output::finish() {
  for (auto file = files_.begin(); file != files_.end(); ++file) {
    std::error_code error;
    fs::rename(partial(file->name), folder_ / file->name, error);
    if (!error) continue;
    std::error_code ignored;
    for (auto done = files_.begin(); done != file; ++done) {
      fs::remove(folder_ / done->name, ignored);
    }
    return system_failure("rename", partial(file->name), error.value());
  }
  created_.clear();
  return std::exchange(files_, {});
}

using Shard = std::vector<const StoredTensor*>;

std::vector<Shard> cut_shards(const Checkpoint& checkpoint, int64_t shard_bytes) {
  std::vector<Shard> shards(1);
  int64_t filled = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    const auto bytes = static_cast<int64_t>(tensor.bytes);
    if (!shards.back().empty() && filled + bytes > shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(&tensor);
    filled += bytes;
  }
  return shards;
}

std::string shard_header(const Shard& shard) {
  json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t begin = 0;
  for (const StoredTensor* tensor : shard) {
    header[tensor->name] = {{"dtype", storage_info(tensor->type).safetensors_name},
                            {"shape", tensor->shape},
                            {"data_offsets", {begin, begin + tensor->bytes}}};
    begin += tensor->bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

Status write_shard(Output& output, const std::string& name, const Shard& shard) {
  const std::string header = shard_header(shard);
  const uint64_t size = header.size();  // little-endian in the file, as on every machine we run on
  ASHLAR_TRY(output.begin(name));
  ASHLAR_TRY(output.write(std::as_bytes(std::span(&size, 1))));
  ASHLAR_TRY(output.write(std::as_bytes(std::span(header))));
  for (const StoredTensor* tensor : shard) {
    const Status written = output.write({tensor->data(), tensor->bytes});
    tensor->give_back();
    ASHLAR_TRY(written);
  }
  return output.end();
}

Status write_weights(Output& output, const Checkpoint& checkpoint, const ExportOptions& options) {
  const std::vector<Shard> shards = cut_shards(checkpoint, options.shard_bytes);
  if (shards.size() == 1) return write_shard(output, "model.safetensors", shards.front());
  json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", json::object()}};
  size_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    ASHLAR_TRY(write_shard(output, name, shards[i]));
    for (const StoredTensor* tensor : shards[i]) {
      index["weight_map"][tensor->name] = name;
      total += tensor->bytes;
    }
  }
  index["metadata"]["total_size"] = total;
  return output.write_text("model.safetensors.index.json", index.dump(2) + "\n");
}

// A disk that is too small is better refused before the first of many gigabytes.
Status check_space(const Checkpoint& checkpoint, const fs::path& folder) {
  uintmax_t needed = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) needed += tensor.bytes;
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available >= needed) return {};
  return fail(ErrorCode::kResourceExhausted, "{} has {} bytes free; the weights need {}",
              folder.string(), space.available, needed);
}

}  // namespace

Result<std::vector<ExportedFile>> export_hf_folder(const Checkpoint& checkpoint,
                                                   const std::string& folder,
                                                   const ExportOptions& options) {
  if (checkpoint.gguf() != nullptr) {
    return fail(ErrorCode::kUnsupported,
                "{}: a GGUF file cannot be written as a Hugging Face folder; export takes "
                "synthetic models and such folders",
                checkpoint.path());
  }
  Output output(folder);
  ASHLAR_TRY(output.prepare());
  ASHLAR_TRY(check_space(checkpoint, folder));
  ASHLAR_TRY(output.write_text("config.json", checkpoint.config().dump(2) + "\n"));
  if (const json* generation = checkpoint.generation_config()) {
    ASHLAR_TRY(output.write_text("generation_config.json", generation->dump(2) + "\n"));
  }
  for (const char* name : kTexts) {
    ASHLAR_ASSIGN(const auto text, checkpoint.optional_text(name));
    if (text) ASHLAR_TRY(output.write_text(name, *text));
  }
  ASHLAR_TRY(write_weights(output, checkpoint, options));
  return output.finish();
}

}  // namespace ashlar
