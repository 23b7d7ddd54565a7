// Goes on from the end of a published document: what was made of it is copied into the ingest of
// the longer one, and the little that more text may change is read again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "engine/ingest/ingest.h"
#include "engine/session/mounts.h"
#include "engine/streams.h"
#include "store/document_store.h"

namespace recollect::engine {

// Begins the ingest that is to replace `document`, at its append point: with copies of the records
// before it. At the beginning, without any, if the document has none or a damaged one. Blocks while
// it copies. REQUIRES: the document is pinned, and the id has no unfinished ingest.
absl::StatusOr<store::IngestProgress> BeginAppend(const IngestContext& context,
                                                  const store::DocumentInfo& document,
                                                  const std::string& pattern);

// The stream of an append: sends the document's input into `job` first, piece after piece on the
// ingest thread, and then what the caller sends, whose offsets begin at 0. The caller's pieces wait
// meanwhile. Thread-safe.
class AppendStream final : public IngestStream, public std::enable_shared_from_this<AppendStream> {
 public:
  AppendStream(const IngestContext& context, Pin document, std::shared_ptr<IngestJob> job);

  // Sends the document's input from `offset` on. To be called once, first.
  void Replay(int64_t offset);

  IngestStatus status() const override;
  void Append(int64_t offset, std::string text, AppendDone done) override;
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override;
  void Commit(AppendDone done) override;
  void Finish(FinishDone done) override;
  std::shared_ptr<RequestHandle> handle() const override { return job_; }

 private:
  absl::Status Send(int64_t offset);
  void End(const absl::Status& status);
  bool RunAfter(std::function<void()> call, bool alone);
  // Runs `call` once the document is read. An `offset` has to be the next one.
  void Take(std::optional<int64_t> offset, AppendDone done, std::function<void(AppendDone)> call);
  AppendDone Relative(AppendDone done);
  IngestStatus Relative(IngestStatus status) const;

  store::DocumentReader& store_;
  const std::shared_ptr<Executor> thread_;
  const std::shared_ptr<IngestJob> job_;
  const int64_t base_;  // the input of the document
  Pin document_;        // used by reading, sending or ending, one at a time
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::engine
