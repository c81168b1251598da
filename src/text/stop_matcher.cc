// Searches the held text plus the new one; both are short, so a search per stop string is enough.
#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace ashlar {

Result<StopMatcher> StopMatcher::create(std::vector<std::string> stops) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) return fail(ErrorCode::kInvalidArgument, "stop string {} is empty", i);
    if (!is_valid_utf8(stops[i])) {
      return fail(ErrorCode::kInvalidArgument, "stop string {} is not valid UTF-8", i);
    }
  }
  return StopMatcher(std::move(stops));
}

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped()) return {};
  held_ += text;
  size_t start = std::string::npos;
  size_t end = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const size_t at = held_.find(stops_[i]);
    if (at == std::string::npos) continue;
    const size_t this_end = at + stops_[i].size();
    if (this_end < end || (this_end == end && at < start)) {
      start = at;
      end = this_end;
      stopped_ = i;
    }
  }
  std::string out = std::move(held_);
  held_.clear();
  if (stopped()) {
    out.resize(start);
    return out;
  }
  held_ = out;
  const size_t kept = held_size();
  held_.erase(0, out.size() - kept);
  out.resize(out.size() - kept);
  return out;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

// The longest end of the held text that starts some stop string.
size_t StopMatcher::held_size() const {
  const std::string_view held = held_;
  for (size_t size = std::min(held.size(), longest_ - (longest_ > 0)); size > 0; --size) {
    const std::string_view tail = held.substr(held.size() - size);
    auto starts = [tail](const std::string& stop) {
      return stop.size() > tail.size() && std::string_view(stop).starts_with(tail);
    };
    if (std::ranges::any_of(stops_, starts)) return size;
  }
  return 0;
}

}  // namespace ashlar
