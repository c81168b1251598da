// Model arguments: existing paths, the hub cache's layout, and what a damaged cache gives.
#include "checkpoint/hub_paths.h"

#include <gtest/gtest.h>

#include "testing/temp_dir.h"

namespace ashlar {
namespace {

HubPaths cache_in(const TempDir& dir) {
  HubPaths hub;
  hub.hf_hub_cache = dir.path().string();
  return hub;
}

TEST(HubPaths, CacheFolderPrecedence) {
  HubPaths hub;
  EXPECT_EQ(hub_cache_folder(hub), "");
  hub.home = "/home/u";
  EXPECT_EQ(hub_cache_folder(hub), "/home/u/.cache/huggingface/hub");
  hub.xdg_cache_home = "/x";
  EXPECT_EQ(hub_cache_folder(hub), "/x/huggingface/hub");
  hub.hf_home = "/hf";
  EXPECT_EQ(hub_cache_folder(hub), "/hf/hub");
  hub.hf_hub_cache = "/cache";
  EXPECT_EQ(hub_cache_folder(hub), "/cache");
}

TEST(HubPaths, AnExistingPathWins) {
  const TempDir dir;
  EXPECT_EQ(resolve_model_path(dir.path().string(), {}).value(), dir.path().string());
}

TEST(HubPaths, FindsTheSnapshotOfMain) {
  const TempDir dir;
  dir.write("models--org--name/refs/main", "abc123\n");
  dir.write("models--org--name/snapshots/abc123/config.json", "{}");
  dir.write("models--org--name/snapshots/older/config.json", "{}");
  EXPECT_EQ(resolve_model_path("org/name", cache_in(dir)).value(),
            (dir.path() / "models--org--name/snapshots/abc123").string());
}

TEST(HubPaths, WithoutMainTheOnlySnapshot) {
  const TempDir dir;
  dir.write("models--org--name/snapshots/one/config.json", "{}");
  EXPECT_EQ(resolve_model_path("org/name", cache_in(dir)).value(),
            (dir.path() / "models--org--name/snapshots/one").string());
  dir.write("models--org--name/snapshots/two/config.json", "{}");
  const auto ambiguous = resolve_model_path("org/name", cache_in(dir));
  EXPECT_NE(ambiguous.error().message.find("2 snapshots"), std::string::npos);
}

TEST(HubPaths, MissingModels) {
  const TempDir dir;
  const auto hub = resolve_model_path("org/name", cache_in(dir));
  EXPECT_EQ(hub.error().code, ErrorCode::kNotFound);
  EXPECT_NE(hub.error().message.find("models--org--name"), std::string::npos);
  for (const char* argument : {"no-such", "/no/such", "a/b/c", "../x", "org/..", "/x", "org/"}) {
    const auto path = resolve_model_path(argument, cache_in(dir));
    ASSERT_FALSE(path.has_value()) << argument;
    EXPECT_EQ(path.error().code, ErrorCode::kNotFound);
  }
  EXPECT_EQ(resolve_model_path("", {}).error().code, ErrorCode::kInvalidArgument);
}

TEST(HubPaths, ADamagedRefDoesNotLeaveTheCache) {
  const TempDir dir;
  dir.write("models--org--name/snapshots/x/config.json", "{}");
  for (const char* ref : {"../../..", "", "/etc", "a/b", ".."}) {
    dir.write("models--org--name/refs/main", ref);
    EXPECT_EQ(resolve_model_path("org/name", cache_in(dir)).error().code, ErrorCode::kCorrupt);
  }
  dir.write("models--org--name/refs/main", std::string(300, 'a'));
  EXPECT_FALSE(resolve_model_path("org/name", cache_in(dir)).has_value());
  dir.write("models--org--name/refs/main", "gone");
  EXPECT_EQ(resolve_model_path("org/name", cache_in(dir)).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ashlar
