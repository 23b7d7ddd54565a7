// The engine: sessions, mounts, retrieval, tiers and the one scheduler that batches all work. The
// service and the command line's embedded mode call it; it knows no RPCs.
//
//   auto model = LoadModel("cpu", directory, dtype);  // engine/backend/devices.h
//   auto engine = Engine::Create(options, *std::move(model), std::move(store));
//   auto ingest = engine->BeginIngest("moby-dick", /*from_tokens=*/false);
//   ingest->Append(0, text, [](auto progress) { … });
//   engine->Generate(request, events);
//
// Threads: every public function may be called from any thread, and none blocks on computation or
// disk unless its comment says so. Callbacks come from engine threads, one at a time per call, and
// must not block: from inside one, only Generate, Score, Retrieve, Embed, Append, Commit, Finish
// and Cancel may be called.
//
// Every function that takes an id, options or a request is INVALID_ARGUMENT beyond the limits of
// step/limits.h.
#ifndef RECOLLECT_ENGINE_ENGINE_H_
#define RECOLLECT_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/types.h"
#include "store/document_store.h"

namespace recollect::model {
class Model;
}

namespace recollect::engine {

struct LoadedModel;  // engine/backend/loaded_model.h

// Cancels between steps; harmless after the end.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  virtual void Cancel() = 0;
};

// One writer of one document. FAILED_PRECONDITION once the document has been deleted, or another
// server has taken it over: nobody tries again, as that would undo it. If it is destroyed before
// Finish is answered, or ended by an error of the content or of the store, what was committed is
// kept for a later stream to resume. If nothing was committed, nothing is kept.
class IngestStream {
 public:
  virtual ~IngestStream() = default;
  virtual IngestStatus status() const = 0;
  // Takes the next piece of input, which starts at `offset` (bytes of text; for token input,
  // tokens). INVALID_ARGUMENT: a gap or overlap (names both offsets), text that is not UTF-8 (names
  // the byte), a token id that is reserved (landmark, unknown) or outside the vocabulary. `done` is
  // called once, after the piece has been encoded as far as possible: whole blocks, and text once
  // some kilobytes have arrived. A stream takes one piece at a time: one that is sent before that
  // is FAILED_PRECONDITION. After this, a gap or an overlap the stream continues as if the piece
  // had not been sent.
  using AppendDone = std::function<void(absl::StatusOr<IngestStatus>)>;
  virtual void Append(int64_t offset, std::string text, AppendDone done) = 0;
  virtual void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) = 0;
  // Commits what has been encoded: for a caller who breaks off here, and may resume at the answer's
  // committed_offset. That lies up to some kilobytes before accepted_offset, since whole blocks are
  // encoded, and text once some kilobytes have arrived. FAILED_PRECONDITION: a piece or another
  // commit is not answered yet; until this one is, pieces are refused so.
  virtual void Commit(AppendDone done) = 0;
  // Encodes the tail as a short chunk and publishes. INVALID_ARGUMENT for a document without
  // tokens.
  virtual void Finish(std::function<void(absl::StatusOr<store::DocumentInfo>)> done) = 0;
  // Ends it from any thread: what is not done with is CANCELLED at once, later calls are too. May
  // outlive the stream. Null: nothing of it takes long.
  virtual std::shared_ptr<RequestHandle> handle() const { return nullptr; }
};

// A published document as the bytes of a file (store/document_file.h). The document stays readable
// while this exists. Not thread-safe, and must not outlive the engine, like the next.
class ExportStream {
 public:
  virtual ~ExportStream() = default;
  virtual const store::DocumentInfo& document() const = 0;
  // The next bytes, up to a few MiB; empty behind the end. Blocks on the disk.
  virtual absl::StatusOr<std::string> Next() = 0;
};

// The way back: takes the bytes of such a file, in pieces of any size, and publishes the document.
// Until then nobody sees it; if this is destroyed before, or the process ends, nothing is left.
class ImportStream {
 public:
  virtual ~ImportStream() = default;
  // Both block on the disk. After an error all calls return it.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  virtual absl::StatusOr<store::DocumentInfo> Finish() = 0;
};

