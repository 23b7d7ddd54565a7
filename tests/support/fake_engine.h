// An Engine without a model, for tests of the service and the client: a token is a byte, a chunk is
// ten, a document lies in a store in memory, and a script says what is generated. It keeps the
// promises of engine/engine.h that callers rely on: tests/engine/engine_contract_test.cc runs over
// both engines.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "access/places.h"
#include "base/sync/executor.h"
#include "engine/engine.h"
#include "engine/session/session_text.h"

namespace recollect {

class FakeEngine final : public engine::Engine {
 public:
  static constexpr int64_t kChunkBytes = 10;
  static constexpr int32_t kEndToken = 2;  // what it has chosen where a generation ends with kEos

  // The output of Generate: a token for each of the pieces, `repeat` times over, but no more tokens
  // than the request takes.
  struct Generation {
    std::vector<std::string> pieces = {"Hel", "lo"};
    int64_t repeat = 1;
    bool then_wait = false;                      // until Cancel, the deadline or Shutdown
    bool then_hang = false;                      // the same, but Shutdown has to cancel it
    absl::Status then_error = absl::OkStatus();  // in place of the end
    // The reason if it ends before its limit of tokens.
    engine::FinishReason reason = engine::FinishReason::kStop;
    // Its retrievals from mounted documents; empty: the first chunks of each.
    std::vector<engine::Retrieval> retrievals = {};
    // The numbers of its usage for a conversation, besides a token for each byte of it.
    int64_t cached_tokens = 0, dropped_messages = 0;
    int64_t repeats_from = 0;  // of its usage, if it ends before its limit of tokens
  };
  struct Script {
    absl::Status error = absl::OkStatus();  // every call fails with it
    absl::Status health = absl::OkStatus();
    Generation generation = {};
    bool embed_hangs = false;  // Embed is not answered
    engine::EngineStats stats = {};
    engine::ScoreResult score = {{7, 8}, {-0.5f, -1.5f}, {7, 9}, {-0.5f, -0.25f}, 2};
  };
  // The last request of each call, the numbers of what is open, and what has happened.
  struct Seen {
    engine::SessionOptions ingest;
    std::optional<engine::Replacement> replacement;  // by an ingest
    std::string peer;                                // of an ingest or session
    engine::GenerateRequest generate;
    engine::ScoreRequest score;
    engine::RetrieveRequest retrieve;
    engine::EmbedRequest embed;
    int64_t sessions = 0, ingests = 0, imports = 0;
    int64_t opened = 0;     // sessions
    int64_t cancelled = 0;  // requests
    int64_t cancelled_ingests = 0;
    std::vector<std::string> refreshed;
    std::string backup_dir;
    std::vector<store::BackupInfo> backups;
    bool shut_down = false;
  };

  ~FakeEngine() override { Shutdown(absl::InfinitePast()); }

  void Set(Script script);  // for calls that begin afterwards
  void AddDocument(const std::string& id, const std::string& text);  // replaces one of that id
  Seen seen() const;
  // Returns once `condition` holds.
  void Await(const std::function<bool(const Seen&)>& condition) const;

  // Limits and hooks, to be set before the calls that they affect. Hooks run inside the call.
  int64_t max_sessions = 1 << 20, max_ingests = 1 << 20;
  std::function<void()> on_open;        // OpenSession begins
  std::function<void()> on_retrieve;    // Retrieve has found its hits; may only add documents
  std::function<void()> on_shutdown;    // Shutdown refuses new calls
  bool deletes_during_refresh = false;  // somebody deletes the document that is being refreshed

