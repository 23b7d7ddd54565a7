#include "tests/support/fake_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/step/limits.h"
#include "model/text/tokenizer.h"

namespace recollect {
namespace {

constexpr int64_t kChunkBytes = 10;

}  // namespace

store::DocumentInfo FakeEngine::Describe(const std::string& id, const Published& document) {
  store::DocumentInfo info;
  info.id = id;
  info.owner = document.owner;
  info.fingerprint = "fake";
  info.bytes = info.tokens = static_cast<int64_t>(document.text.size());
  info.chunks = (info.bytes + kChunkBytes - 1) / kChunkBytes;
  info.created_unix_ms = 1700000000000;
  info.stored_bytes = 2 * info.bytes;
  info.sha256 = "5ha";
  return info;
}

class FakeEngine::Handle final : public engine::RequestHandle {
 public:
  explicit Handle(FakeEngine* engine) : engine_(engine) {}
  void Cancel() override {
    if (!cancelled.exchange(true)) ++engine_->cancelled_;
  }
  std::atomic<bool> cancelled{false};

 private:
  FakeEngine* const engine_;
};

class FakeEngine::Stream final : public engine::IngestStream {
 public:
  Stream(FakeEngine* engine, std::string id, bool from_tokens)
      : engine_(engine),
        id_(std::move(id)),
        from_tokens_(from_tokens),
        text_(engine->ingests_[id_].text) {
    committed_ = static_cast<int64_t>(text_.size());
  }
  ~Stream() override {
    std::lock_guard lock(engine_->mutex_);
    if (auto found = engine_->ingests_.find(id_); found != engine_->ingests_.end())
      found->second.open = false;
  }
  engine::IngestStatus status() const override {
    const auto size = static_cast<int64_t>(text_.size());
    return {.committed_offset = committed_,
            .accepted_offset = size,
            .bytes = size,
            .tokens = size,
            .chunks = size / kChunkBytes,
            .tokens_per_s = 1000,
            .committed_sha256 = ""};
  }
  void Append(int64_t offset, std::string text, AppendDone done) override {
    Add(offset, text, done);
  }
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override {
    Add(offset, std::string(tokens.begin(), tokens.end()), done);
  }
  void Finish(std::function<void(absl::StatusOr<store::DocumentInfo>)> done) override {
    if (absl::Status error = engine_->error(); !error.ok()) return done(error);
    if (text_.empty()) return done(absl::InvalidArgumentError("the document has no tokens"));
    std::unique_lock lock(engine_->mutex_);
    const auto published = engine_->documents_.find(id_);
    if (published != engine_->documents_.end() && published->second.text != text_) {
      lock.unlock();
      return done(
          absl::AlreadyExistsError(absl::StrCat("document '", id_, "' exists with other content")));
    }
    const Published document{text_, OwnerId{engine_->next_owner_++}};
    engine_->documents_[id_] = document;
    engine_->ingests_.erase(id_);
    lock.unlock();
    done(Describe(id_, document));
  }

 private:
  void Add(int64_t offset, const std::string& text, const AppendDone& done) {
    if (absl::Status error = engine_->error(); !error.ok()) return done(error);
    if (engine_->shut_down_) return done(absl::UnavailableError("the engine has stopped"));
    if (offset != static_cast<int64_t>(text_.size())) {
      return done(absl::InvalidArgumentError(
          absl::StrCat("piece at offset ", offset, ", expected ", text_.size())));
    }
    const int64_t bad = from_tokens_ ? -1 : model::FindInvalidUtf8(text_ + text, true);
    if (bad >= 0) return done(absl::InvalidArgumentError(absl::StrCat("not UTF-8 at byte ", bad)));
    text_ += text;
    committed_ = static_cast<int64_t>(text_.size()) / engine_->commit_bytes * engine_->commit_bytes;
    bool deleted = false;
    {
      std::lock_guard lock(engine_->mutex_);
      const auto found = engine_->ingests_.find(id_);
      deleted = found == engine_->ingests_.end();
      if (!deleted) found->second.text = text_.substr(0, committed_);
    }
    if (deleted) return done(absl::AbortedError("the document was deleted"));
    done(status());
  }

