// Bodies in pieces: who asks for one gets it, or hears why none comes; what nobody has asked for
// yet waits, up to a bound.
#include "http/net/body.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recollect::http {
namespace {

using ::testing::ElementsAre;

class BodyTest : public ::testing::Test {
 protected:
  Body::Got Got() {
    return [this](absl::StatusOr<std::string> piece) {
      got_.push_back(piece.ok() ? *piece : std::string(piece.status().message()));
    };
  }
  void Read() { body_.Read(Got()); }

  int woken_ = 0;
  std::atomic<size_t> all_held_{0};
  Body body_{[this] { ++woken_; }, all_held_};
  std::vector<std::string> got_;
};

TEST_F(BodyTest, APieceIsGivenToWhoAskedForIt) {
  EXPECT_FALSE(body_.has_room()) << "nobody has asked for the body yet";
  Read();
  EXPECT_EQ(woken_, 1);
  EXPECT_TRUE(body_.has_room());
  EXPECT_THAT(got_, ElementsAre());
  body_.Give("one");
  EXPECT_THAT(got_, ElementsAre("one"));
  Read();
  body_.Give("");
  EXPECT_THAT(got_, ElementsAre("one", ""));
  EXPECT_FALSE(body_.has_room()) << "there is no more";
}

TEST_F(BodyTest, PiecesWaitInOrderAndSoDoesTheEnd) {
  const std::string large(Body::kPieceBytes, 'x');
  Read();
  for (const std::string& piece :
       {std::string("one"), std::string("two"), std::string("three"), large, std::string("four")})
    body_.Give(piece);
  EXPECT_EQ(all_held_, 12 + large.size());
  body_.Give("");
  for (int i = 0; i < 4; ++i) Read();
  EXPECT_THAT(got_, ElementsAre("one", "twothree", large, "four", "")) << "small ones lie together";
  EXPECT_EQ(woken_, 5) << "each may have made room";
  EXPECT_EQ(all_held_, 0u);
}

TEST_F(BodyTest, SoMuchIsHeldAndNoMore) {
  const std::string piece(Body::kPieceBytes, 'x');
  Read();
  body_.Give(piece);
  size_t given = 0;
  for (; body_.has_room(); given += piece.size()) body_.Give(piece);
  EXPECT_EQ(given, Body::kAheadBytes);
  Read();
  EXPECT_TRUE(body_.has_room());

  // Others hold so much that a piece each is all that there is.
  all_held_ += Body::kAllAheadBytes;
  EXPECT_FALSE(body_.has_room());
  Body other([] {}, all_held_);
  other.Read([](const auto&) {});
  other.Give("taken");
  EXPECT_TRUE(other.has_room());
  other.Give(piece);
  EXPECT_FALSE(other.has_room());
}

TEST_F(BodyTest, AnErrorReachesWhoWaitsAndWhoAsksLater) {
  Read();
  body_.Fail(absl::CancelledError("gone"));
  EXPECT_THAT(got_, ElementsAre("gone"));
  EXPECT_FALSE(body_.has_room());
  EXPECT_TRUE(body_.failed());
  body_.Fail(absl::InvalidArgumentError("later"));
  body_.Give("late");
  Read();
  EXPECT_THAT(got_, ElementsAre("gone", "gone")) << "the first counts";
  EXPECT_EQ(woken_, 1) << "nobody is there to be woken";
}

TEST_F(BodyTest, WhatIsHeldIsDroppedWhereTheClientIsGone) {
  Read();
  for (int i = 0; i < 3; ++i) body_.Give(std::string(Body::kPieceBytes, 'x'));
  body_.Give("");
  body_.Fail(absl::CancelledError("gone"));
  EXPECT_EQ(all_held_, 0u);
  Read();
  EXPECT_EQ(got_.back(), "gone");
}

TEST_F(BodyTest, WhatIsNoBodyIsToldBehindWhatWas) {
  Read();
  body_.Give("one");
  body_.Give("two");
  body_.End(absl::InvalidArgumentError("not HTTP"));
  EXPECT_FALSE(body_.failed());
  Read();
  Read();
  EXPECT_THAT(got_, ElementsAre("one", "two", "not HTTP"));
}

TEST_F(BodyTest, WhatNobodyReadsIsNoLongerCounted) {
  {
    Body other([] {}, all_held_);
    other.Read([](const auto&) {});
    other.Give("taken");
    other.Give("held");
    EXPECT_EQ(all_held_, 4u);
  }
  EXPECT_EQ(all_held_, 0u);
}

}  // namespace
}  // namespace recollect::http
