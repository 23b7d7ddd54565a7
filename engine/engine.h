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
// Every function that takes an id, options or a request fails with INVALID_ARGUMENT beyond the
// limits of step/limits.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/stats.h"
#include "engine/streams.h"
#include "engine/types.h"
#include "store/document_store.h"

namespace recollect::model {
class Model;
}

namespace recollect::engine {

struct LoadedModel;  // engine/backend/loaded_model.h

class Engine {
 public:
  // Takes ownership of the store. Deletes what an earlier process left behind (removed documents,
  // sessions' chunks).
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const EngineOptions& options, LoadedModel model, std::unique_ptr<store::DocumentStore> store);
  virtual ~Engine() = default;  // like Shutdown with a deadline in the past

  virtual const model::Model& model() const = 0;
  virtual EngineStats stats() const = 0;

  // Returns UNAVAILABLE once a device that the engine uses is lost; requests that need the device
  // then fail with it, too.
  virtual absl::Status health() const = 0;

  // Begins to write a document as the model keeps it (ModelConfig::documents): chunks, text, or a
  // prefix under the pattern of `session`, whose other fields must be unset. ABORTED: another
  // stream is writing this id. ALREADY_EXISTS is returned only by Append or Finish, if the content
  // differs from the published document's; sending the same content again succeeds.
  // FAILED_PRECONDITION: the ingest was begun under another fingerprint or pattern (names both).
  // INVALID_ARGUMENT: an id that is empty, longer than 256 bytes, not printable UTF-8 or with a
  // comma; a pattern to which the checkpoint is not adapted, or any pattern where documents are no
  // prefixes. RESOURCE_EXHAUSTED: too many ingests, in all or of the peer (access/places.h); the
  // account's limit of documents or of bytes of text, also later from the stream; from the stream
  // also the state budget. The stream waits while the account has used up its tokens. Blocks on the
  // disk, while the committed input of earlier streams is hashed, and until an ending stream of
  // this id has ended.
  //
  // With `replacement` the input is read from its beginning: an unfinished ingest of this id is
  // forgotten. FAILED_PRECONDITION: the document is not the one that `replacement` names (names
  // both SHA-256); from the stream: the document was deleted meanwhile. One that is appended to
  // must be of this model, kind of input and pattern (else FAILED_PRECONDITION, which names both);
  // its records are copied here, and of its input only what follows its append point is read again
  // (docs/decisions/0052-append.md). ABORTED also: it was replaced just now.
  //
  // `metadata`, a JSON object (store/metadata.h), becomes that of the document when the stream
  // publishes it, or finds it published with the same content. None: what is published keeps its
  // own, and a replacement that of the document which it replaces.
  virtual absl::StatusOr<std::unique_ptr<IngestStream>> BeginIngest(
      const std::string& id, bool from_tokens, const SessionOptions& session,
      const Origin& origin = {}, const std::optional<Replacement>& replacement = {},
      const std::optional<std::string>& metadata = {}) = 0;

  // The functions from here to ReadText may block on the disk.
  virtual absl::StatusOr<store::DocumentInfo> GetDocument(const std::string& id) = 0;
  // Returns up to `limit` published documents with ids > `after`, in byte order of id, of the
  // `selection`. Damaged documents, of which the metadata is not known, match every filter.
  virtual absl::StatusOr<std::vector<store::DocumentInfo>> ListDocuments(
      const std::string& after, int64_t limit, const DocumentSelection& selection = {}) = 0;
  virtual absl::StatusOr<std::vector<store::IngestProgress>> ListIngests() = 0;
  // Replaces a published document's metadata by a JSON object (store/metadata.h), or sets and
  // removes single keys (RFC 7396: null removes one), and returns the document. What mounts it
  // stays as it is. NOT_FOUND.
  virtual absl::StatusOr<store::DocumentInfo> SetMetadata(const std::string& id,
                                                          const std::string& metadata,
                                                          MetadataChange change) = 0;
  // Deletes the document and abandons an unfinished ingest of that id. Sessions that mount the
  // document keep it until they end. Blocks; for an ingest, until the engine has read and committed
  // the input that was sent before, also by other streams. NOT_FOUND.
  virtual absl::Status DeleteDocument(const std::string& id) = 0;
  virtual absl::StatusOr<std::string> ReadText(const std::string& id, int64_t begin,
                                               int64_t end) = 0;

  // Reads a published document's text again under this model, whatever model read it before, and
  // replaces the document by the result. Until then the document is unchanged. Progress is
  // committed as in an ingest, and a later call continues from there, also after a restart. A
  // prefix is made under the model's own pattern. If the document is this model's already, `done`
  // receives it at once. `progress` reports from time to time how much is read; `done` comes last,
  // exactly once. NOT_FOUND; FAILED_PRECONDITION: it was ingested as token ids (names it), or was
  // deleted meanwhile; ABORTED: another stream is writing this id; RESOURCE_EXHAUSTED: too many
  // ingests, in all or of the peer. The account is charged for the tokens, not for the document and
  // its bytes. Blocks on the disk like BeginIngest.
  virtual std::shared_ptr<RequestHandle> RefreshDocument(
      const std::string& id, const Origin& origin,
      std::function<void(const IngestStatus&)> progress,
      std::function<void(absl::StatusOr<store::DocumentInfo>)> done) = 0;

