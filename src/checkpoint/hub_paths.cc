// Resolution of model arguments. Names that come from the user or from refs/main become parts of
// paths, so they are restricted to plain characters: nothing read from the cache can lead outside
// it by "..", though the cache's own symbolic links are followed.
#include "checkpoint/hub_paths.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "checkpoint/mapped_file.h"
#include "checkpoint/quote.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRefBytes = 256;

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool is_hub_id(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_plain_name(text.substr(0, slash)) &&
         is_plain_name(text.substr(slash + 1));
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

Result<std::string> only_snapshot(const fs::path& repository) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(repository / "snapshots", error), end; !error && it != end;
       it.increment(error)) {
    if (is_folder(it->path())) found.push_back(it->path().string());
  }
  if (found.size() == 1) return found.front();
  return fail(ErrorCode::kNotFound,
              "{} has no refs/main and {} snapshots; give the path of the snapshot to use",
              repository.string(), found.size());
}

Result<std::string> snapshot_folder(const fs::path& repository) {
  const fs::path ref = repository / "refs" / "main";
  const Result<std::string> text = read_text_file(ref.string(), kMaxRefBytes);
  if (!text) {
    if (text.error().code == ErrorCode::kNotFound) return only_snapshot(repository);
    return tl::unexpected<Error>(text.error());
  }
  std::string_view commit = *text;
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) {
    commit.remove_suffix(1);
  }
  if (!is_plain_name(commit)) {
    return fail(ErrorCode::kCorrupt, "{} names no commit but {}", ref.string(), quote_name(commit));
  }
  const fs::path snapshot = repository / "snapshots" / commit;
  if (!is_folder(snapshot)) {
    return fail(ErrorCode::kNotFound, "{} is missing, although {} names it", snapshot.string(),
                ref.string());
  }
  return snapshot.string();
}

}  // namespace

std::string hub_cache_folder(const HubPaths& hub) {
  if (!hub.hf_hub_cache.empty()) return hub.hf_hub_cache;
  if (!hub.hf_home.empty()) return (fs::path(hub.hf_home) / "hub").string();
  fs::path cache;
  if (!hub.xdg_cache_home.empty()) {
    cache = hub.xdg_cache_home;
  } else if (!hub.home.empty()) {
    cache = fs::path(hub.home) / ".cache";
  } else {
    return {};
  }
  return (cache / "huggingface" / "hub").string();
}

Result<std::string> resolve_model_path(const std::string& model_argument, const HubPaths& hub) {
  if (model_argument.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "no model given: name a folder, a .gguf file or a hub id such as org/name");
  }
  std::error_code error;
  if (fs::exists(model_argument, error)) return model_argument;
  // Something is there or may be, but the system does not let us look.
  if (error == std::errc::permission_denied) {
    return fail(ErrorCode::kIo, "cannot open {}: {}", model_argument, error.message());
  }
  if (!is_hub_id(model_argument)) {
    return fail(ErrorCode::kNotFound, "model {}: no such file or folder",
                quote_name(model_argument));
  }
  const std::string cache = hub_cache_folder(hub);
  if (cache.empty()) {
    return fail(ErrorCode::kNotFound,
                "model {}: no such file or folder, and neither HF_HUB_CACHE, HF_HOME nor HOME says "
                "where the hub cache is",
                quote_name(model_argument));
  }
  const size_t slash = model_argument.find('/');
  const fs::path repository =
      fs::path(cache) / fmt::format("models--{}--{}", model_argument.substr(0, slash),
                                    model_argument.substr(slash + 1));
  if (!is_folder(repository)) {
    return fail(ErrorCode::kNotFound,
                "model {}: no such file or folder, and not in the hub cache (looked for {})",
                quote_name(model_argument), repository.string());
  }
  return snapshot_folder(repository);
}

}  // namespace ashlar
