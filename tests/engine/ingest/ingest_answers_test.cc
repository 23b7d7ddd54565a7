#include "engine/ingest/ingest_answers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace recollect::engine {
namespace {

constexpr auto kState = absl::StatusCode::kFailedPrecondition;

class IngestAnswersTest : public ::testing::Test {
 protected:
  IngestAnswers::AppendDone Note(const std::string& who) {
    return [this, who](const absl::StatusOr<IngestStatus>&) { told_.push_back(who); };
  }
  IngestAnswers::FinishDone NoteFinish() {
    return [this](const absl::StatusOr<store::DocumentInfo>&) { told_.push_back("finish"); };
  }

  IngestAnswers answers_{.accepted_offset = 10};
  std::vector<std::string> told_;
};

TEST_F(IngestAnswersTest, OnePieceOrCommitWaits) {
  EXPECT_THAT(answers_.CheckPiece(9),
              StatusIs(absl::StatusCode::kInvalidArgument, "piece.offset: 9, expected 10"));
  ASSERT_THAT(answers_.CheckPiece(10), IsOk());
  answers_.TakePiece(5, Note("piece"));
  EXPECT_THAT(answers_.CheckPiece(15),
              StatusIs(kState, "the piece that ends at offset 15 is not answered yet"));
  IngestAnswers::AppendDone commit = Note("commit");
  EXPECT_THAT(answers_.TakeCommit(commit), StatusIs(kState, "the piece that ends at offset 15"));
  EXPECT_TRUE(commit);  // still the caller's
  answers_.callers.append = nullptr;
  ASSERT_THAT(answers_.TakeCommit(commit), IsOk());
  EXPECT_THAT(answers_.CheckPiece(15), StatusIs(kState, "the commit at offset 15"));
  IngestAnswers::FinishDone finish = NoteFinish();
  EXPECT_THAT(answers_.TakeFinish(finish), StatusIs(kState, "the commit at offset 15"));
  EXPECT_EQ(answers_.stage, IngestStage::kOpen);
}

TEST_F(IngestAnswersTest, NothingFollowsFinish) {
  answers_.TakePiece(5, Note("piece"));
  IngestAnswers::FinishDone finish = NoteFinish(), again = NoteFinish();
  ASSERT_THAT(answers_.TakeFinish(finish), IsOk());  // the piece may still wait
  EXPECT_EQ(answers_.stage, IngestStage::kFinishing);
  EXPECT_THAT(answers_.CheckOpen(), StatusIs(kState, "the stream was finished"));
  EXPECT_THAT(answers_.TakeFinish(again), StatusIs(kState, "the stream was finished before"));
}

TEST_F(IngestAnswersTest, TheFirstEndCountsAndAllAreToldOnce) {
  answers_.TakePiece(5, Note("piece"));
  IngestAnswers::FinishDone finish = NoteFinish();
  ASSERT_THAT(answers_.TakeFinish(finish), IsOk());
  const absl::Status first = absl::CancelledError("first");
  answers_.End(first).Tell(first);
  answers_.End(absl::InternalError("second")).Tell(first);
  EXPECT_EQ(told_, (std::vector<std::string>{"piece", "finish"}));
  EXPECT_THAT(answers_.CheckOpen(), StatusIs(absl::StatusCode::kCancelled, "first"));
  EXPECT_FALSE(answers_.ok());
}

}  // namespace
}  // namespace recollect::engine
