// Bodies in pieces: who asks for one gets it, or hears why none comes.
#include "http/body.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recollect::http {
namespace {

using ::testing::ElementsAre;

class BodyTest : public ::testing::Test {
 protected:
  void Read() {
    body_.Read([this](absl::StatusOr<std::string> piece) {
      got_.push_back(piece.ok() ? *piece : std::string(piece.status().message()));
    });
  }
  int woken_ = 0;
  Body body_{[this] { ++woken_; }};
  std::vector<std::string> got_;
};

TEST_F(BodyTest, APieceIsGivenToWhoAskedForIt) {
  EXPECT_FALSE(body_.wanted());
  Read();
  EXPECT_EQ(woken_, 1);
  EXPECT_TRUE(body_.wanted());
  EXPECT_THAT(got_, ElementsAre());
  body_.Give("one");
  EXPECT_THAT(got_, ElementsAre("one"));
  EXPECT_FALSE(body_.wanted()) << "the next is read when it is asked for";
}

TEST_F(BodyTest, TheNextPieceMayBeAskedForWhereOneIsTaken) {
  body_.Read([this](const auto&) { Read(); });
  body_.Give("one");
  EXPECT_TRUE(body_.wanted());
  EXPECT_EQ(woken_, 2);
  body_.Give("");
  EXPECT_THAT(got_, ElementsAre(""));
}

TEST_F(BodyTest, AnErrorReachesWhoWaitsAndWhoAsksLater) {
  Read();
  body_.Fail(absl::CancelledError("gone"));
  EXPECT_THAT(got_, ElementsAre("gone"));
  EXPECT_FALSE(body_.wanted());
  EXPECT_TRUE(body_.failed());
  body_.Fail(absl::InvalidArgumentError("later"));
  Read();
  EXPECT_THAT(got_, ElementsAre("gone", "gone")) << "the first counts";
  EXPECT_EQ(woken_, 1) << "nobody is there to be woken";
}

}  // namespace
}  // namespace recollect::http