  FakeEngine* const engine_;
  const std::string id_;
  const bool from_tokens_;
  std::string text_;
  int64_t committed_ = 0;
};

FakeEngine::~FakeEngine() { Shutdown(absl::InfinitePast()); }

void FakeEngine::SetError(absl::Status error) {
  std::lock_guard lock(mutex_);
  error_ = std::move(error);
}
void FakeEngine::SetGeneration(Generation generation) {
  std::lock_guard lock(mutex_);
  generation_ = std::move(generation);
}
void FakeEngine::SetHealth(absl::Status health) {
  std::lock_guard lock(mutex_);
  health_ = std::move(health);
}
absl::Status FakeEngine::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

engine::SessionOptions FakeEngine::last_ingest() const {
  std::lock_guard lock(mutex_);
  return last_ingest_;
}
std::string FakeEngine::last_peer() const {
  std::lock_guard lock(mutex_);
  return last_peer_;
}
engine::GenerateRequest FakeEngine::last_generate() const {
  std::lock_guard lock(mutex_);
  return last_generate_;
}
engine::ScoreRequest FakeEngine::last_score() const {
  std::lock_guard lock(mutex_);
  return last_score_;
}
engine::RetrieveRequest FakeEngine::last_retrieve() const {
  std::lock_guard lock(mutex_);
  return last_retrieve_;
}

void FakeEngine::AddDocument(const std::string& id, const std::string& text) {
  std::lock_guard lock(mutex_);
  documents_[id] = {text, OwnerId{next_owner_++}};
}

const model::Model& FakeEngine::model() const {
  RECOLLECT_CHECK(false && "the fake engine has no model");
  return *static_cast<const model::Model*>(nullptr);
}

absl::Status FakeEngine::health() const {
  std::lock_guard lock(mutex_);
  return health_;
}

engine::EngineStats FakeEngine::stats() const {
  engine::EngineStats stats;
  {
    std::lock_guard lock(mutex_);
    stats.sessions = std::ssize(sessions_);
  }
  stats.landmark_bytes = 11;
  stats.memory_bytes = 12;
  stats.host_bytes = 13;
  stats.store_bytes = 14;
  stats.device_free_bytes = 15;
  stats.device_total_bytes = 16;
  stats.graph_launches = 17;
  stats.landmark_step_p50_ms = 1.5;
  return stats;
}

absl::StatusOr<std::unique_ptr<engine::IngestStream>> FakeEngine::BeginIngest(
    const std::string& id, bool from_tokens, const engine::SessionOptions& session,
    const std::string& peer) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(engine::CheckNewDocumentId(id));
  RETURN_IF_ERROR(engine::CheckSession(session));
  std::lock_guard lock(mutex_);
  last_ingest_ = session;
  last_peer_ = peer;
  Unfinished& ingest = ingests_[id];
  if (ingest.open) return absl::AbortedError(absl::StrCat("another stream writes '", id, "'"));
  ingest.open = true;
  ingest.from_tokens = from_tokens;
  return std::make_unique<Stream>(this, id, from_tokens);
}

absl::StatusOr<store::DocumentInfo> FakeEngine::GetDocument(const std::string& id) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(engine::CheckDocumentId(id));
  std::lock_guard lock(mutex_);
  const auto found = documents_.find(id);
  if (found == documents_.end()) return absl::NotFoundError(absl::StrCat("no document '", id, "'"));
  return Describe(id, found->second);
}

absl::StatusOr<std::vector<store::DocumentInfo>> FakeEngine::ListDocuments(const std::string& after,
                                                                           int64_t limit) {
  RETURN_IF_ERROR(error());
  std::lock_guard lock(mutex_);
  std::vector<store::DocumentInfo> page;
  for (auto it = documents_.upper_bound(after);
       it != documents_.end() && static_cast<int64_t>(page.size()) < limit; ++it) {
    page.push_back(Describe(it->first, it->second));
  }
  return page;
}

absl::StatusOr<std::vector<store::IngestProgress>> FakeEngine::ListIngests() {
  RETURN_IF_ERROR(error());
  std::lock_guard lock(mutex_);
  std::vector<store::IngestProgress> ingests;
  for (const auto& [id, ingest] : ingests_) {
    store::IngestProgress progress;
    progress.id = id;
    progress.from_tokens = ingest.from_tokens;
    progress.input_offset = progress.bytes = static_cast<int64_t>(ingest.text.size());
    ingests.push_back(progress);
  }
  return ingests;
}

absl::Status FakeEngine::DeleteDocument(const std::string& id) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(engine::CheckDocumentId(id));
  std::lock_guard lock(mutex_);
  if (documents_.erase(id) + ingests_.erase(id) == 0)
    return absl::NotFoundError(absl::StrCat("no document '", id, "'"));
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeEngine::ReadText(const std::string& id, int64_t begin,
                                                 int64_t end) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(engine::CheckDocumentId(id));
  std::lock_guard lock(mutex_);
  const auto found = documents_.find(id);
  if (found == documents_.end()) return absl::NotFoundError(absl::StrCat("no document '", id, "'"));
  if (end > static_cast<int64_t>(found->second.text.size())) {
    return absl::OutOfRangeError(
        absl::StrCat("end ", end, ", text has ", found->second.text.size(), " bytes"));
  }
  return found->second.text.substr(begin, end - begin);
}

absl::Status FakeEngine::CheckMounts(const engine::SessionOptions& options) const {
  for (const std::string& id : options.mounts) {
    if (!documents_.contains(id))
      return absl::NotFoundError(absl::StrCat("mount '", id, "': no such document"));
    if (std::count(options.mounts.begin(), options.mounts.end(), id) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("mount '", id, "': named twice"));
    }
  }
  return absl::OkStatus();
}

engine::Retrieval FakeEngine::Hits(const engine::SessionOptions& options, int64_t k) const {
  engine::Retrieval retrieval;
  retrieval.position = 64;
  for (const std::string& id : options.mounts) {
    const store::DocumentInfo info = Describe(id, documents_.at(id));
    retrieval.candidates += info.chunks;
    for (int64_t c = 0; c < info.chunks && static_cast<int64_t>(retrieval.hits.size()) < k; ++c) {
      retrieval.hits.push_back({id, c, 2.5f, 0.5f, c * kChunkBytes,
                                std::min(info.bytes, (c + 1) * kChunkBytes), engine::Tier::kHost,
                                info.owner});
    }
  }
  return retrieval;
}

