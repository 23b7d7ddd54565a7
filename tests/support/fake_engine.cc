#include "tests/support/fake_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/save_text.h"
#include "engine/saving_events.h"
#include "engine/session/mount_names.h"
#include "engine/step/limits.h"
#include "store/metadata.h"
#include "store/metadata_filter.h"

namespace recollect {
namespace {

std::chrono::nanoseconds Until(absl::Time steady_deadline) {
  return absl::ToChronoNanoseconds(
      std::clamp(steady_deadline - SteadyNow(), absl::ZeroDuration(), absl::Hours(1)));
}

engine::Retrieval Hits(const std::vector<store::DocumentInfo>& mounts, int64_t k) {
  constexpr int64_t kChunkBytes = FakeEngine::kChunkBytes;
  engine::Retrieval retrieval;
  retrieval.position = 64;
  for (const store::DocumentInfo& info : mounts) {
    retrieval.candidates += info.chunks;
    for (int64_t c = 0; c < info.chunks && std::ssize(retrieval.hits) < k; ++c) {
      retrieval.hits.push_back({info.id, c, 2.5f, 0.5f, c * kChunkBytes,
                                std::min(info.bytes, (c + 1) * kChunkBytes), engine::Tier::kStates,
                                info.owner});
    }
  }
  return retrieval;
}

int64_t PromptTokens(const engine::Prompt& prompt) {
  int64_t bytes = std::ssize(prompt.text);
  for (const ChatMessage& message : prompt.messages) bytes += std::ssize(message.content);
  return bytes;
}

// Hits say which documents they are of, and get the owners of these.
std::vector<engine::Retrieval> Retrievals(const std::vector<engine::Retrieval>& script,
                                          const std::vector<store::DocumentInfo>& mounts) {
  if (script.empty()) return {Hits(mounts, 2)};
  std::vector<engine::Retrieval> retrievals = script;
  for (engine::Retrieval& retrieval : retrievals) {
    std::erase_if(retrieval.hits, [&](engine::Hit& hit) {
      const auto mounted = std::find_if(mounts.begin(), mounts.end(),
                                        [&](const auto& info) { return info.id == hit.document; });
      if (mounted != mounts.end()) hit.owner = mounted->owner;
      return mounted == mounts.end();
    });
  }
  return retrievals;
}

// Each likeliest token after the first is the next id, at a quarter less.
engine::ChosenLogprob LogprobsOf(int32_t token, int64_t top) {
  engine::ChosenLogprob result{{token, -0.25f}, {}};
  for (int32_t i = 0; i < top; ++i)
    result.top.push_back({token + i, -0.25f * static_cast<float>(1 + i)});
  return result;
}

}  // namespace

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

void FakeEngine::Set(Script script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

FakeEngine::Seen FakeEngine::SeenLocked() const {
  Seen seen = seen_;
  seen.sessions = std::ssize(sessions_);
  seen.ingests = std::ssize(writers_);
  return seen;
}

FakeEngine::Seen FakeEngine::seen() const {
  std::lock_guard lock(mutex_);
  return SeenLocked();
}

void FakeEngine::Await(const std::function<bool(const Seen&)>& condition) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return condition(SeenLocked()); });
}

const model::Model& FakeEngine::model() const {
  RECOLLECT_CHECK(false && "the fake engine has no model");
  return *static_cast<const model::Model*>(nullptr);
}

absl::Status FakeEngine::health() const {
  std::lock_guard lock(mutex_);
  return script_.health;
}

engine::EngineStats FakeEngine::stats() const {
  std::lock_guard lock(mutex_);
  engine::EngineStats stats = script_.stats;
  stats.sessions = std::ssize(sessions_);
  return stats;
}

absl::Status FakeEngine::error() const {
  std::lock_guard lock(mutex_);
  return script_.error;
}

absl::Status FakeEngine::RefusalLocked() const {
  RETURN_IF_ERROR(script_.error);
  return seen_.shut_down ? absl::UnavailableError("the engine is shutting down") : absl::OkStatus();
}

absl::StatusOr<store::DocumentInfo> FakeEngine::GetDocument(const std::string& id) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(engine::CheckDocumentId(id));
  return store_->Get(id);
}

