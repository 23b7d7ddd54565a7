// An Engine without a model: documents are their text, a chunk is 10 bytes, a token is a byte. For
// tests of the service, the client and the command line, which only pass things on. Tests script
// what it cannot know: `error` and `generation`.
#ifndef RECOLLECT_TESTS_SUPPORT_FAKE_ENGINE_H_
#define RECOLLECT_TESTS_SUPPORT_FAKE_ENGINE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace recollect {

class FakeEngine final : public engine::Engine {
 public:
  // What Generate does, on a thread of its own: emits `pieces` one by one, then either ends or
  // waits to be cancelled.
  struct Generation {
    std::vector<std::string> pieces = {"Hel", "lo"};
    int repeat = 1;                              // the pieces, so many times
    bool then_wait = false;                      // until Cancel or Shutdown
    absl::Status then_error = absl::OkStatus();  // in place of the end
  };

  ~FakeEngine() override;

  // For calls that begin afterwards.
  void SetError(absl::Status error);  // not OK: every call fails with it
  void SetGeneration(Generation generation);
  void SetHealth(absl::Status health);

  int64_t commit_bytes = 16;          // an ingest commits at multiples of this
  absl::Duration shutdown_delay;      // Shutdown takes this long
  absl::Duration open_delay;          // OpenSession too
  std::function<void()> on_retrieve;  // after Retrieve has found its hits

  // What calls have left behind.
  engine::SessionOptions last_ingest() const;
  std::string last_peer() const;  // of an ingest or session
  engine::GenerateRequest last_generate() const;
  engine::ScoreRequest last_score() const;
  engine::RetrieveRequest last_retrieve() const;
  int cancelled() const { return cancelled_; }
  bool shut_down() const { return shut_down_; }
  void AddDocument(const std::string& id, const std::string& text);

  const model::Model& model() const override;  // aborts: there is none
  engine::EngineStats stats() const override;
  absl::Status health() const override;
  absl::StatusOr<std::unique_ptr<engine::IngestStream>> BeginIngest(
      const std::string& id, bool from_tokens, const engine::SessionOptions& session,
      const std::string& peer = "") override;
  absl::StatusOr<store::DocumentInfo> GetDocument(const std::string& id) override;
  absl::StatusOr<std::vector<store::DocumentInfo>> ListDocuments(const std::string& after,
                                                                 int64_t limit) override;
  absl::StatusOr<std::vector<store::IngestProgress>> ListIngests() override;
  absl::Status DeleteDocument(const std::string& id) override;
  absl::StatusOr<std::string> ReadText(const std::string& id, int64_t begin, int64_t end) override;
  absl::StatusOr<engine::SessionId> OpenSession(const engine::SessionOptions& options,
                                                const std::string& peer = "") override;
  absl::StatusOr<engine::SessionInfo> GetSession(engine::SessionId id) override;
  absl::Status CloseSession(engine::SessionId id) override;
  std::shared_ptr<engine::RequestHandle> Generate(
      engine::GenerateRequest request, std::shared_ptr<engine::GenerateEvents> events) override;
  std::shared_ptr<engine::RequestHandle> Score(
      engine::ScoreRequest request,
      std::function<void(absl::StatusOr<engine::ScoreResult>)> done) override;
  std::shared_ptr<engine::RequestHandle> Retrieve(
      engine::RetrieveRequest request,
      std::function<void(absl::StatusOr<std::vector<engine::Retrieval>>)> done) override;
  void Shutdown(absl::Time deadline) override;

 private:
  class Stream;
  class Handle;
  struct Unfinished {
    std::string text;  // committed
    bool from_tokens = false;
    bool open = false;
  };

  struct Published {
    std::string text;
    OwnerId owner{};
  };

  static store::DocumentInfo Describe(const std::string& id, const Published& document);
  absl::Status CheckMounts(const engine::SessionOptions& options) const;  // REQUIRES: mutex_ held
  engine::Retrieval Hits(const engine::SessionOptions& options, int64_t k) const;  // likewise
  void RunGeneration(const Generation& generation, const engine::GenerateRequest& request,
                     engine::GenerateEvents& events, Handle& handle);

  absl::Status error() const;

  mutable std::mutex mutex_;
  absl::Status error_, health_;
  Generation generation_;
  std::map<std::string, Published> documents_;
  uint64_t next_owner_ = 1;
  std::map<std::string, Unfinished> ingests_;
  std::map<uint64_t, engine::SessionOptions> sessions_;
  uint64_t next_session_ = 1;
  engine::SessionOptions last_ingest_;
  std::string last_peer_;
  engine::GenerateRequest last_generate_;
  engine::ScoreRequest last_score_;
  engine::RetrieveRequest last_retrieve_;
  std::vector<std::thread> threads_;
  std::atomic<int> cancelled_{0};
  std::atomic<bool> shut_down_{false};
};

}  // namespace recollect

#endif  // RECOLLECT_TESTS_SUPPORT_FAKE_ENGINE_H_