absl::StatusOr<engine::SessionId> FakeEngine::OpenSession(const engine::SessionOptions& options,
                                                          const std::string& peer) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(engine::CheckSession(options));
  absl::SleepFor(open_delay);
  std::lock_guard lock(mutex_);
  last_peer_ = peer;
  RETURN_IF_ERROR(CheckMounts(options));
  sessions_[next_session_] = options;
  return engine::SessionId{next_session_++};
}

absl::StatusOr<engine::SessionInfo> FakeEngine::GetSession(engine::SessionId id) {
  RETURN_IF_ERROR(error());
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(static_cast<uint64_t>(id));
  if (found == sessions_.end())
    return absl::NotFoundError(absl::StrCat("no session ", static_cast<uint64_t>(id)));
  return engine::SessionInfo{id, found->second.mounts, 65, 1};
}

absl::Status FakeEngine::CloseSession(engine::SessionId id) {
  RETURN_IF_ERROR(error());
  std::lock_guard lock(mutex_);
  if (sessions_.erase(static_cast<uint64_t>(id)) == 0)
    return absl::NotFoundError("no such session");
  return absl::OkStatus();
}

std::shared_ptr<engine::RequestHandle> FakeEngine::Generate(
    engine::GenerateRequest request, std::shared_ptr<engine::GenerateEvents> events) {
  auto handle = std::make_shared<Handle>(this);
  std::lock_guard lock(mutex_);
  if (engine::CheckRequest(request).ok()) last_generate_ = request;
  threads_.emplace_back([this, generation = generation_, request = std::move(request),
                         events = std::move(events),
                         handle] { RunGeneration(generation, request, *events, *handle); });
  return handle;
}

void FakeEngine::RunGeneration(const Generation& generation, const engine::GenerateRequest& request,
                               engine::GenerateEvents& events, Handle& handle) {
  absl::Status status = error();
  status.Update(engine::CheckRequest(request));
  engine::Retrieval hits;
  if (status.ok()) {
    std::lock_guard lock(mutex_);
    status = CheckMounts(request.session_options);
    if (status.ok()) hits = Hits(request.session_options, 2);
  }
  if (!status.ok()) return events.OnError(status);
  if (request.want_hits) events.OnRetrieval(hits);
  int64_t tokens = 0;
  for (int i = 0; i < generation.repeat; ++i) {
    for (const std::string& piece : generation.pieces) {
      if (handle.cancelled) return events.OnError(absl::CancelledError("cancelled"));
      events.OnTokens({static_cast<int32_t>(tokens++)}, piece);
    }
  }
  while (generation.then_wait) {
    if (handle.cancelled || shut_down_) return events.OnError(absl::CancelledError("cancelled"));
    if (SteadyNow() >= request.deadline)
      return events.OnError(absl::DeadlineExceededError("deadline"));
    absl::SleepFor(absl::Milliseconds(1));
  }
  if (!generation.then_error.ok()) return events.OnError(generation.then_error);
  engine::Usage usage;
  usage.prompt_tokens = static_cast<int64_t>(request.prompt.text.size());
  usage.generated_tokens = tokens;
  usage.time_to_first_token = absl::Milliseconds(2);
  events.OnDone(engine::FinishReason::kStop, usage);
}

std::shared_ptr<engine::RequestHandle> FakeEngine::Score(
    engine::ScoreRequest request, std::function<void(absl::StatusOr<engine::ScoreResult>)> done) {
  absl::Status status = error();
  status.Update(engine::CheckRequest(request));
  {
    std::lock_guard lock(mutex_);
    last_score_ = request;
    if (status.ok()) status = CheckMounts(request.session_options);
  }
  if (status.ok()) {
    done(engine::ScoreResult{{7, 8}, {-0.5f, -1.5f}, {7, 9}, 2});
  } else {
    done(status);
  }
  return std::make_shared<Handle>(this);
}

std::shared_ptr<engine::RequestHandle> FakeEngine::Retrieve(
    engine::RetrieveRequest request,
    std::function<void(absl::StatusOr<std::vector<engine::Retrieval>>)> done) {
  absl::Status status = error();
  status.Update(engine::CheckRequest(request));
  std::vector<engine::Retrieval> result;
  {
    std::lock_guard lock(mutex_);
    last_retrieve_ = request;
    if (status.ok()) status = CheckMounts(request.session_options);
    if (status.ok())
      result.push_back(Hits(request.session_options, request.k == 0 ? 2 : request.k));
  }
  if (on_retrieve) on_retrieve();
  if (status.ok()) {
    done(result);
  } else {
    done(status);
  }
  return std::make_shared<Handle>(this);
}

void FakeEngine::Shutdown(absl::Time) {
  shut_down_ = true;
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  absl::SleepFor(shutdown_delay);
}

}  // namespace recollect
