// Goes on from the end of a published document: what was made of it is copied into the ingest of
// the longer one, and the little that more text may change is read again.
#ifndef RECOLLECT_ENGINE_INGEST_APPEND_H_
#define RECOLLECT_ENGINE_INGEST_APPEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ingest/ingest.h"
#include "engine/session/mounts.h"
#include "engine/streams.h"
#include "store/document_store.h"

namespace recollect::engine {

// FAILED_PRECONDITION, which names both: the document is of another model, kind of input or
// pattern.
absl::Status CheckAppend(const store::DocumentInfo& document, bool from_tokens,
                         const std::string& fingerprint, const std::string& pattern);

// Begins the ingest that is to replace `document`, at its append point: with copies of the records
// before it. At the beginning, without any, if the document has none or a damaged one. Blocks while
// it copies. REQUIRES: the document is pinned, and the id has no unfinished ingest.
absl::StatusOr<store::IngestProgress> BeginAppend(const IngestContext& context,
                                                  const store::DocumentInfo& document,
                                                  const std::string& pattern);

// The stream of an append: sends the document's input from `offset` on into `job` first, and then
// what the caller sends, whose offsets begin at 0. The caller's pieces wait meanwhile. Thread-safe.
class AppendStream final : public IngestStream {
 public:
  // `stream` is the job's, and ends it.
  AppendStream(const IngestContext& context, Pin document, int64_t offset,
               std::shared_ptr<IngestJob> job, std::unique_ptr<IngestStream> stream);

  IngestStatus status() const override;
  void Append(int64_t offset, std::string text, AppendDone done) override;
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override;
  void Commit(AppendDone done) override;
  void Finish(IngestJob::FinishDone done) override;
  std::shared_ptr<RequestHandle> handle() const override;

 private:
  class Replay;
  // Runs `call` once the document is read. An `offset` has to be the next one.
  void Take(std::optional<int64_t> offset, AppendDone done, std::function<void(AppendDone)> call);

  const std::shared_ptr<Replay> replay_;
  const std::unique_ptr<IngestStream> stream_;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_INGEST_APPEND_H_
