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
// must not block: from inside one, only Generate, Score, Retrieve, Append, Finish and Cancel may be
// called.
#ifndef RECOLLECT_ENGINE_ENGINE_H_
#define RECOLLECT_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/backend/loaded_model.h"
#include "engine/metrics.h"
#include "model/model.h"
#include "store/document_store.h"

namespace recollect::engine {

struct EngineOptions {
  int fetch_threads = 2;  // blocking reads of the store
  // Device tier: landmark keys of mounted documents, and memory K, V of hot chunks. Host tier:
  // chunk states.
  int64_t landmark_budget_bytes = int64_t{1} << 30;
  int64_t memory_budget_bytes = int64_t{256} << 20;
  int64_t host_budget_bytes = int64_t{512} << 20;
  // Local states of all sessions, and of prefixes that are being ingested.
  int64_t state_budget_bytes = int64_t{4} << 30;
  int64_t ingest_slice_tokens = 1024;  // most tokens of one ingest slice
  int64_t shared_slice_tokens = 128;   // the same while any session decodes; streams wait for it
  int64_t prefill_slice_tokens = 512;  // most prompt tokens of one step, over all sessions
  int64_t commit_tokens = 16384;       // an ingest commits at least this often
  int64_t max_sessions = 256;
  int64_t max_queued = 256;  // requests waiting; one more is RESOURCE_EXHAUSTED
  int64_t max_batch = 64;    // sessions in one step
  int64_t max_ingests = 64;  // open at once; one more is RESOURCE_EXHAUSTED
  absl::Duration session_ttl = absl::Minutes(30);  // an idle open session is closed
};

// --- ingest ---

struct IngestStatus {
  int64_t committed_offset = 0;               // input a resumed ingest need not send again
  int64_t accepted_offset = 0;                // input accepted so far
  int64_t bytes = 0, tokens = 0, chunks = 0;  // encoded so far, committed or not
  double tokens_per_s = 0;                    // of this stream
  // Hex SHA-256 of the input that earlier streams committed: its bytes, or its token ids as
  // little-endian int32. Empty if nothing was committed.
  std::string committed_sha256;
};

// Cancels between steps; harmless after the end.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  virtual void Cancel() = 0;
};

// One writer of one document. If it is destroyed before Finish is answered, or ended by an error of
// the content or of the store, what was committed is kept for a later stream to resume. If nothing
// was committed, nothing is kept.
class IngestStream {
 public:
  virtual ~IngestStream() = default;
  virtual IngestStatus status() const = 0;
  // Takes the next piece of input, which starts at `offset` (bytes of text; for token input,
  // tokens). INVALID_ARGUMENT: a gap or overlap (names both offsets), text that is not UTF-8 (names
  // the byte), a token id that is reserved (landmark, unknown) or outside the vocabulary. `done` is
  // called once, after the piece has been encoded as far as possible: whole blocks, and text once
  // some kilobytes have arrived. The next piece may be sent before that, up to a bound
  // (RESOURCE_EXHAUSTED). After a gap, an overlap or RESOURCE_EXHAUSTED the stream continues as if
  // the piece had not been sent.
  using AppendDone = std::function<void(absl::StatusOr<IngestStatus>)>;
  virtual void Append(int64_t offset, std::string text, AppendDone done) = 0;
  virtual void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) = 0;
  // Encodes the tail as a short chunk and publishes. INVALID_ARGUMENT for a document without
  // tokens.
  virtual void Finish(std::function<void(absl::StatusOr<store::DocumentInfo>)> done) = 0;
  // Ends it from any thread: what is not done with is CANCELLED at once, later calls are too. May
  // outlive the stream. Null: nothing of it takes long.
  virtual std::shared_ptr<RequestHandle> handle() const { return nullptr; }
};

// --- generation ---

enum class SessionId : uint64_t {};