// Whether a document may have that id. Its error is the call's; until it is OK nothing is written.
using IdCheck = std::function<absl::Status(const std::string& id)>;

// Receives one generation. OnDone or OnError comes last, exactly once.
class GenerateEvents {
 public:
  virtual ~GenerateEvents() = default;
  // `text` is valid UTF-8: bytes of an unfinished character, or of a possible stop string, are held
  // back.
  virtual void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) = 0;
  // If asked for, before OnTokens of that token; also for an end token, of which OnTokens is not
  // told.
  virtual void OnLogprobs(const ChosenLogprob& /*token*/) {}
  virtual void OnRetrieval(const Retrieval& retrieval) = 0;
  virtual void OnDone(FinishReason reason, const Usage& usage) = 0;
  virtual void OnError(const absl::Status& status) = 0;
};

class Engine {
 public:
  // Takes ownership of the store. Deletes what an earlier process left behind (removed documents,
  // sessions' chunks).
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const EngineOptions& options, LoadedModel model, std::unique_ptr<store::DocumentStore> store);
  virtual ~Engine() = default;  // like Shutdown with a deadline in the past

  virtual const model::Model& model() const = 0;
  virtual EngineStats stats() const = 0;

  // UNAVAILABLE once a device that the engine uses is lost; requests that need the device then fail
  // with it, too.
  virtual absl::Status health() const = 0;

  // Makes what the model keeps of documents (ModelConfig::documents): chunks, text, or a prefix
  // under the pattern of `session`, whose other fields must be unset. ABORTED: another stream is
  // writing this id. ALREADY_EXISTS is returned only by Append or Finish, if the content differs
  // from the published document's; sending the same content again succeeds. FAILED_PRECONDITION:
  // the ingest was begun under another fingerprint or pattern (names both). INVALID_ARGUMENT: an id
  // that is empty, longer than 256 bytes, not printable UTF-8 or with a comma; a pattern to which
  // the checkpoint is not adapted, or any pattern where documents are no prefixes.
  // RESOURCE_EXHAUSTED: too many ingests, in all or of the peer (engine/places.h); the account's
  // documents or bytes of text; these also later from the stream, and the state budget. An account
  // that has used its tokens makes the stream wait. Blocks on the disk, while what earlier streams
  // committed is hashed, and until one of this id has ended.
  virtual absl::StatusOr<std::unique_ptr<IngestStream>> BeginIngest(const std::string& id,
                                                                    bool from_tokens,
                                                                    const SessionOptions& session,
                                                                    const Origin& origin = {}) = 0;

  // From here to ReadText: may block on the disk.
  virtual absl::StatusOr<store::DocumentInfo> GetDocument(const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<store::DocumentInfo>> ListDocuments(const std::string& after,
                                                                         int64_t limit) = 0;
  virtual absl::StatusOr<std::vector<store::IngestProgress>> ListIngests() = 0;
  // Also abandons an unfinished ingest of that id. Sessions that mount the document keep it until
  // they end. Blocks, for an ingest until the engine has read and committed what was sent before,
  // also by other streams. NOT_FOUND.
  virtual absl::Status DeleteDocument(const std::string& id) = 0;
  virtual absl::StatusOr<std::string> ReadText(const std::string& id, int64_t begin,
                                               int64_t end) = 0;

  // Reads a published document's text again under this model, whatever model it was read by before,
  // and puts what comes of it in its place. Until then the document is as it was; what was read of
  // it is committed as by an ingest, and a later call goes on from there, also after a restart. A
  // prefix is made under the model's own pattern. Returns the document at once if it is this
  // model's. `progress` says from time to time how much is read; `done` comes last, exactly once.
  // NOT_FOUND; FAILED_PRECONDITION: it was ingested as token ids (names it); ABORTED: another
  // stream is writing this id, or the document was deleted meanwhile; RESOURCE_EXHAUSTED: too many
  // ingests, in all or of the peer. An account pays for the tokens; its documents and bytes stay
  // as they are. Blocks on the disk as BeginIngest.
  virtual std::shared_ptr<RequestHandle> RefreshDocument(
      const std::string& id, const Origin& origin,
      std::function<void(const IngestStatus&)> progress,
      std::function<void(absl::StatusOr<store::DocumentInfo>)> done) = 0;

  // NOT_FOUND; FAILED_PRECONDITION: a document of another model (names both fingerprints). May
  // block on the disk.
  virtual absl::StatusOr<std::unique_ptr<ExportStream>> ExportDocument(const std::string& id) = 0;
  // `id`: the document's new name; empty: the one that the file has. `may_have` is asked by the
  // stream about the one that it gets, before anything else is said of that name.
  // RESOURCE_EXHAUSTED: as BeginIngest, among whose places an import counts; from the stream also
  // where the account's documents or bytes of text do not leave room for this one. From the stream:
  // INVALID_ARGUMENT: not a document file, text that is not UTF-8, or a name as in BeginIngest;
  // FAILED_PRECONDITION: a document of another model
  // (names both fingerprints), or a file of a newer version; ALREADY_EXISTS: the id, also of an
  // unfinished ingest; ABORTED: another stream is writing it; DATA_LOSS: a damaged or cut file.
  virtual absl::StatusOr<std::unique_ptr<ImportStream>> ImportDocument(
      const std::string& id, const Origin& origin = {}, IdCheck may_have = nullptr) = 0;

  // As DocumentStore::Backup. Blocks.
  virtual absl::StatusOr<store::BackupInfo> CreateBackup(const std::string& directory,
                                                         uint32_t keep) = 0;
  // As DocumentStore::ListBackups. Blocks.
  virtual absl::StatusOr<std::vector<store::BackupInfo>> ListBackups(
      const std::string& directory) = 0;

  // NOT_FOUND: a mounted document does not exist; INVALID_ARGUMENT: a document mounted twice, a
  // pattern to which the checkpoint is not adapted; FAILED_PRECONDITION: another fingerprint, a
  // prefix of another pattern or a document behind a prefix; RESOURCE_EXHAUSTED: landmark or state
  // budget (names both sizes) or too many sessions, in all, of the peer (engine/places.h) or of the
  // account. Reads landmark keys, tokens or a prefix's state: may block on disk.
  virtual absl::StatusOr<SessionId> OpenSession(const SessionOptions& options,
                                                const Origin& origin = {}) = 0;
  virtual absl::StatusOr<SessionInfo> GetSession(SessionId id) = 0;
  virtual absl::Status CloseSession(SessionId id) = 0;

  // These four are RESOURCE_EXHAUSTED while the account's tokens are used up, or for one that
  // brings no session while it may have no further one. `events` is kept until its OnDone or
  // OnError has returned.
  virtual std::shared_ptr<RequestHandle> Generate(GenerateRequest request,
                                                  std::shared_ptr<GenerateEvents> events) = 0;
  virtual std::shared_ptr<RequestHandle> Score(
      ScoreRequest request, std::function<void(absl::StatusOr<ScoreResult>)> done) = 0;
  // Returns one list per group; if k is n_ret, the lists that Generate's first retrieval after the
  // prompt would use. Of documents that are kept as text one list, by the query's words; nothing
  // runs for it. FAILED_PRECONDITION: a model whose documents are prefixes.
  virtual std::shared_ptr<RequestHandle> Retrieve(
      RetrieveRequest request,
      std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done) = 0;

  // kLandmark: the key of the chunk that the text is, as if a document began with it;
  // INVALID_ARGUMENT for a text of more than one chunk. kQuery: what Retrieve searches with after
  // the text. FAILED_PRECONDITION: a family without landmarks.
  virtual std::shared_ptr<RequestHandle> Embed(
      EmbedRequest request, std::function<void(absl::StatusOr<Embedding>)> done) = 0;

  // Refuses new work (UNAVAILABLE), lets running requests finish until `deadline`, then cancels
  // them; commits what open ingests have encoded; stops all threads. Blocks.
  virtual void Shutdown(absl::Time deadline) = 0;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_ENGINE_H_
