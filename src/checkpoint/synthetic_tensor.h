// SyntheticTensor: a generated bf16 tensor whose bytes exist only while somebody wants them.
//
// The address is fixed at creation and costs nothing. data() fills it, by several threads, the
// first time and after each give_back(). Between the two its addresses may not be touched: the
// process would end with SIGSEGV, which is meant, for quiet zeros would be worse. Handing its bytes
// to give_back_pages() is harmless and without effect.
#ifndef ASHLAR_CHECKPOINT_SYNTHETIC_TENSOR_H_
#define ASHLAR_CHECKPOINT_SYNTHETIC_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "base/error.h"
#include "tensor/synthetic_values.h"

namespace ashlar {

class SyntheticTensor {
 public:
  // zeros: data() shows zeros that take no memory, for those who only want to know the shapes.
  static Result<std::shared_ptr<SyntheticTensor>> make(const SyntheticValues& values,
                                                       int64_t elements, bool zeros);
  ~SyntheticTensor();
  SyntheticTensor(const SyntheticTensor&) = delete;
  SyntheticTensor& operator=(const SyntheticTensor&) = delete;

  // What a device needs to make the elements itself.
  const SyntheticValues& values() const { return values_; }
  size_t bytes() const { return static_cast<size_t>(elements_) * sizeof(uint16_t); }

  // Bytes [offset, offset + out.size()) as data() would show them, made for this call alone. Whole
  // elements. Any thread, at any time.
  void read(size_t offset, std::span<std::byte> out) const;

  // Any thread may call these; who gives back answers for the other readers.
  const std::byte* data();
  void give_back();
  // How often data() had to generate.
  int64_t fills();

 private:
  SyntheticTensor(const SyntheticValues& values, int64_t elements, bool zeros, void* memory)
      : values_(values), elements_(elements), zeros_(zeros), memory_(memory) {}

  const SyntheticValues values_;
  const int64_t elements_;
  const bool zeros_;
  void* const memory_;
  std::mutex mutex_;
  bool filled_ = false;
  int64_t fills_ = 0;
};

}  // namespace ashlar

#endif  // ASHLAR_CHECKPOINT_SYNTHETIC_TENSOR_H_
