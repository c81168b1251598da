// Ids.
#include "serve/serve_context.h"

#include <random>

namespace ashlar {

std::string ServeContext::new_id(std::string_view prefix) {
  static const uint64_t start = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  return fmt::format("{}{:016x}{:08x}", prefix, start, next_id_.fetch_add(1));
}

}  // namespace ashlar
