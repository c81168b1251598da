// Pools, page lists and the chunk cursor: counting, late return, sharing and copy on write.
#include <gtest/gtest.h>

#include "cache/chunk_cursor.h"
#include "cache/page_list.h"

namespace ashlar {
namespace {

TEST(CountedPool, TakesEachOnceAndGivesBack) {
  CountedPool pool(3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), std::nullopt);
  pool.drop(1);
  EXPECT_EQ(pool.free_count(), 1);
  EXPECT_TRUE(pool.is_free(1));
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.inconsistency(), "");
}

TEST(CountedPool, WaitsForTheStepsThatWereSubmittedBefore) {
  CountedPool pool(2);
  const int32_t a = *pool.take();
  const int32_t b = *pool.take();
  pool.step_submitted();
  pool.step_submitted();
  pool.drop(a);
  pool.step_submitted();
  pool.drop(b);
  EXPECT_EQ(pool.returning_count(), 2);
  pool.step_completed();
  EXPECT_EQ(pool.free_count(), 0) << "the second step may still use a";
  pool.step_completed();
  EXPECT_TRUE(pool.is_free(a));
  EXPECT_FALSE(pool.is_free(b));
  EXPECT_EQ(pool.inconsistency(), "");
  pool.step_completed();
  EXPECT_TRUE(pool.is_free(b));
}

TEST(CountedPool, TheLastHolderSendsBack) {
  CountedPool pool(1);
  const int32_t a = *pool.take();
  pool.hold(a);
  pool.drop(a);
  EXPECT_EQ(pool.holders(a), 1);
  EXPECT_EQ(pool.free_count(), 0);
  pool.drop(a);
  EXPECT_EQ(pool.free_count(), 1);
  pool.mark(a);
  EXPECT_EQ(pool.take(), a);
  EXPECT_TRUE(pool.take_mark(a));
  EXPECT_FALSE(pool.take_mark(a));
}

TEST(PageList, GrowsByWholePagesOrNotAtAll) {
  PagePool pool(3);
  PageList list;
  PageChanges changes;
  ASSERT_TRUE(list.prepare(pool, 0, 1, changes));
  EXPECT_EQ(list.ids(), std::vector<PageId>{0});
  ASSERT_TRUE(list.prepare(pool, 1, kPagePositions, changes));
  EXPECT_EQ(list.capacity(), kPagePositions);
  EXPECT_FALSE(list.prepare(pool, kPagePositions, 4 * kPagePositions, changes));
  EXPECT_EQ(list.ids().size(), 1u) << "a refused growth changes nothing";
  EXPECT_EQ(list.pages_missing(pool, kPagePositions, 4 * kPagePositions), 3);
  ASSERT_TRUE(list.prepare(pool, kPagePositions, 3 * kPagePositions, changes));
  EXPECT_TRUE(changes.copies.empty());
  list.release(pool);
  EXPECT_EQ(pool.free_count(), 3);
}

TEST(PageList, CopiesASharedPageBeforeItIsWritten) {
  PagePool pool(6);
  PageChanges changes;
  PageList a;
  ASSERT_TRUE(a.prepare(pool, 0, 40, changes));
  PageList b;
  b.share(pool, a, 40);
  EXPECT_EQ(b.ids(), a.ids());
  EXPECT_EQ(b.pages_missing(pool, 39, 40), 1);
  ASSERT_TRUE(b.prepare(pool, 39, 41, changes));
  EXPECT_EQ(changes.copies, (std::vector<PageCopy>{{1, 2}}));
  EXPECT_EQ(b.ids(), (std::vector<PageId>{0, 2}));
  EXPECT_EQ(pool.holders(1), 2) << "the copy keeps its source until it is submitted";
  pool.drop(1);
  ASSERT_TRUE(a.prepare(pool, 40, 41, changes));
  EXPECT_EQ(changes.copies.size(), 1u) << "a is alone on page 1 again";
  a.release(pool);
  EXPECT_EQ(pool.holders(0), 1);
  b.release(pool);
  EXPECT_EQ(pool.free_count(), 6);
}

TEST(PageList, SharesOnlyWhatHoldsThePositions) {
  PagePool pool(4);
  PageChanges changes;
  PageList a;
  ASSERT_TRUE(a.prepare(pool, 0, 100, changes));
  for (int64_t positions : {0, 1, 32, 33, 64}) {
    PageList b;
    b.share(pool, a, positions);
    EXPECT_EQ(static_cast<int64_t>(b.ids().size()), pages_for(positions)) << positions;
    b.release(pool);
  }
}

TEST(PageList, MarkedPagesAreClearedOnceBeforeTheirNextUse) {
  PagePool pool(2);
  PageChanges changes;
  PageList a;
  ASSERT_TRUE(a.prepare(pool, 0, 10, changes));
  a.mark(pool);
  a.release(pool);
  PageList b;
  ASSERT_TRUE(b.prepare(pool, 0, 40, changes));
  EXPECT_EQ(changes.clears, std::vector<PageId>{0});
  b.release(pool);
  changes = {};
  ASSERT_TRUE(b.prepare(pool, 0, 40, changes));
  EXPECT_TRUE(changes.clears.empty());
}

TEST(ChunkCursor, FoldsOnlyWhatIsCertain) {
  constexpr int64_t kChunk = 32;
  ChunkCursor c;
  c.advance(kChunk, 30, 30);  // a prompt
  EXPECT_EQ(c, (ChunkCursor{0, 30}));
  c.advance(kChunk, 1, 1);  // four rows over the edge, all drafts rejected
  EXPECT_EQ(c, (ChunkCursor{0, 31}));
  c.advance(kChunk, 1, 4);  // all accepted: the tail is longer than a chunk
  EXPECT_EQ(c, (ChunkCursor{0, 35}));
  EXPECT_EQ(c.tail(), 35);
  c.advance(kChunk, 1, 2);
  EXPECT_EQ(c, (ChunkCursor{32, 37}));
  c = {};
  c.advance(kChunk, 64, 64);  // a length at an edge has a full tail
  EXPECT_EQ(c, (ChunkCursor{32, 64}));
  EXPECT_EQ(c.tail(), kChunk);
}

}  // namespace
}  // namespace ashlar
