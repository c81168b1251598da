// A whole file, mapped read-only. Weights are used where they lie: nothing is copied at open.
//
// The mapping is private and its size is fixed when it is made. A file that another process
// shortens afterwards ends this process with SIGBUS, as with any memory map; this class does not
// guard against that; see tensor_reader.h for reading that does.
#ifndef ASHLAR_CHECKPOINT_MAPPED_FILE_H_
#define ASHLAR_CHECKPOINT_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace ashlar {

// Which file of the system it is, whatever its name.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
};

class MappedFile {
 public:
  // Errors: kNotFound or kIo with the path and the system's reason; kInvalidArgument for what is no
  // regular file. An empty file maps to an empty span.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const FileIdentity& identity() const { return identity_; }

 private:
  MappedFile(std::string path, FileIdentity identity, const std::byte* data, size_t size)
      : path_(std::move(path)), identity_(identity), data_(data), size_(size) {}

  std::string path_;
  FileIdentity identity_;
  const std::byte* data_;
  size_t size_;
};

// Tells the system that these bytes of mapped files, which stay readable, will hardly be read
// again: whole pages among them stop counting as memory of this process.
void give_back_pages(std::span<const std::byte> mapped);

// Text of a small file (configurations, templates). Errors as above, and kOutOfRange beyond
// max_bytes.
Result<std::string> read_text_file(const std::string& path, size_t max_bytes);

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_MAPPED_FILE_H_
