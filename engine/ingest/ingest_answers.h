// Keeps what an ingest owes its caller, and how far the ingest is.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/sync/executor.h"
#include "engine/streams.h"

namespace recollect::engine {

enum class IngestStage {
  kOpen,        // takes pieces
  kFinishing,   // Finish was called: what is left of the input is being read
  kAllRead,     // the queue holds all tokens that are left
  kPublishing,  // the last batch is on its way to the store
  kPublished
};

// Guarded by its owner's mutex, without which answers are given.
struct IngestAnswers {
  using AppendDone = IngestStream::AppendDone;
  using FinishDone = IngestStream::FinishDone;

  // The calls that wait, at most one of each kind; null: none.
  struct Callers {
    AppendDone append, commit;
    FinishDone finish;
    void Tell(const absl::Status& error) const;
  };

  // Whether a call may come now: errors are those of IngestStream. The last two move from `done` if
  // it may, and let it wait.
  absl::Status CheckPiece(int64_t offset) const;
  absl::Status TakeCommit(AppendDone& done);
  absl::Status TakeFinish(FinishDone& done);
  // REQUIRES: CheckPiece has returned OK.
  void TakePiece(int64_t size, AppendDone done);

  // Ends the ingest, and returns who has to be told. The first end counts.
  Callers End(const absl::Status& why);

  // OK unless the ingest has ended or Finish was called, which `finished` says.
  absl::Status CheckOpen(const char* finished = "the stream was finished") const;
  bool ok() const { return ended.ok(); }

  IngestStage stage = IngestStage::kOpen;
  absl::Status ended = {};  // with what; calls get it from then on
  int64_t accepted_offset = 0;
  // Set when the piece is read: it is answered when no complete block is left to encode among the
  // document's first `append_tokens` tokens.
  std::optional<int64_t> append_tokens = {};
  Callers callers = {};

 private:
  absl::Status CheckAnswered() const;
};

// Tells `done` an error on the thread, if it still runs. Callers may hold locks that their callback
// takes too: it never runs inside their call.
template <typename Done>
void Refuse(Executor& thread, Done done, const absl::Status& error) {
  const auto tell = [done = std::move(done), error] { done(error); };
  if (!thread.Post(tell)) tell();
}

}  // namespace recollect::engine