  // Begins an export. NOT_FOUND; FAILED_PRECONDITION: a document of another model (names both
  // fingerprints). May block on the disk.
  virtual absl::StatusOr<std::unique_ptr<ExportStream>> ExportDocument(const std::string& id) = 0;
  // Begins an import. `id`: the document's new id; empty: the id in the file. The stream asks
  // `may_have` about the resulting id before it reports anything else about that id.
  // RESOURCE_EXHAUSTED: as BeginIngest, since imports and ingests share their places; from the
  // stream also if the account has no room for the document or its bytes of text. From the stream:
  // INVALID_ARGUMENT: not a document file, text that is not UTF-8, or an id that BeginIngest
  // refuses; FAILED_PRECONDITION: a document of another model (names both fingerprints), or a file
  // of a newer version; ALREADY_EXISTS: the id is taken, also by an unfinished ingest; ABORTED:
  // another stream is writing it; DATA_LOSS: a damaged or truncated file.
  virtual absl::StatusOr<std::unique_ptr<ImportStream>> ImportDocument(
      const std::string& id, const Origin& origin = {}, IdCheck may_have = nullptr) = 0;

  // Like store::DocumentStore::Backup. Blocks.
  virtual absl::StatusOr<store::BackupInfo> CreateBackup(const std::string& directory,
                                                         uint32_t keep) = 0;
  // Like store::DocumentStore::ListBackups. Blocks.
  virtual absl::StatusOr<std::vector<store::BackupInfo>> ListBackups(
      const std::string& directory) = 0;

  // Opens a session. NOT_FOUND: a mounted document does not exist; INVALID_ARGUMENT: a document
  // mounted twice, a pattern to which the checkpoint is not adapted; FAILED_PRECONDITION: another
  // fingerprint, a prefix of another pattern or a document behind a prefix; RESOURCE_EXHAUSTED:
  // landmark or state budget (names both sizes) or too many sessions, in all, of the peer
  // (access/places.h) or of the account. Reads landmark keys, tokens or a prefix's state: may block
  // on disk.
  virtual absl::StatusOr<SessionId> OpenSession(const SessionOptions& options,
                                                const Origin& origin = {}) = 0;
  virtual absl::StatusOr<SessionInfo> GetSession(SessionId id) = 0;
  virtual absl::Status CloseSession(SessionId id) = 0;
  // Makes a document of the text that an open session has read and generated: without passages, and
  // without a prompt that was broken off. The session goes on, and may be saved again under that
  // id: a document whose text the session's begins with is replaced. `done` comes last, exactly
  // once. NOT_FOUND; ABORTED: another request uses the session, or another stream is writing the
  // id; ALREADY_EXISTS: the id has another text, and SaveAs::replace is not set;
  // FAILED_PRECONDITION: the session has no text, or the id has an unfinished ingest;
  // else as BeginIngest, and like it blocks on the disk.
  virtual std::shared_ptr<RequestHandle> SaveSession(
      SessionId session, const SaveAs& as, const Origin& origin,
      std::function<void(absl::StatusOr<store::DocumentInfo>)> done) = 0;

  // The next four functions fail with RESOURCE_EXHAUSTED while the account's tokens are used up
  // and, for a request without an open session, while the account may have no further session.
  // `events` is kept until its OnDone or OnError has returned. With `save_as`, Generate fails
  // before the first token as SaveSession does.
  virtual std::shared_ptr<RequestHandle> Generate(GenerateRequest request,
                                                  std::shared_ptr<GenerateEvents> events) = 0;
  virtual std::shared_ptr<RequestHandle> Score(
      ScoreRequest request, std::function<void(absl::StatusOr<ScoreResult>)> done) = 0;
  // Returns one list per group; if k is n_ret, the lists that Generate's first retrieval after the
  // prompt would use. For documents that are kept as text, returns one list, found by the query's
  // words without a step of the layers. FAILED_PRECONDITION: a model whose documents are prefixes.
  virtual std::shared_ptr<RequestHandle> Retrieve(
      RetrieveRequest request,
      std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done) = 0;

  // Returns the embedding of a text. kLandmark: the landmark key of the text as the first chunk of
  // a document; INVALID_ARGUMENT for a text of more than one chunk. kQuery: the query with which
  // Retrieve searches after the text. FAILED_PRECONDITION: a family without landmarks.
  virtual std::shared_ptr<RequestHandle> Embed(
      EmbedRequest request, std::function<void(absl::StatusOr<Embedding>)> done) = 0;

  // Refuses new work (UNAVAILABLE), lets running requests finish until `deadline`, then cancels
  // them; commits what open ingests have encoded; stops all threads. Blocks.
  virtual void Shutdown(absl::Time deadline) = 0;
};

}  // namespace recollect::engine
