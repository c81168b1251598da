// Mapping and reading of files with POSIX calls.
// Every failure carries the path and the text of errno.
#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace ashlar {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> system_failure(const char* verb, const std::string& path, int error) {
  const ErrorCode code =
      error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return fail(code, "cannot {} {}: {}", verb, path, std::generic_category().message(error));
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return system_failure("open", path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return system_failure("read the size of", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, "{} is not a regular file", path);
  }
  const auto size = static_cast<size_t>(status.st_size);
  const std::byte* data = nullptr;
  if (size > 0) {
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (address == MAP_FAILED) return system_failure("map", path, errno);
    data = static_cast<const std::byte*>(address);
  }
  const FileIdentity identity = {static_cast<uint64_t>(status.st_dev),
                                 static_cast<uint64_t>(status.st_ino)};
  return std::shared_ptr<const MappedFile>(new MappedFile(path, identity, data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void give_back_pages(std::span<const std::byte> mapped) {
  if (mapped.empty()) return;
  // Rounded outwards: a page that is needed again comes back from the file.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(mapped.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(mapped.data() + mapped.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::string> read_text_file(const std::string& path, size_t max_bytes) {
  ASHLAR_ASSIGN(const auto file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() > max_bytes) {
    return fail(ErrorCode::kOutOfRange, "{} has {} bytes; at most {} are read", path, bytes.size(),
                max_bytes);
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace ashlar
