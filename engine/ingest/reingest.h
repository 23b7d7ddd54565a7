// A stream for a document that is already published: the input is compared with the stored
// document, and nothing is written, but for metadata that comes with an input which is the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "engine/ingest/ingest_context.h"
#include "engine/session/mounts.h"
#include "engine/streams.h"
#include "store/document_store.h"

namespace recollect::engine {

// Thread-safe.
class ReingestCheck final : public IngestStream,
                            public std::enable_shared_from_this<ReingestCheck> {
 public:
  ReingestCheck(const IngestContext& context, Pin pin, bool from_tokens,
                std::optional<std::string> metadata);

  IngestStatus status() const override;
  void Append(int64_t offset, std::string text, AppendDone done) override;
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override;
  void Commit(AppendDone done) override;
  void Finish(FinishDone done) override;

  // Releases the document; from now on every call fails with `status`.
  void Close(const absl::Status& status);

 private:
  int64_t length() const { return from_tokens_ ? info_.tokens : info_.bytes; }
  const char* unit() const { return from_tokens_ ? " tokens" : " bytes"; }
  absl::Status Other(absl::string_view what) const;
  absl::Status CheckKind() const;
  template <typename Content>
  void Post(int64_t offset, Content content, AppendDone done);
  template <typename Content>
  absl::Status Compare(int64_t offset, const Content& content);
  template <typename Content>
  absl::Status CompareWithStored(const Content& content) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string> Stored(const std::string&, int64_t begin, int64_t end);
  absl::StatusOr<std::vector<int32_t>> Stored(const std::vector<int32_t>&, int64_t begin,
                                              int64_t end);
  absl::StatusOr<store::DocumentInfo> Described();
  absl::StatusOr<store::DocumentInfo> End();

  store::Catalog& catalog_;
  store::DocumentReader& reader_;
  const std::shared_ptr<Executor> thread_;
  Counters& counters_;
  const store::DocumentInfo info_;
  const bool from_tokens_;
  const std::optional<std::string> metadata_;
  mutable Mutex mutex_;
  Pin pin_ ABSL_GUARDED_BY(mutex_);
  int64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::engine
