#include "store/byte_budget_cache.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recollect::store {
namespace {

using Cache = ByteBudgetCache<std::string>;

ChunkRef Ref(int64_t index, uint64_t owner = 1) { return {OwnerId{owner}, index}; }

Cache::Handle Put(Cache& cache, const ChunkRef& ref, int64_t bytes) {
  return cache.Insert(ref, std::to_string(ref.index), bytes);
}

TEST(ByteBudgetCacheTest, LeastRecentlyUsedGoesFirst) {
  Cache cache(30);
  for (int i = 0; i < 3; ++i) EXPECT_NE(Put(cache, Ref(i), 10), nullptr);
  EXPECT_EQ(cache.used_bytes(), 30);
  EXPECT_NE(cache.Find(Ref(0)), nullptr);
  EXPECT_NE(Put(cache, Ref(3), 10), nullptr);
  EXPECT_EQ(cache.Find(Ref(1)), nullptr);
  EXPECT_EQ(*cache.Find(Ref(0)), "0");
  EXPECT_EQ(cache.used_bytes(), 30);
  EXPECT_NE(Put(cache, Ref(4), 25), nullptr);
  EXPECT_EQ(cache.used_bytes(), 25);
}

TEST(ByteBudgetCacheTest, PresentEntryIsKept) {
  Cache cache(30);
  const auto first = cache.Insert(Ref(1), "first", 10);
  const auto second = cache.Insert(Ref(1), "second", 20);
  EXPECT_EQ(first, second);
  EXPECT_EQ(cache.used_bytes(), 10);
}

TEST(ByteBudgetCacheTest, TooLargeStaysWithTheCaller) {
  Cache cache(30);
  EXPECT_NE(Put(cache, Ref(1), 30), nullptr);
  std::string value = "large";
  EXPECT_EQ(cache.Insert(Ref(2), std::move(value), 31), nullptr);
  EXPECT_EQ(value, "large");
  EXPECT_NE(cache.Find(Ref(1)), nullptr) << "evicted for nothing";
}

TEST(ByteBudgetCacheTest, ValuesBeingReadAreNotEvictedAndKeepTheirBytes) {
  Cache cache(30);
  auto held = Put(cache, Ref(1), 20);
  EXPECT_NE(Put(cache, Ref(2), 10), nullptr);
  std::string value = "x";
  EXPECT_EQ(cache.Insert(Ref(3), std::move(value), 20), nullptr);
  EXPECT_EQ(value, "x");
  EXPECT_NE(Put(cache, Ref(3), 10), nullptr);
  EXPECT_NE(cache.Find(Ref(1)), nullptr);

  cache.EraseOwner(OwnerId{1});
  EXPECT_EQ(cache.Find(Ref(1)), nullptr);
  EXPECT_EQ(cache.used_bytes(), 20) << "still read";
  EXPECT_EQ(*held, "1");
  EXPECT_EQ(Put(cache, Ref(4), 20), nullptr);
  held.reset();
  EXPECT_EQ(cache.used_bytes(), 0);
  EXPECT_NE(Put(cache, Ref(4), 20), nullptr);
}

TEST(ByteBudgetCacheTest, EraseOwnerLeavesOthers) {
  Cache cache(100);
  for (int i = 0; i < 3; ++i) {
    Put(cache, Ref(i, 1), 10);
    Put(cache, Ref(i, 2), 10);
  }
  cache.EraseOwner(OwnerId{1});
  EXPECT_EQ(cache.used_bytes(), 30);
  EXPECT_EQ(cache.Find(Ref(0, 1)), nullptr);
  EXPECT_NE(cache.Find(Ref(0, 2)), nullptr);
  cache.Clear();
  EXPECT_EQ(cache.Find(Ref(0, 2)), nullptr);
  EXPECT_EQ(cache.used_bytes(), 0);
}

TEST(ByteBudgetCacheTest, BudgetOfZeroHoldsNothing) {
  Cache cache(0);
  EXPECT_EQ(Put(cache, Ref(1), 1), nullptr);
  EXPECT_EQ(cache.Find(Ref(1)), nullptr);
}

TEST(ByteBudgetCacheTest, HandlesOutliveTheCache) {
  std::optional<Cache> cache(std::in_place, 100);
  const auto held = Put(*cache, Ref(7), 10);
  cache.reset();
  EXPECT_EQ(*held, "7");
}

// A value that counts the bytes of all that live, so that the cache's own sum can be checked.
class Counted {
 public:
  Counted(std::atomic<int64_t>* live, int64_t bytes) : live_(live), bytes_(bytes) {}
  // The move into the cache is what makes it count; the moved-from one never does.
  Counted(Counted&& from) noexcept : live_(from.live_), bytes_(from.bytes_), counts_(true) {
    live_->fetch_add(bytes_);
  }
  ~Counted() {
    if (counts_) live_->fetch_sub(bytes_);
  }

 private:
  std::atomic<int64_t>* live_;
  int64_t bytes_;
  bool counts_ = false;
};

TEST(ByteBudgetCacheTest, BudgetHoldsAtEveryMomentUnderThreads) {
  constexpr int64_t kBudget = 1000;
  ByteBudgetCache<Counted> cache(kBudget);
  std::atomic<int64_t> live{0};
  std::atomic<bool> stop{false};
  std::atomic<int64_t> worst{0};
  const auto look = [&](int64_t bytes) {
    int64_t before = worst;
    while (bytes > before && !worst.compare_exchange_weak(before, bytes)) {
    }
  };
  std::thread watcher([&] {
    while (!stop) look(std::max(cache.used_bytes(), live.load()));
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      std::vector<ByteBudgetCache<Counted>::Handle> held(4);
      for (int i = 0; i < 20000; ++i) {
        const ChunkRef ref = Ref(static_cast<int64_t>(random() % 60), random() % 3 + 1);
        auto& slot = held[random() % held.size()];
        switch (random() % 8) {
          case 0:
            slot.reset();
            break;
          case 1:
            if (random() % 50 == 0) cache.EraseOwner(ref.owner);
            break;
          default:
            slot = cache.Find(ref);
            if (slot == nullptr) {
              const auto bytes = static_cast<int64_t>(random() % 100);
              slot = cache.Insert(ref, Counted(&live, bytes), bytes);
            }
        }
        look(cache.used_bytes());  // a busy machine may never run the watcher
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  watcher.join();
  EXPECT_LE(worst.load(), kBudget);
  EXPECT_GT(worst.load(), kBudget / 2);
  cache.Clear();
  EXPECT_EQ(cache.used_bytes(), 0);
  EXPECT_EQ(live.load(), 0);
}

}  // namespace
}  // namespace recollect::store
