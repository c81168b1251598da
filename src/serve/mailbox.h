// Mailbox: hands items from any thread to the coroutine of one connection, on its event loop.
//
// Whoever pushes never waits for the loop. A burst of items wakes the loop once. The backlog is
// bounded: beyond it items are dropped and overflowed() stays true, for the owner to give up. After
// close() nothing reaches the loop any more, so items of a request that nobody waits for cost
// nothing.
#ifndef ASHLAR_SERVE_MAILBOX_H_
#define ASHLAR_SERVE_MAILBOX_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "serve/asio.h"

namespace ashlar {

template <class T>
class Mailbox : public std::enable_shared_from_this<Mailbox<T>> {
 public:
  // wake runs on the loop's thread and is not called after close().
  Mailbox(asio::io_context& loop, std::function<void()> wake, size_t max_bytes)
      : loop_(loop), wake_(std::move(wake)), max_bytes_(max_bytes) {}

  // Any thread. bytes: what the item counts against the bound.
  void push(T item, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    if (bytes_ + bytes > max_bytes_) {
      overflowed_ = true;
    } else {
      bytes_ += bytes;
      items_.push_back(std::move(item));
    }
    if (std::exchange(wake_posted_, true)) return;
    // Under the mutex: close() may be followed by the end of the loop.
    asio::post(loop_, [self = this->shared_from_this()] { self->deliver(); });
  }

  // The loop's thread.
  std::vector<T> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_ = 0;
    return std::exchange(items_, {});
  }
  bool overflowed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return overflowed_;
  }
  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    items_.clear();
  }

 private:
  void deliver() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      wake_posted_ = false;
      if (closed_) return;
    }
    wake_();  // close() comes from this thread, so it cannot come between
  }

  asio::io_context& loop_;
  const std::function<void()> wake_;
  const size_t max_bytes_;
  mutable std::mutex mutex_;
  std::vector<T> items_;
  size_t bytes_ = 0;
  bool wake_posted_ = false;
  bool overflowed_ = false;
  bool closed_ = false;
};

}  // namespace ashlar

#endif  // ASHLAR_SERVE_MAILBOX_H_
