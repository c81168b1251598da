// CHECK: what must hold unless we made a mistake. A failed check prints file, line and the
// condition and ends the process; it is on in every build. Never for user input, files or devices:
// those return a Result (base/error.h).
#ifndef ASHLAR_BASE_CHECK_H_
#define ASHLAR_BASE_CHECK_H_

#include <fmt/format.h>

#include <string>

namespace ashlar {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& detail);

}  // namespace ashlar

#define CHECK(condition)                                          \
  do {                                                            \
    if (!(condition)) [[unlikely]] {                              \
      ::ashlar::check_failed(__FILE__, __LINE__, #condition, {}); \
    }                                                             \
  } while (false)

#define ASHLAR_CHECK_COMPARE(op, a, b)                                \
  do {                                                                \
    if (!((a)op(b))) [[unlikely]] {                                   \
      ::ashlar::check_failed(__FILE__, __LINE__, #a " " #op " " #b,   \
                             fmt::format("{} against {}", (a), (b))); \
    }                                                                 \
  } while (false)

#define CHECK_EQ(a, b) ASHLAR_CHECK_COMPARE(==, a, b)
#define CHECK_NE(a, b) ASHLAR_CHECK_COMPARE(!=, a, b)
#define CHECK_LT(a, b) ASHLAR_CHECK_COMPARE(<, a, b)
#define CHECK_LE(a, b) ASHLAR_CHECK_COMPARE(<=, a, b)
#define CHECK_GT(a, b) ASHLAR_CHECK_COMPARE(>, a, b)
#define CHECK_GE(a, b) ASHLAR_CHECK_COMPARE(>=, a, b)

#endif  // ASHLAR_BASE_CHECK_H_
