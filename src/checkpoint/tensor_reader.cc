// Reading with POSIX calls. The file is opened anew, so it is asked whether it is still the one
// whose header was read: a checkpoint that is replaced while it loads would give rows of two.
#include "checkpoint/tensor_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/quote.h"
#include "checkpoint/synthetic_tensor.h"

namespace ashlar {
namespace {

// Linux reads less than 2 GiB at once; runs here are some megabytes.
constexpr size_t kMostAtOnce = size_t{1} << 30;

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

void TensorReader::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  file_ = nullptr;
}

Status TensorReader::open(const MappedFile& file) {
  if (file_ == &file) return {};
  close();
  fd_ = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) return fail(ErrorCode::kIo, "cannot open {}: {}", file.path(), reason(errno));
  struct stat status {};
  if (::fstat(fd_, &status) != 0) {
    return fail(ErrorCode::kIo, "cannot look at {}: {}", file.path(), reason(errno));
  }
  if (static_cast<uint64_t>(status.st_dev) != file.identity().device ||
      static_cast<uint64_t>(status.st_ino) != file.identity().inode) {
    return fail(ErrorCode::kIo,
                "{} was replaced by another file while it was loaded; start again when nothing "
                "writes it any more",
                file.path());
  }
  file_ = &file;
  return {};
}

Status TensorReader::read(const StoredTensor& tensor, size_t offset, std::span<std::byte> out) {
  CHECK(offset <= tensor.bytes && out.size() <= tensor.bytes - offset);
  if (out.empty()) return {};
  if (tensor.synthetic != nullptr) {
    tensor.synthetic->read(offset, out);
    return {};
  }
  if (tensor.mapping == nullptr) {
    std::memcpy(out.data(), tensor.mapped + offset, out.size());
    return {};
  }
  ASHLAR_TRY(open(*tensor.mapping));
  const size_t begin = static_cast<size_t>(tensor.mapped - tensor.mapping->bytes().data()) + offset;
  for (size_t done = 0; done < out.size();) {
    const ssize_t count = ::pread(fd_, out.data() + done, std::min(out.size() - done, kMostAtOnce),
                                  static_cast<off_t>(begin + done));
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count == 0) {
      // What is asked for may begin beyond the end.
      struct stat now = {};
      const size_t end = ::fstat(fd_, &now) == 0 ? static_cast<size_t>(now.st_size) : begin + done;
      return fail(ErrorCode::kIo,
                  "{}: tensor {} needs {} bytes from byte {} on, but the file ends at {}; it has "
                  "become shorter since it was opened: fetch it again",
                  tensor.file, quote_name(tensor.name), out.size() - done, begin + done, end);
    } else if (errno != EINTR) {
      return fail(ErrorCode::kIo, "{}: cannot read {} bytes of tensor {} from byte {} on: {}",
                  tensor.file, out.size() - done, quote_name(tensor.name), begin + done,
                  reason(errno));
    }
  }
  return {};
}

}  // namespace ashlar
