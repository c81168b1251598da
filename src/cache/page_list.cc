// Growth, sharing and copy on write of page lists.
#include "cache/page_list.h"

#include "base/check.h"

namespace ashlar {

int64_t PageList::pages_missing(const PagePool& pool, int64_t first, int64_t end) const {
  const int64_t held = static_cast<int64_t>(ids_.size());
  const int64_t wanted = pages_for(end);
  int64_t missing = wanted > held ? wanted - held : 0;
  for (int64_t i = first / kPagePositions; i < held && i < wanted; ++i) {
    if (pool.holders(ids_[i]) > 1) ++missing;
  }
  return missing;
}

bool PageList::prepare(PagePool& pool, int64_t first, int64_t end, PageChanges& changes) {
  if (pages_missing(pool, first, end) > pool.free_count()) return false;
  const int64_t held = static_cast<int64_t>(ids_.size());
  const int64_t wanted = pages_for(end);
  for (int64_t i = first / kPagePositions; i < held && i < wanted; ++i) {
    const PageId old = ids_[i];
    if (pool.holders(old) == 1) continue;
    ids_[i] = *pool.take();
    pool.take_mark(ids_[i]);  // the copy overwrites the whole page
    changes.copies.push_back({old, ids_[i]});
  }
  for (int64_t i = held; i < wanted; ++i) {
    ids_.push_back(*pool.take());
    if (pool.take_mark(ids_.back())) changes.clears.push_back(ids_.back());
  }
  return true;
}

void PageList::share(PagePool& pool, const PageList& other, int64_t positions) {
  CHECK(ids_.empty());
  const int64_t count = pages_for(positions);
  CHECK_LE(count, static_cast<int64_t>(other.ids_.size()));
  ids_.assign(other.ids_.begin(), other.ids_.begin() + count);
  for (PageId id : ids_) pool.hold(id);
}

void PageList::release(PagePool& pool) {
  for (auto id = ids_.rbegin(); id != ids_.rend(); ++id) pool.drop(*id);
  ids_.clear();
}

void PageList::mark(PagePool& pool) const {
  for (PageId id : ids_) pool.mark(id);
}

}  // namespace ashlar
