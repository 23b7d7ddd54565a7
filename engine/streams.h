// Declares what a caller holds while a call of the engine runs: handles of requests, streams of
// documents and the events of a generation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/types.h"
#include "store/document_store.h"

namespace recollect::engine {

// The status of calls that come too late.
inline absl::Status ShuttingDown() { return absl::UnavailableError("the engine is shutting down"); }

// Cancels a request between steps; does nothing after its end.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  virtual void Cancel() = 0;
};

class CancelBy final : public RequestHandle {
 public:
  explicit CancelBy(std::function<void()> cancel) : cancel_(std::move(cancel)) {}
  void Cancel() override { cancel_(); }

 private:
  const std::function<void()> cancel_;
};

// Makes an ingest replace the published document of its id: the new document takes its place when
// the ingest ends; until then readers see the old one.
struct Replacement {
  std::string sha256 = {};  // of the document that is to be replaced; empty: any, or none
  // The new document is the old one and, after it, the input, whose offsets count from the old
  // one's end. It is, byte for byte, the document that both together would have made in one ingest.
  bool appends = false;
};

// The only writer of a document. Calls fail with FAILED_PRECONDITION once the document has been
// deleted or another server has taken it over: a retry would undo that. If the stream is destroyed
// before Finish is answered, or ends with an error of the content or of the store, committed input
// is kept for a later stream to resume, except in a replacement. If nothing was committed, nothing
// is kept.
class IngestStream {
 public:
  virtual ~IngestStream() = default;
  virtual IngestStatus status() const = 0;
  // Takes the next piece of input, which starts at `offset` (bytes of text; for token input,
  // tokens). INVALID_ARGUMENT: a gap or overlap (names both offsets), text that is not UTF-8 (names
  // the byte), a token id that is reserved (landmark, unknown) or outside the vocabulary. `done` is
  // called once, after the piece has been encoded as far as possible: whole blocks, and text once
  // some kilobytes have arrived. A stream takes one piece at a time: a piece that is sent before
  // `done` is called fails with FAILED_PRECONDITION. After this error, a gap or an overlap, the
  // stream continues as if the piece had not been sent.
  using AppendDone = std::function<void(absl::StatusOr<IngestStatus>)>;
  virtual void Append(int64_t offset, std::string text, AppendDone done) = 0;
  virtual void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) = 0;
  // Commits what has been encoded, for a caller who stops here and may resume at the answer's
  // committed_offset. It lies up to some kilobytes before accepted_offset, since only whole blocks
  // are encoded, and text only once some kilobytes have arrived. FAILED_PRECONDITION: a piece or
  // another commit is not answered yet; pieces fail in the same way until this commit is answered.
  virtual void Commit(AppendDone done) = 0;
  // Encodes the tail as a short chunk and publishes. INVALID_ARGUMENT for a document without
  // tokens.
  using FinishDone = std::function<void(absl::StatusOr<store::DocumentInfo>)>;
  virtual void Finish(FinishDone done) = 0;
  // Returns a handle that ends the stream from any thread: pending and later calls are CANCELLED at
  // once. It may outlive the stream. Null: no call takes long.
  virtual std::shared_ptr<RequestHandle> handle() const { return nullptr; }
};

// Writes a published document as the bytes of a file (store/document_file.h). The document stays
// readable while this exists. Not thread-safe, and must not outlive the engine.
class ExportStream {
 public:
  virtual ~ExportStream() = default;
  virtual const store::DocumentInfo& document() const = 0;
  // Returns the next bytes, up to a few MiB; empty at the end. Blocks on the disk.
  virtual absl::StatusOr<std::string> Next() = 0;
};

// Reads the bytes of such a file, in pieces of any size, and publishes the document. Until then it
// is invisible; if this is destroyed earlier, or the process ends, nothing is left. Not
// thread-safe, and must not outlive the engine.
class ImportStream {
 public:
  virtual ~ImportStream() = default;
  // Append and Finish block on the disk. After an error all calls return it.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  virtual absl::StatusOr<store::DocumentInfo> Finish() = 0;
};

// Returns OK if a document may have that id; any error becomes the error of the call. Nothing is
// written before it returns OK.
using IdCheck = std::function<absl::Status(const std::string& id)>;

// Receives the events of a generation. OnDone or OnError comes last, exactly once.
class GenerateEvents {
 public:
  virtual ~GenerateEvents() = default;
  // `text` is valid UTF-8: bytes of an unfinished character, or of a possible stop string, are held
  // back.
  virtual void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) = 0;
  // Called, if asked for, before OnTokens of that token; also for an end token, which OnTokens does
  // not receive.
  virtual void OnLogprobs(const ChosenLogprob& /*token*/) {}
  virtual void OnRetrieval(const Retrieval& retrieval) = 0;
  // Called, if asked for, before the first token of an answer that is chosen among candidates: once
  // for each question of the message that has some, or for the message if it is left to the model.
  virtual void OnCandidates(const JudgedCandidates& /*candidates*/) {}
  // Called, with GenerateRequest::save_as, before OnDone: the document, or why there is none.
  virtual void OnSaved(const absl::StatusOr<store::DocumentInfo>& /*document*/) {}
  virtual void OnDone(FinishReason reason, const Usage& usage) = 0;
  virtual void OnError(const absl::Status& status) = 0;
};

}  // namespace recollect::engine