  const model::Model& model() const override;  // aborts: there is none
  engine::EngineStats stats() const override;
  absl::Status health() const override;
  absl::StatusOr<std::unique_ptr<engine::IngestStream>> BeginIngest(
      const std::string& id, bool from_tokens, const engine::SessionOptions& session,
      const engine::Origin& origin = {}, const std::optional<engine::Replacement>& replacement = {},
      const std::optional<std::string>& metadata = {}) override;
  absl::StatusOr<store::DocumentInfo> GetDocument(const std::string& id) override;
  absl::StatusOr<std::vector<store::DocumentInfo>> ListDocuments(
      const std::string& after, int64_t limit,
      const engine::DocumentSelection& selection = {}) override;
  absl::StatusOr<std::vector<store::IngestProgress>> ListIngests() override;
  absl::StatusOr<store::DocumentInfo> SetMetadata(const std::string& id,
                                                  const std::string& metadata,
                                                  engine::MetadataChange change) override;
  absl::Status DeleteDocument(const std::string& id) override;
  absl::StatusOr<std::string> ReadText(const std::string& id, int64_t begin, int64_t end) override;
  // Only records that it was called: all documents are of its model.
  std::shared_ptr<engine::RequestHandle> RefreshDocument(
      const std::string& id, const engine::Origin& origin,
      std::function<void(const engine::IngestStatus&)> progress,
      std::function<void(absl::StatusOr<store::DocumentInfo>)> done) override;
  absl::StatusOr<std::unique_ptr<engine::ExportStream>> ExportDocument(
      const std::string& id) override;
  absl::StatusOr<std::unique_ptr<engine::ImportStream>> ImportDocument(
      const std::string& id, const engine::Origin& origin = {},
      engine::IdCheck may_have = nullptr) override;
  // Writes nothing; returns made-up numbers.
  absl::StatusOr<store::BackupInfo> CreateBackup(const std::string& directory,
                                                 uint32_t keep) override;
  absl::StatusOr<std::vector<store::BackupInfo>> ListBackups(const std::string& directory) override;
  absl::StatusOr<engine::SessionId> OpenSession(const engine::SessionOptions& options,
                                                const engine::Origin& origin = {}) override;
  absl::StatusOr<engine::SessionInfo> GetSession(engine::SessionId id) override;
  absl::Status CloseSession(engine::SessionId id) override;
  std::shared_ptr<engine::RequestHandle> SaveSession(
      engine::SessionId session, const engine::SaveAs& as, const engine::Origin& origin,
      std::function<void(absl::StatusOr<store::DocumentInfo>)> done) override;
  std::shared_ptr<engine::RequestHandle> Generate(
      engine::GenerateRequest request, std::shared_ptr<engine::GenerateEvents> events) override;
  std::shared_ptr<engine::RequestHandle> Score(
      engine::ScoreRequest request,
      std::function<void(absl::StatusOr<engine::ScoreResult>)> done) override;
  std::shared_ptr<engine::RequestHandle> Retrieve(
      engine::RetrieveRequest request,
      std::function<void(absl::StatusOr<std::vector<engine::Retrieval>>)> done) override;
  // Embeds a text as its bytes, the number of its token ids, and the group.
  std::shared_ptr<engine::RequestHandle> Embed(
      engine::EmbedRequest request,
      std::function<void(absl::StatusOr<engine::Embedding>)> done) override;
  void Shutdown(absl::Time deadline) override;

 private:
  class Stream;
  class Import;
  struct Handle;
  using Documents = std::vector<store::DocumentInfo>;
  struct Session {
    Documents mounts;
    std::string peer, owner;
    std::shared_ptr<void> counted;    // for the account
    std::shared_ptr<Handle> running;  // null: idle
    engine::SessionText text = {};
  };
  struct Writer {
    const Stream* stream;
    std::string peer;
  };

  absl::Status error() const;
  // Functions that end in Locked: REQUIRES: mutex_ is held.
  absl::Status RefusalLocked() const;
  Seen SeenLocked() const;
  absl::Status CheckImport(const std::shared_ptr<access::Account>& account,
                           const store::DocumentInfo& document);
  absl::StatusOr<Session*> FindLocked(engine::SessionId id);
  absl::StatusOr<std::string> TextOf(engine::SessionId id);
  absl::StatusOr<Documents> MountLocked(const engine::SessionOptions& options);
  // Begins a request that brings its account and is read at once.
  template <typename Request>
  absl::StatusOr<Documents> BeginLocked(const Request& request);
  absl::Status DueLocked(bool cancelled, absl::Time deadline) const;
  void Run(const Generation& script, const engine::GenerateRequest& request,
           const Documents& mounts, engine::GenerateEvents& events, Handle& handle);
  template <typename Places>
  static absl::Status CheckRoom(const char* what, const Places& places, int64_t limit,
                                const std::string& peer) {
    const int64_t own = std::count_if(places.begin(), places.end(),
                                      [&](const auto& place) { return place.second.peer == peer; });
    return access::CheckPlace(what, std::ssize(places), limit, peer, own);
  }
  // Makes the result at once, and hands it over from another thread, as long as there is one.
  template <typename T, typename Make>
  void Reply(const std::function<void(absl::StatusOr<T>)>& done, const Make& make_locked) {
    absl::StatusOr<T> result;
    {
      std::lock_guard lock(mutex_);
      result = make_locked();
    }
    if (!answers_.Post([done, result] { done(result); })) done(result);
  }

  const std::unique_ptr<store::DocumentStore> store_ = store::CreateMemoryStore();
  Executor answers_{/*threads=*/1};

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Script script_;
  Seen seen_;
  std::map<std::string, Writer> writers_;  // by document
  std::map<engine::SessionId, Session> sessions_;
  uint64_t next_session_ = 1;
  std::vector<std::thread> threads_;  // one for each generation
  int running_ = 0;
  bool failing_ = false;  // Shutdown's deadline has passed
};

struct FakeEngine::Handle final : engine::RequestHandle {
  explicit Handle(FakeEngine& of) : engine(of) {}
  void Cancel() override {
    std::lock_guard lock(engine.mutex_);
    CancelLocked();
  }
  void CancelLocked() {
    if (!std::exchange(cancelled, true)) ++engine.seen_.cancelled;
    engine.changed_.notify_all();
  }
  FakeEngine& engine;
  bool cancelled = false;
  std::shared_ptr<void> counted;  // for the account
};

}  // namespace recollect
