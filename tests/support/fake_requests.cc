// How requests of the fake engine run and end.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "engine/saving_events.h"
#include "engine/step/limits.h"
#include "tests/support/fake_engine.h"

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
  if (tokens < request.max_tokens) usage.repeats_from = script.repeats_from;
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
