#include "kernels/cpu/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace recollect::kernels {
namespace {

constexpr char kFirst = 0, kSecond = 0;

int Asked(ReadAhead& ahead) {
  int asked = 0;
  while (ahead.AskForSome()) ++asked;
  return asked;
}

TEST(ReadAheadTest, EachPartOfTheListIsAskedForOnce) {
  ReadAhead ahead;
  EXPECT_FALSE(ahead.AskForSome());
  const std::vector<char> bytes(1200);
  EXPECT_TRUE(ahead.Begin(&kFirst));
  ahead.Add(bytes.data(), 1200);  // 512, 512 and 176
  ahead.Add(bytes.data(), 0);
  ahead.Add(bytes.data(), 512);
  EXPECT_EQ(Asked(ahead), 4);
  ahead.Add(bytes.data(), 1);
  EXPECT_EQ(Asked(ahead), 1);
}

TEST(ReadAheadTest, AListIsBegunOnce) {
  ReadAhead ahead;
  const std::vector<char> bytes(64);
  EXPECT_TRUE(ahead.Begin(&kFirst));
  ahead.Add(bytes.data(), 64);
  EXPECT_FALSE(ahead.Begin(&kFirst));
  EXPECT_EQ(Asked(ahead), 1);
  EXPECT_TRUE(ahead.Begin(&kSecond));
  EXPECT_EQ(Asked(ahead), 0);
}

TEST(ReadAheadTest, WhatIsReadIsNotAskedForAnyMore) {
  ReadAhead ahead;
  const std::vector<char> a(1024), b(1024), c(1024);
  for (const auto* bytes : {&a, &b, &c}) ahead.Add(bytes->data(), 1024);
  EXPECT_TRUE(ahead.AskForSome());
  ahead.Reached(b.data());
  EXPECT_EQ(Asked(ahead), 2);  // for c
  ahead.Reached(a.data());     // is not there any more
  ahead.Add(a.data(), 1024);
  ahead.Add(b.data(), 1024);
  ahead.Reached(c.data());
  EXPECT_EQ(Asked(ahead), 4);
}

TEST(ReadAheadTest, ItsRoomIsUsedAgain) {
  ReadAhead ahead;
  const std::vector<char> bytes(64);
  for (int i = 0; i < 1000; ++i) {
    ahead.Add(bytes.data(), 64);
    EXPECT_EQ(Asked(ahead), 1);
  }
}

TEST(ReadAheadTest, WhatIsBeyondItsRoomIsLeftOut) {
  ReadAhead ahead;
  const std::vector<char> bytes(64);
  ahead.Begin(&kFirst);
  for (int i = 0; i < 1000; ++i) ahead.Add(bytes.data(), 64);
  const int asked = Asked(ahead);
  EXPECT_GE(asked, 30);
  EXPECT_LT(asked, 1000);
}

TEST(ReadAheadTest, OthersAskWhileTheListIsReplaced) {
  ReadAhead ahead;
  const std::vector<char> bytes(5000);
  std::atomic<bool> done = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!done) ahead.AskForSome();
    });
  }
  for (int i = 0; i < 1000; ++i) {
    ahead.Begin(i % 2 == 0 ? &kFirst : &kSecond);
    ahead.Add(bytes.data(), 5000);
  }
  done = true;
  for (std::thread& other : others) other.join();
  Asked(ahead);
  EXPECT_FALSE(ahead.AskForSome());
}

}  // namespace
}  // namespace recollect::kernels
