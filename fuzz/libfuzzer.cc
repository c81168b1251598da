// The entry that libFuzzer calls. Compiled once a target; the build names the function.
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ashlar::ASHLAR_FUZZ_FUNCTION({reinterpret_cast<const char*>(data), size});
  return 0;
}