struct SessionOptions {
  // Document ids, in order. Without landmarks at most one, ingested under the same pattern: the
  // session begins with it as if it had read the document's tokens itself.
  std::vector<std::string> mounts;
  // Replaces the checkpoint's value in every layer and head; must be one the checkpoint was adapted
  // to.
  std::optional<int64_t> dilation = {}, window = {}, initial = {};
  // For hybrids: numbers by layer and head, in place of the single number above; empty: not used.
  model::LayerNumbers layer_dilations = {}, layer_windows = {}, layer_initials = {};
  std::optional<int64_t> context = {};  // positions to stretch the position encoding to
  int64_t top_k_blocks = 0;             // top-k blocks of each query; 0: none
  bool random_chunks = false;  // control for recall tests: replaces the retrieved chunks by
                               // chunks drawn at random from the same candidates
  friend bool operator==(const SessionOptions&, const SessionOptions&) = default;
};

struct Sampling {
  double temperature = 0;  // 0: greedy
  double top_p = 1;
  int64_t top_k = 0;  // 0: all
  uint64_t seed = 0;
  // DRY (sampler.h) of the tokens that the request has generated; 0: off.
  double dry_multiplier = 0;
  int64_t dry_allowed_length = 2;
};

// A prompt is text or token ids, never both.
struct Prompt {
  std::string text;
  std::vector<int32_t> tokens;
};

// All sampled tokens become part of the session, including those of a stop string, but not the end
// token. After an error in the middle of a step (DATA_LOSS, a full disk, a lost device) the session
// can only be closed, and later requests are FAILED_PRECONDITION. After cancellation or a deadline
// the session keeps what it has processed. Deadlines, including Shutdown's, are in SteadyNow() time
// (base/clock.h).
struct GenerateRequest {
  std::optional<SessionId> session;  // an open session; if absent, a new one with `session_options`
  SessionOptions session_options;
  Prompt prompt;
  // Close the block after the prompt, so that the answer retrieves with all of the prompt. No
  // effect in a family without blocks; the same holds for ScoreRequest::flush_after.
  bool flush = true;
  Sampling sampling;
  int64_t max_tokens = 128;  // 0: only read the prompt
  // Generation ends before the first of these; the stop itself is not emitted. At most 16, each of
  // 1 to 256 bytes of UTF-8.
  std::vector<std::string> stop;
  bool ignore_eos = false;  // treat the end token like any other token
  // OnRetrieval is called, for landmarks of the prompt too, in order of position, then group.
  bool want_hits = false;
  absl::Time deadline = absl::InfiniteFuture();
};

enum class Tier { kDevice, kHost, kStore };

struct Hit {
  std::string document;  // empty: the session's own chunk
  int64_t chunk = 0;
  float score = 0;  // raw r_e
  float weight = 0;
  int64_t text_begin = 0, text_end = 0;  // byte range in the document's text
  Tier tier = Tier::kDevice;             // the tier it came from
  OwnerId owner{};                       // the chunk's; a later document of that name has another
};

// What one group retrieved at one landmark position.
struct Retrieval {
  int64_t position = 0;
  int group = 0;
  int64_t candidates = 0;
  std::vector<Hit> hits;  // best first
};

enum class FinishReason { kMaxTokens, kStop, kEos };

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  absl::Duration time_to_first_token;
  absl::Duration generation_time;  // from the first to the last token
};

// Receives one generation. OnDone or OnError comes last, exactly once.
class GenerateEvents {
 public:
  virtual ~GenerateEvents() = default;
  // `text` is valid UTF-8: bytes of an unfinished character, or of a possible stop string, are held
  // back.
  virtual void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) = 0;
  virtual void OnRetrieval(const Retrieval& retrieval) = 0;
  virtual void OnDone(FinishReason reason, const Usage& usage) = 0;
  virtual void OnError(const absl::Status& status) = 0;
};

struct ScoreRequest {
  SessionOptions session_options;
  Prompt prompt;  // scored from its first token on
  // Token counts after which the block is closed early, ascending.
  std::vector<int64_t> flush_after;
  absl::Time deadline = absl::InfiniteFuture();
};

