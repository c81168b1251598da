// How much memory this process may use: the machine's, or what control groups leave of it.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "engine/memory_plan.h"

namespace ashlar {

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A number of bytes on a line of its own; "max" and whatever else is no number are no limit.
std::optional<int64_t> limit_in(const std::string& path) {
  const std::string text = text_of(path);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size() || *end == '\n';
  if (error != std::errc() || !whole || value <= 0) return std::nullopt;
  return value;
}

// The least of the limits of a group and of those above it. Inside a container the path may be that
// on the host and lead nowhere; then the limit stands at the root.
void take_least(const std::string& root, std::string_view path, std::string_view file,
                std::optional<int64_t>& least) {
  for (std::string_view group = path;; group = group.substr(0, group.rfind('/'))) {
    const auto limit = limit_in(fmt::format("{}{}/{}", root, group, file));
    if (limit && (!least || *limit < *least)) least = limit;
    if (group.empty() || group.rfind('/') == std::string_view::npos) return;
  }
}

}  // namespace

std::optional<int64_t> container_memory_bytes(const std::string& root, std::string_view groups) {
  std::optional<int64_t> least;
  while (!groups.empty()) {
    // "0::/path" of version 2, "4:memory,hugetlb:/path" of version 1.
    const std::string_view line = groups.substr(0, groups.find('\n'));
    groups.remove_prefix(std::min(groups.size(), line.size() + 1));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (path.find("..") != std::string_view::npos) continue;  // outside of what this process sees
    if (controllers.empty()) {
      take_least(root, path, "memory.max", least);
    } else if (fmt::format(",{},", controllers).find(",memory,") != std::string::npos) {
      take_least(root + "/memory", path, "memory.limit_in_bytes", least);
    }
  }
  return least;
}

int64_t machine_memory_bytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  const int64_t machine = pages > 0 && page_bytes > 0 ? pages * page_bytes : int64_t{3} << 30;
  const auto container = container_memory_bytes("/sys/fs/cgroup", text_of("/proc/self/cgroup"));
  return container ? std::min(machine, *container) : machine;
}

}  // namespace ashlar
