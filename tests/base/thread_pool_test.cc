#include "base/sync/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace recollect {
namespace {

TEST(ThreadPoolTest, ParallelForRunsEachIndexOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      pool.ParallelFor(count, [&](int64_t index, int) { ++runs[index]; });
      for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
    }
  }
}

// One call after the other, as steps of a generated token, and then with a rest after which threads
// sleep; other work finds the threads in between.
TEST(ThreadPoolTest, GatherRunsOnAsManyThreadsAsThereAreAgainAndAgain) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 60; ++round) {
      std::vector<std::atomic<int>> runs(threads);
      std::atomic<int> together = 0;
      pool.Gather([&](int64_t index, int worker) {
        EXPECT_LT(worker, threads);
        ++runs[index];
        ++together;
        while (together < threads) std::this_thread::yield();  // all at once, or never
      });
      for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
      if (round % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (round % 3 != 0) continue;
      std::atomic<int> others = 0;
      pool.ParallelFor(5, [&](int64_t, int) { ++others; });
      EXPECT_EQ(others, 5);
    }
  }
}

// Plain ints: that no two bodies share a number at a time, callers included, is for the thread
// sanitizer to confirm.
TEST(ThreadPoolTest, AWorkerNumberIsOneThreadAtATime) {
  ThreadPool pool(3);
  std::vector<int64_t> work(pool.threads());
  std::vector<std::atomic<bool>> busy(pool.threads());
  std::atomic<bool> shared{false};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 5; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        pool.ParallelFor(20, [&](int64_t, int worker) {
          if (busy[worker].exchange(true)) shared = true;
          ++work[worker];
          busy[worker] = false;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_FALSE(shared);
  int64_t total = 0;
  for (int64_t w : work) total += w;
  EXPECT_EQ(total, 5 * 50 * 20);
}

TEST(ThreadPoolTest, WavefrontRunsEachCellAfterTheOneBeforeAndTheOneAbove) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (auto [rows, columns] : {std::pair{0, 3}, {3, 0}, {1, 1}, {1, 9}, {9, 1}, {17, 5}}) {
      // Plain: the pool must order these writes and reads.
      std::vector<std::vector<int>> done(rows, std::vector<int>(columns, 0));
      std::atomic<int> early{0};
      pool.Wavefront(rows, columns, [&](int64_t row, int64_t column, int) {
        if (row > 0 && done[row - 1][column] != 1) ++early;
        if (column > 0 && done[row][column - 1] != 1) ++early;
        ++done[row][column];
      });
      EXPECT_EQ(early, 0);
      for (const auto& row : done) EXPECT_EQ(row, std::vector<int>(columns, 1));
    }
  }
}

TEST(ThreadPoolTest, WhatFollowsAWavefrontsRowWaitsForNoOtherRow) {
  constexpr int64_t kRows = 7, kColumns = 3;
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    std::vector<int> columns(kRows, 0), followed(kRows, 0);
    std::atomic<int> early{0};
    absl::Notification second;
    pool.Wavefront(
        kRows, kColumns, [&](int64_t row, int64_t, int) { ++columns[row]; },
        [&](int64_t row, int) {
          if (columns[row] != kColumns) ++early;
          ++followed[row];
          if (row == 1) second.Notify();
          if (row == 0 && threads > 1) {
            EXPECT_TRUE(second.WaitForNotificationWithTimeout(absl::Minutes(1)));
          }
        });
    EXPECT_EQ(early, 0);
    EXPECT_EQ(columns, std::vector<int>(kRows, kColumns));
    EXPECT_EQ(followed, std::vector<int>(kRows, 1));
  }
}

TEST(ThreadPoolTest, FreeRowsOfAWavefrontWaitForNoOtherRow) {
  constexpr int64_t kRows = 6, kColumns = 2, kFree = 3;
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int>> done(kRows);  // a row may go on while the next one looks
    std::atomic<int> early{0};
    absl::Notification second;
    pool.Wavefront(
        kRows, kColumns,
        [&](int64_t row, int64_t column, int) {
          if (row > kFree && done[row - 1] <= column) ++early;
          if (row == 1 && column == 0) second.Notify();
          if (row == 0 && column == 0 && threads > 1) {
            EXPECT_TRUE(second.WaitForNotificationWithTimeout(absl::Minutes(1)));
          }
          ++done[row];
        },
        /*then=*/nullptr, kFree);
    EXPECT_EQ(early, 0);
    for (const std::atomic<int>& columns : done) EXPECT_EQ(columns, kColumns);
  }
}

