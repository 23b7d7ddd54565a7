#include "kernels/cpu/op_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "tests/kernels/cpu/served_team.h"

namespace recollect::kernels {
namespace {

TEST(OpTeamTest, EveryPartRunsOnceInEveryRound) {
  for (const int servers : {0, 1, 3}) {
    ServedTeam served(servers);
    for (int round = 0; round < 2000; ++round) {
      const int parts = round % 7;
      std::vector<std::atomic<int>> ran(7);
      served.leader().Share(parts, [&](OpContext&, int part) { ++ran[static_cast<size_t>(part)]; });
      for (int part = 0; part < 7; ++part) {
        ASSERT_EQ(ran[static_cast<size_t>(part)], part < parts ? 1 : 0)
            << servers << " servers, round " << round << ", part " << part;
      }
    }
  }
}

TEST(OpTeamTest, EachThreadHasItsOwnContext) {
  static constexpr ScratchName kScratch;
  ServedTeam served(2);
  std::atomic<int> shared = 0;
  served.leader().Share(500, [&](OpContext& own, int) {
    float* scratch = own.Floats(kScratch, 1);
    scratch[0] = 1;
    for (int i = 0; i < 100; ++i) scratch[0] += 1;
    if (scratch[0] != 101) ++shared;
  });
  EXPECT_EQ(shared, 0);
}

TEST(OpTeamTest, WhoServesSharesTheWork) {
  ServedTeam served(1);
  std::atomic<bool> other = false;
  // The leader's part waits for the other's: together or never.
  served.leader().Share(2, [&](OpContext& own, int) {
    if (&own != &served.leader()) other = true;
    while (!other) std::this_thread::yield();
  });
  EXPECT_TRUE(other);
}

TEST(OpTeamTest, TheLeaderGetsWhatAPartThrows) {
  ServedTeam served(1);
  std::atomic<int> ran = 0;
  const auto some_throw = [&](OpContext&, int part) {
    ++ran;
    if (part % 2 == 1) throw std::bad_alloc();
  };
  EXPECT_THROW(served.leader().Share(8, some_throw), std::bad_alloc);
  EXPECT_EQ(ran, 8);
  served.leader().Share(8, [&](OpContext&, int) { ++ran; });
  EXPECT_EQ(ran, 16);
}

TEST(OpTeamTest, WithoutATeamTheCallerDoesAll) {
  OpContext alone;
  std::vector<int> order;
  alone.Share(3, [&](OpContext& own, int part) {
    EXPECT_EQ(&own, &alone);
    order.push_back(part);
  });
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(TwoHalvesTest, TheLeaderAndTheOthersTakeAHalfEachFromItsFirstPartOn) {
  for (const int servers : {0, 1, 3}) {
    ServedTeam served(servers);
    for (int round = 0; round < 200; ++round) {
      constexpr int kParts = 9, kHalf = TwoHalves::FirstOfSecond(kParts);
      TwoHalves order(kParts);
      std::vector<std::atomic<int>> ran(kParts);
      std::vector<int> led;
      served.leader().Share(kParts, [&](OpContext& own, int) {
        const int part = order.Next(own);
        ++ran[static_cast<size_t>(part)];
        if (&own == &served.leader()) led.push_back(part);
      });
      for (int part = 0; part < kParts; ++part) EXPECT_EQ(ran[static_cast<size_t>(part)], 1);
      for (int i = 0; i < std::ssize(led); ++i) {
        EXPECT_EQ(led[static_cast<size_t>(i)], i < kHalf ? i : kParts - 1 - (i - kHalf));
      }
    }
  }
}

TEST(TwoHalvesTest, WithoutATeamEachPartIsGivenOnce) {
  OpContext alone;
  for (const int parts : {1, 2, 3, 8}) {
    TwoHalves order(parts);
    std::vector<int> ran(static_cast<size_t>(parts));
    alone.Share(parts, [&](OpContext& own, int) { ++ran[static_cast<size_t>(order.Next(own))]; });
    EXPECT_EQ(ran, std::vector<int>(static_cast<size_t>(parts), 1));
  }
}

}  // namespace
}  // namespace recollect::kernels
