// TensorReader: the bytes of stored tensors, a run at a time, copied to where the caller wants
// them: read from files with pread, generated for synthetic tensors.
//
// For loaders that move whole checkpoints to a device. A mapping costs a page fault for every
// 64 KiB, taken one after the other by each thread, and a file that became shorter ends the process
// there; pread copies a run at the speed of memory and fails with a reason. What only looks at some
// rows keeps using StoredTensor::data().
#ifndef ASHLAR_CHECKPOINT_TENSOR_READER_H_
#define ASHLAR_CHECKPOINT_TENSOR_READER_H_

#include <cstddef>
#include <span>
#include <string>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace ashlar {

// Keeps the file open that it read last. Of one thread; several read a file at once with one each.
class TensorReader {
 public:
  TensorReader() = default;
  ~TensorReader() { close(); }
  TensorReader(const TensorReader&) = delete;
  TensorReader& operator=(const TensorReader&) = delete;

  // Bytes [offset, offset + out.size()) of the tensor, which has as many. Errors name the tensor,
  // the file and the place in it: kIo for what the system refuses, a file that ends too early, and
  // one that is no longer the one that was opened.
  Status read(const StoredTensor& tensor, size_t offset, std::span<std::byte> out);

 private:
  Status open(const MappedFile& file);
  void close();

  int fd_ = -1;
  const MappedFile* file_ = nullptr;  // which fd_ is
};

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_TENSOR_READER_H_
