// A safetensors file. Every tensor's bytes are read, so a place outside the file shows.
#include "checkpoint/safetensors.h"

#include "fuzz/targets.h"

namespace ashlar {

void fuzz_safetensors(std::string_view input) {
  const auto file = SafetensorsFile::parse(fuzz_bytes(input), "fuzz.safetensors");
  fuzz_check_foreseen(file);
  if (!file) return;
  unsigned sum = 0;
  for (const SafetensorsTensor& tensor : file->tensors()) {
    for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
  }
  volatile unsigned kept = sum;
  (void)kept;
}

}  // namespace ashlar
