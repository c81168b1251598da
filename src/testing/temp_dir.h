// A folder that exists for one test, and a way to put files into it.
// It is removed with all it holds when the object goes; a failure to remove it is not an error of
// the test.
#ifndef ASHLAR_TESTING_TEMP_DIR_H_
#define ASHLAR_TESTING_TEMP_DIR_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace ashlar {

class TempDir {
 public:
  TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::filesystem::path& path() const { return path_; }
  // Writes a file (and the folders on its way) and returns its full path.
  std::string write(std::string_view name, std::span<const std::byte> bytes) const;
  std::string write(std::string_view name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_TEMP_DIR_H_
