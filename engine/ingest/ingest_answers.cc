#include "engine/ingest/ingest_answers.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::engine {

void IngestAnswers::Callers::Tell(const absl::Status& error) const {
  if (append) append(error);
  if (commit) commit(error);
  if (finish) finish(error);
}

absl::Status IngestAnswers::CheckOpen(const char* finished) const {
  RETURN_IF_ERROR(ended);
  return stage == IngestStage::kOpen ? absl::OkStatus() : absl::FailedPreconditionError(finished);
}

absl::Status IngestAnswers::CheckAnswered() const {
  if (!callers.append && !callers.commit) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(callers.commit ? "the commit" : "the piece that ends", " at offset ",
                   accepted_offset, " is not answered yet"));
}

absl::Status IngestAnswers::CheckPiece(int64_t offset) const {
  RETURN_IF_ERROR(CheckAnswered());
  if (offset == accepted_offset) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("piece.offset: ", offset, ", expected ", accepted_offset));
}

void IngestAnswers::TakePiece(int64_t size, AppendDone done) {
  accepted_offset += size;
  callers.append = std::move(done);
  append_tokens.reset();
}

absl::Status IngestAnswers::TakeCommit(AppendDone& done) {
  RETURN_IF_ERROR(CheckOpen());
  RETURN_IF_ERROR(CheckAnswered());
  callers.commit.swap(done);
  return absl::OkStatus();
}

absl::Status IngestAnswers::TakeFinish(FinishDone& done) {
  RETURN_IF_ERROR(CheckOpen("the stream was finished before"));
  if (callers.commit) RETURN_IF_ERROR(CheckAnswered());
  stage = IngestStage::kFinishing;
  callers.finish.swap(done);
  return absl::OkStatus();
}

IngestAnswers::Callers IngestAnswers::End(const absl::Status& why) {
  if (ended.ok()) ended = why;
  return std::exchange(callers, {});
}

}  // namespace recollect::engine
