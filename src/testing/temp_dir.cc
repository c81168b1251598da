// Temporary folders under the system's own, made with mkdtemp so that parallel tests never share
// one. Failures end the test program: a test cannot say anything useful without its files.
#include "testing/temp_dir.h"

#include <stdlib.h>

#include <fstream>

#include "base/check.h"

namespace ashlar {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_test_XXXXXX").string();
  CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::write(std::string_view name, std::span<const std::byte> bytes) const {
  return write(name, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string TempDir::write(std::string_view name, std::string_view text) const {
  const std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  CHECK(out.good());
  return file.string();
}

}  // namespace ashlar