absl::StatusOr<std::vector<store::DocumentInfo>> FakeEngine::ListDocuments(
    const std::string& after, int64_t limit, const engine::DocumentSelection& selection) {
  RETURN_IF_ERROR(error());
  ASSIGN_OR_RETURN(const store::MetadataFilter filter,
                   store::MetadataFilter::Parse(selection.filter, "filter"));
  return store::ListMatching(*store_, after, limit, selection.beginning, filter);
}

absl::StatusOr<store::DocumentInfo> FakeEngine::SetMetadata(const std::string& id,
                                                            const std::string& metadata,
                                                            engine::MetadataChange change) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(engine::CheckDocumentId(id));
  return store_->ChangeMetadata(id, [&](const std::string& before) {
    return change == engine::MetadataChange::kPatch ? store::PatchMetadata(before, metadata)
                                                    : store::ReadMetadata(metadata);
  });
}

absl::StatusOr<std::vector<store::IngestProgress>> FakeEngine::ListIngests() {
  RETURN_IF_ERROR(error());
  return store_->ListIngests();
}

absl::StatusOr<std::string> FakeEngine::ReadText(const std::string& id, int64_t begin,
                                                 int64_t end) {
  ASSIGN_OR_RETURN(const store::DocumentInfo info, GetDocument(id));
  return store_->ReadText(info.owner, begin, end);
}

absl::StatusOr<FakeEngine::Documents> FakeEngine::MountLocked(
    const engine::SessionOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, engine::ExpandMounts(*store_, options));
  Documents documents;
  for (const std::string& id : ids) {
    if (std::count(ids.begin(), ids.end(), id) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("mounts: document '", id, "' is mounted twice"));
    }
    ASSIGN_OR_RETURN(documents.emplace_back(), store_->Get(id));
  }
  return documents;
}

absl::StatusOr<engine::SessionId> FakeEngine::OpenSession(const engine::SessionOptions& options,
                                                          const engine::Origin& origin) {
  RETURN_IF_ERROR(engine::CheckSession(options));
  if (on_open) on_open();
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(RefusalLocked());
  seen_.peer = origin.peer;
  RETURN_IF_ERROR(CheckRoom("sessions", sessions_, max_sessions, origin.peer));
  std::shared_ptr<void> counted;
  if (origin.account != nullptr) {
    ASSIGN_OR_RETURN(counted, origin.account->TakeSession());
  }
  ASSIGN_OR_RETURN(Documents mounts, MountLocked(options));
  const engine::SessionId id{next_session_++};
  sessions_.emplace(
      id, Session{std::move(mounts), origin.peer, origin.owner, std::move(counted), nullptr});
  ++seen_.opened;
  return id;
}

absl::StatusOr<FakeEngine::Session*> FakeEngine::FindLocked(engine::SessionId id) {
  RETURN_IF_ERROR(script_.error);
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) return &found->second;
  return absl::NotFoundError(absl::StrCat("no open session ", static_cast<uint64_t>(id)));
}

absl::StatusOr<engine::SessionInfo> FakeEngine::GetSession(engine::SessionId id) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const Session* const session, FindLocked(id));
  engine::SessionInfo info{
      .id = id, .mounts = {}, .positions = 65, .own_chunks = 1, .owner = session->owner};
  for (const store::DocumentInfo& document : session->mounts) info.mounts.push_back(document.id);
  return info;
}

absl::Status FakeEngine::CloseSession(engine::SessionId id) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const Session* const session, FindLocked(id));
  if (session->running != nullptr) session->running->CancelLocked();
  sessions_.erase(id);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeEngine::TextOf(engine::SessionId id) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const Session* const session, FindLocked(id));
  if (session->running != nullptr) return absl::AbortedError("another request runs on the session");
  std::string text = session->text.Get();
  if (!text.empty()) return text;
  return absl::FailedPreconditionError("the session has read nothing: there is no text to save");
}

std::shared_ptr<engine::RequestHandle> FakeEngine::SaveSession(
    engine::SessionId session, const engine::SaveAs& as, const engine::Origin& origin,
    std::function<void(absl::StatusOr<store::DocumentInfo>)> done) {
  std::string text;
  const auto begin = [&]() -> absl::StatusOr<std::shared_ptr<engine::TextSave>> {
    RETURN_IF_ERROR(engine::CheckNewDocumentId(as.id));
    ASSIGN_OR_RETURN(text, TextOf(session));
    return engine::TextSave::Begin(*this, as, origin, {.text = text, .is_all = true});
  };
  auto save = begin();
  if (save.ok()) {
    (*save)->Write(std::move(text), std::move(done));
    return *std::move(save);
  }
  Reply(done, [&]() -> absl::StatusOr<store::DocumentInfo> { return save.status(); });
  return nullptr;
}