// Plain ints, as above: whatever comes between, the pool must order them.
TEST(ThreadPoolTest, OtherWorkRunsInThePausesOfAWavefront) {
  constexpr int64_t kRows = 20, kColumns = 6;
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::vector<std::vector<int>> done(kRows, std::vector<int>(kColumns, 0));
    std::vector<int> followed(kRows, 0);
    std::atomic<int> early{0}, items{0}, cells{0};
    int pauses = 0;
    const std::thread::id caller = std::this_thread::get_id();
    pool.PausingWavefront(
        kRows, kColumns,
        [&](int64_t row, int64_t column, int) {
          if (row > 0 && done[row - 1][column] != 1) ++early;
          if (column > 0 && done[row][column - 1] != 1) ++early;
          ++done[row][column];
        },
        [&](int64_t row, int) { ++followed[row]; },
        [&](const std::atomic<int64_t>&) {
          EXPECT_EQ(std::this_thread::get_id(), caller);
          ++pauses;
          pool.ParallelFor(9, [&](int64_t, int) { ++items; });
          pool.Wavefront(3, 3, [&](int64_t, int64_t, int) { ++cells; });
        });
    EXPECT_EQ(early, 0);
    for (const auto& row : done) EXPECT_EQ(row, std::vector<int>(kColumns, 1));
    EXPECT_EQ(followed, std::vector<int>(kRows, 1));
    EXPECT_GE(pauses, threads == 1 ? kRows * (kColumns + 1) : 1);
    EXPECT_EQ(items, pauses * 9);
    EXPECT_EQ(cells, pauses * 9);
  }
}

TEST(ThreadPoolTest, ThreadsTakeOtherWorkBeforeAWavefrontThatPauses) {
  constexpr int64_t kRows = 50, kColumns = 20;
  ThreadPool pool(2);
  std::atomic<int> cells{0};
  int most = 0;
  pool.PausingWavefront(
      kRows, kColumns,
      [&](int64_t, int64_t, int) {
        ++cells;
        std::this_thread::yield();
      },
      nullptr,
      [&](const std::atomic<int64_t>&) {
        std::atomic<int> begun{0}, before{0}, after{0};
        pool.ParallelFor(2, [&](int64_t, int) {
          (begun == 0 ? before : after) = cells.load();
          ++begun;
          while (begun < 2) std::this_thread::yield();  // both threads are needed
        });
        most = std::max(most, after - before);
      });
  EXPECT_EQ(cells, kRows * kColumns);
  // The other thread may have taken a cell before.
  EXPECT_LE(most, 1);
}

TEST(ThreadPoolTest, IdleThreadsGoOnWithAWavefrontInItsPauses) {
  ThreadPool pool(2);
  absl::Notification went_on;
  std::atomic<int> cells{0};
  bool first = true;
  pool.PausingWavefront(
      4, 4,
      [&](int64_t, int64_t, int) {
        if (++cells == 4) went_on.Notify();
      },
      nullptr,
      [&](const std::atomic<int64_t>&) {
        if (!std::exchange(first, false)) return;
        EXPECT_TRUE(went_on.WaitForNotificationWithTimeout(absl::Minutes(1)));
      });
  EXPECT_EQ(cells, 16);
}

TEST(ThreadPoolTest, APauseHearsWhatItsWavefrontSpent) {
  ThreadPool pool(1);
  int64_t spent = 0;
  const auto begin = std::chrono::steady_clock::now();
  pool.PausingWavefront(
      3, 3,
      [&](int64_t, int64_t, int) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
        while (std::chrono::steady_clock::now() < until) {
        }
      },
      nullptr, [&](const std::atomic<int64_t>& spent_ns) { spent = spent_ns; });
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(spent, 8 * 1'000'000);  // the last pause comes before the last cell or after it
  EXPECT_LE(spent, took.count());
}

TEST(ThreadPoolTest, CallersOfDifferentKindsShareThePool) {
  ThreadPool pool(2);
  std::atomic<int64_t> cells{0}, items{0};
  std::thread other([&] {
    for (int i = 0; i < 30; ++i) {
      pool.Wavefront(6, 4, [&](int64_t, int64_t, int) { ++cells; });
    }
  });
  for (int i = 0; i < 100; ++i) {
    pool.ParallelFor(5, [&](int64_t, int) { ++items; });
  }
  other.join();
  EXPECT_EQ(cells, 30 * 24);
  EXPECT_EQ(items, 500);
}

TEST(ThreadPoolTest, WhatWorkThrowsReachesItsCallerAndNobodyElse) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::atomic<bool> stop{false};
    std::thread other([&] {
      while (!stop) {
        std::atomic<int> sum{0};
        pool.ParallelFor(20, [&](int64_t i, int) { sum += static_cast<int>(i); });
        EXPECT_EQ(sum, 190);
      }
    });
    std::atomic<int> ran{0};
    for (int round = 0; round < 100; ++round) {
      const auto fails = [&](int64_t i) {
        ++ran;
        if (i == 5) throw std::bad_alloc();
      };
      EXPECT_THROW(pool.ParallelFor(1000, [&](int64_t i, int) { fails(i); }), std::bad_alloc);
      EXPECT_THROW(pool.Wavefront(
                       10, 10, [&](int64_t row, int64_t, int) { fails(row); }, [](int64_t, int) {}),
                   std::bad_alloc);
      EXPECT_THROW(pool.PausingWavefront(
                       10, 10, [&](int64_t, int64_t, int) { ++ran; }, nullptr,
                       [](const std::atomic<int64_t>&) { throw std::bad_alloc(); }),
                   std::bad_alloc);
    }
    // Now and then the others are through before the one that throws is noticed.
    EXPECT_LT(ran, 100 * 1100) << "what is left is not run";
    stop = true;
    other.join();
  }
}

}  // namespace
}  // namespace recollect