struct ScoreResult {
  std::vector<int32_t> tokens;
  // For each token: its log probability (natural) given all tokens before it, and the most likely
  // token in its place. If no landmark begins the sequence (the family has none, or landmarks end
  // their blocks) and no prefix is mounted, nothing precedes the first token: 0 and -1.
  std::vector<float> logprobs;
  std::vector<int32_t> argmax;
  int64_t text_bytes = 0;
};

struct RetrieveRequest {
  SessionOptions session_options;
  Prompt query;
  int64_t k = 0;  // hits per group; 0: the model's n_ret
  absl::Time deadline = absl::InfiniteFuture();
};

struct SessionInfo {
  SessionId id{};
  std::vector<std::string> mounts;
  int64_t positions = 0;
  int64_t own_chunks = 0;
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

  // Makes chunks, or in a family without landmarks a prefix, under the pattern of `session`, whose
  // other fields must be unset. ABORTED: another stream is writing this id. ALREADY_EXISTS is
  // returned only by Append or Finish, if the content differs from the published document's;
  // sending the same content again succeeds. FAILED_PRECONDITION: the ingest was begun under
  // another fingerprint or pattern (names both). INVALID_ARGUMENT: an id that is empty, longer than
  // 256 bytes or not printable UTF-8; a pattern to which the checkpoint is not adapted, or any
  // pattern in a family with landmarks. RESOURCE_EXHAUSTED: too many ingests, in all or of `peer`
  // (engine/places.h); also later from the stream: the state budget.
  virtual absl::StatusOr<std::unique_ptr<IngestStream>> BeginIngest(
      const std::string& id, bool from_tokens, const SessionOptions& session,
      const std::string& peer = "") = 0;

  virtual absl::StatusOr<store::DocumentInfo> GetDocument(const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<store::DocumentInfo>> ListDocuments(const std::string& after,
                                                                         int64_t limit) = 0;
  virtual absl::StatusOr<std::vector<store::IngestProgress>> ListIngests() = 0;
  // Also abandons an unfinished ingest of that id. Sessions that mount the document keep it until
  // they end. NOT_FOUND.
  virtual absl::Status DeleteDocument(const std::string& id) = 0;
  virtual absl::StatusOr<std::string> ReadText(const std::string& id, int64_t begin,
                                               int64_t end) = 0;

  // NOT_FOUND: a mounted document does not exist; INVALID_ARGUMENT: a document mounted twice, a
  // pattern to which the checkpoint is not adapted; FAILED_PRECONDITION: another fingerprint, a
  // prefix of another pattern or a document behind a prefix; RESOURCE_EXHAUSTED: landmark or state
  // budget (names both sizes) or too many sessions, in all or of `peer` (engine/places.h). Reads
  // landmark keys or a prefix's state: may block on disk.
  virtual absl::StatusOr<SessionId> OpenSession(const SessionOptions& options,
                                                const std::string& peer = "") = 0;
  virtual absl::StatusOr<SessionInfo> GetSession(SessionId id) = 0;
  virtual absl::Status CloseSession(SessionId id) = 0;

  // `events` is kept until its OnDone or OnError has returned.
  virtual std::shared_ptr<RequestHandle> Generate(GenerateRequest request,
                                                  std::shared_ptr<GenerateEvents> events) = 0;
  virtual std::shared_ptr<RequestHandle> Score(
      ScoreRequest request, std::function<void(absl::StatusOr<ScoreResult>)> done) = 0;
  // Returns one list per group; if k is n_ret, the lists that Generate's first retrieval after the
  // prompt would use. FAILED_PRECONDITION: a family without landmarks.
  virtual std::shared_ptr<RequestHandle> Retrieve(
      RetrieveRequest request,
      std::function<void(absl::StatusOr<std::vector<Retrieval>>)> done) = 0;

  // Refuses new work (UNAVAILABLE), lets running requests finish until `deadline`, then cancels
  // them; commits what open ingests have encoded; stops all threads. Blocks.
  virtual void Shutdown(absl::Time deadline) = 0;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_ENGINE_H_