template <typename Request>
absl::StatusOr<FakeEngine::Documents> FakeEngine::BeginLocked(const Request& request) {
  RETURN_IF_ERROR(RefusalLocked());
  RETURN_IF_ERROR(DueLocked(/*cancelled=*/false, request.deadline));
  if (request.account != nullptr) RETURN_IF_ERROR(request.account->CheckTokens());
  return MountLocked(request.session_options);
}

absl::Status FakeEngine::DueLocked(bool cancelled, absl::Time deadline) const {
  if (cancelled) return absl::CancelledError("cancelled by the caller");
  if (failing_) return absl::UnavailableError("the engine is shutting down");
  if (deadline <= SteadyNow()) return absl::DeadlineExceededError("deadline exceeded");
  return absl::OkStatus();
}

std::shared_ptr<engine::RequestHandle> FakeEngine::Generate(
    engine::GenerateRequest request, std::shared_ptr<engine::GenerateEvents> events) {
  auto handle = std::make_shared<Handle>(*this);
  absl::Status saves = absl::OkStatus();
  if (request.save_as.has_value() && engine::CheckRequest(request).ok()) {
    auto saving = std::make_shared<engine::SavingEvents>(*this, request, nullptr, events);
    saves = saving->Begin();
    events = std::move(saving);
  }
  const auto begin = [&]() -> absl::StatusOr<Documents> {
    RETURN_IF_ERROR(engine::CheckRequest(request));
    seen_.generate = request;
    RETURN_IF_ERROR(saves);
    ASSIGN_OR_RETURN(Documents mounts, BeginLocked(request));
    if (!request.session.has_value()) {
      if (request.account != nullptr) {
        ASSIGN_OR_RETURN(handle->counted, request.account->TakeSession());
      }
      return mounts;
    }
    ASSIGN_OR_RETURN(Session* const session, FindLocked(*request.session));
    if (session->running != nullptr) {
      return absl::AbortedError("another request runs on the session");
    }
    session->running = handle;
    return session->mounts;
  };
  std::unique_lock lock(mutex_);
  absl::StatusOr<Documents> mounts = begin();
  if (!mounts.ok()) {
    lock.unlock();
    Reply<Documents>([events](const auto& refused) { events->OnError(refused.status()); },
                     [&] { return mounts; });
    return handle;
  }
  ++running_;
  threads_.emplace_back([=, this, mounts = *std::move(mounts), script = script_.generation] {
    Run(script, request, mounts, *events, *handle);
    std::lock_guard guard(mutex_);
    --running_;
    changed_.notify_all();
  });
  return handle;
}

void FakeEngine::Run(const Generation& script, const engine::GenerateRequest& request,
                     const Documents& mounts, engine::GenerateEvents& events, Handle& handle) {
  if (request.with_retrievals) {
    for (const engine::Retrieval& retrieval : Retrievals(script.retrievals, mounts))
      events.OnRetrieval(retrieval);
  }
  const int64_t pieces = std::ssize(script.pieces);
  const int64_t most = std::min(request.max_tokens, script.repeat * pieces);
  int64_t tokens = 0;
  std::string generated;
  std::unique_lock lock(mutex_);
  absl::Status status = DueLocked(handle.cancelled, request.deadline);
  for (; status.ok() && tokens < most; status = DueLocked(handle.cancelled, request.deadline)) {
    lock.unlock();
    if (request.logprobs.has_value())
      events.OnLogprobs(LogprobsOf(static_cast<int32_t>(tokens), *request.logprobs));
    events.OnTokens({static_cast<int32_t>(tokens)}, script.pieces[tokens % pieces]);
    generated += script.pieces[tokens % pieces];
    ++tokens;
    lock.lock();
  }
  if (status.ok() && (script.then_wait || script.then_hang) && tokens < request.max_tokens) {
    changed_.wait_for(lock, Until(request.deadline), [&] {
      return handle.cancelled || failing_ || (script.then_wait && seen_.shut_down);
    });
    status = DueLocked(handle.cancelled, request.deadline);
  }
  if (status.ok()) status = script.then_error;
  // Before the caller is told, who may use the session again at once.
  if (const auto session = FindLocked(request.session.value_or(engine::SessionId{0}));
      session.ok()) {
    (*session)->running = nullptr;
    (*session)->text.Add(engine::SaidIn(request.prompt, nullptr));
    (*session)->text.AddGenerated(generated);
  }
  handle.counted = nullptr;
  if (request.account != nullptr)
    request.account->SpendTokens(PromptTokens(request.prompt) + tokens);
  lock.unlock();
  if (!status.ok()) return events.OnError(status);
  if (script.reason == engine::FinishReason::kEos && tokens < request.max_tokens &&
      request.logprobs.has_value())
    events.OnLogprobs(LogprobsOf(kEndToken, *request.logprobs));
  engine::Usage usage;
  usage.prompt_tokens = PromptTokens(request.prompt);
  usage.cached_tokens = script.cached_tokens;
  usage.dropped_messages = script.dropped_messages;
  usage.generated_tokens = tokens;
  usage.time_to_first_token = absl::Milliseconds(2);
  events.OnDone(tokens == request.max_tokens ? engine::FinishReason::kMaxTokens : script.reason,
                usage);
}

