// PagePool and PageList: which page holds which positions of a sequence. Page i of a list holds
// positions [i*B, (i+1)*B), B = kPagePositions.
//
// Lists may share pages: a page with more than one holder is never written, and a list that is
// about to write into one takes a fresh page instead and has the old one copied (copy on write).
// Sharing is by whole prefix, so whoever holds pages beyond sequences (the prompt of a request with
// several choices, a prefix tree) is a PageList too. A list is a plain value without a destructor:
// whoever owns it gives its pages back by release().
#ifndef ASHLAR_CACHE_PAGE_LIST_H_
#define ASHLAR_CACHE_PAGE_LIST_H_

#include <cstdint>
#include <vector>

#include "base/align.h"
#include "cache/counted_pool.h"
#include "cache/state_needs.h"

namespace ashlar {

using PageId = int32_t;
using PagePool = CountedPool;

constexpr int64_t pages_for(int64_t positions) { return divide_up(positions, kPagePositions); }

struct PageCopy {
  PageId from = 0;
  PageId to = 0;
  friend bool operator==(const PageCopy&, const PageCopy&) = default;
};

// What must happen on the device before pages that a list took are written. The source of a copy
// keeps the count that the list had on it: whoever submits the step drops it then, so that the page
// is not reused while the step may read it.
struct PageChanges {
  std::vector<PageCopy> copies;
  std::vector<PageId> clears;
};

class PageList {
 public:
  const std::vector<PageId>& ids() const { return ids_; }
  int64_t capacity() const { return static_cast<int64_t>(ids_.size()) * kPagePositions; }
  bool empty() const { return ids_.empty(); }

  // Pages that prepare() would take from the pool.
  int64_t pages_missing(const PagePool& pool, int64_t first, int64_t end) const;

  // Makes positions [first, end) writable and all before them present. Returns false and changes
  // nothing when the pool has too few free pages.
  bool prepare(PagePool& pool, int64_t first, int64_t end, PageChanges& changes);

  // Becomes a list of the pages of `other` that hold positions [0, positions). Must be empty
  // before.
  void share(PagePool& pool, const PageList& other, int64_t positions);

  void release(PagePool& pool);

  // Marks every page: the content must be cleared before its next use.
  void mark(PagePool& pool) const;

 private:
  std::vector<PageId> ids_;
};

}  // namespace ashlar

#endif  // ASHLAR_CACHE_PAGE_LIST_H_
