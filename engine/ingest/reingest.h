// A stream for a document that is already published: the input is compared with the stored
// document, and nothing is written, but for metadata that comes with an input which is the same.
#ifndef RECOLLECT_ENGINE_INGEST_REINGEST_H_
#define RECOLLECT_ENGINE_INGEST_REINGEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/executor.h"
#include "engine/counters.h"
#include "engine/session/mounts.h"
#include "engine/streams.h"
#include "store/document_store.h"

namespace recollect::engine {

// Thread-safe.
class ReingestCheck final : public IngestStream {
 public:
  ReingestCheck(store::DocumentStore& store, std::shared_ptr<Executor> thread, Counters& counters,
                Pin pin, bool from_tokens, std::optional<std::string> metadata = {});
  ~ReingestCheck() override;

  IngestStatus status() const override;
  void Append(int64_t offset, std::string text, AppendDone done) override;
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override;
  void Commit(AppendDone done) override;
  void Finish(std::function<void(absl::StatusOr<store::DocumentInfo>)> done) override;

  // Releases the document; from now on every call fails with `status`.
  void Close(const absl::Status& status);

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_INGEST_REINGEST_H_
