// LoadLine: the line on stderr that tells how far loading is: "loading 3.2 of 16.4 GB, 12.6 GB/s".
#ifndef ASHLAR_APPS_LOAD_LINE_H_
#define ASHLAR_APPS_LOAD_LINE_H_

#include <string>

#include "checkpoint/load_wish.h"

namespace ashlar {

// Rewritten in place on a terminal. Elsewhere only the end is told, and only if `always`. Neither
// keeps a load from going on.
LoadObserver load_line(bool always);

std::string load_text(const LoadProgress& progress);

}  // namespace ashlar

#endif  // ASHLAR_APPS_LOAD_LINE_H_