std::shared_ptr<engine::RequestHandle> FakeEngine::Score(
    engine::ScoreRequest request, std::function<void(absl::StatusOr<engine::ScoreResult>)> done) {
  Reply(done, [&]() -> absl::StatusOr<engine::ScoreResult> {
    RETURN_IF_ERROR(engine::CheckRequest(request));
    seen_.score = request;
    RETURN_IF_ERROR(BeginLocked(request).status());
    engine::ScoreResult result = script_.score;
    if (!result.top.empty()) return result;
    for (size_t i = 0; i < result.tokens.size(); ++i) {
      for (int64_t n = 0; n < request.top_logprobs; ++n)
        result.top.push_back(
            n > 0 ? engine::TokenLogprob{}
                  : engine::TokenLogprob{result.argmax[i], result.argmax_logprobs[i]});
    }
    return result;
  });
  return std::make_shared<Handle>(*this);
}

std::shared_ptr<engine::RequestHandle> FakeEngine::Retrieve(
    engine::RetrieveRequest request,
    std::function<void(absl::StatusOr<std::vector<engine::Retrieval>>)> done) {
  Reply(done, [&]() -> absl::StatusOr<std::vector<engine::Retrieval>> {
    RETURN_IF_ERROR(engine::CheckRequest(request));
    seen_.retrieve = request;
    ASSIGN_OR_RETURN(const Documents mounts, BeginLocked(request));
    if (on_retrieve) on_retrieve();
    return std::vector{Hits(mounts, request.k == 0 ? 2 : request.k)};
  });
  return std::make_shared<Handle>(*this);
}

std::shared_ptr<engine::RequestHandle> FakeEngine::Embed(
    engine::EmbedRequest request, std::function<void(absl::StatusOr<engine::Embedding>)> done) {
  const auto handle = std::make_shared<Handle>(*this);
  const auto embed = [&]() -> absl::StatusOr<engine::Embedding> {
    RETURN_IF_ERROR(engine::CheckRequest(request));
    RETURN_IF_ERROR(CheckRange<int64_t>("group", request.group, 0, 1));
    RETURN_IF_ERROR(BeginLocked(request).status());
    const int64_t bytes = std::ssize(request.text.text), tokens = std::ssize(request.text.tokens);
    return engine::Embedding{
        {static_cast<float>(bytes), static_cast<float>(tokens), static_cast<float>(request.group)},
        bytes + tokens};
  };
  {
    std::lock_guard lock(mutex_);
    seen_.embed = request;
    changed_.notify_all();
    if (script_.embed_hangs) return handle;
  }
  Reply(done, embed);
  return handle;
}

void FakeEngine::Shutdown(absl::Time deadline) {
  std::vector<std::thread> threads;
  std::unique_lock lock(mutex_);
  if (std::exchange(seen_.shut_down, true)) return;
  changed_.notify_all();
  if (on_shutdown) {
    lock.unlock();
    on_shutdown();
    lock.lock();
  }
  changed_.wait_for(lock, Until(deadline), [this] { return running_ == 0; });
  failing_ = true;
  changed_.notify_all();
  threads.swap(threads_);
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  answers_.Stop();
}

}  // namespace recollect
